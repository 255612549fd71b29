// What the tests of Network share: processes with symmetric memory that all of them can look at.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/report.hpp"
#include "tests/transport/child.hpp"
#include "tests/transport/socket_fabric.hpp"
#include "transport/net/network.hpp"

namespace sft {

inline constexpr std::int64_t kPatienceNs = 60'000'000'000;
inline constexpr int kProcessesMax = 4;
inline constexpr std::uint64_t kSecret = 0x5ec4e7'0123'4567;
inline constexpr std::size_t kHeapBytes = std::size_t{48} << 20;
inline constexpr std::size_t kStoreBytes = std::size_t{8} << 20;
inline constexpr std::uintptr_t kHeapBase = 0x2000'0000'0000;
inline constexpr std::uintptr_t kGlobalsBase = 0x2100'0000'0000;
inline constexpr std::size_t kGlobalsBytes = 64 * 1024;

// Memory that the processes of a test share, to say how far they are.
struct NetBoard {
    std::atomic<int> n_open;
    std::atomic<int> n_done;
    std::atomic<int> step;
    std::atomic<std::uint64_t> values[8];
    std::size_t address_bytes[kProcessesMax];
    std::byte addresses[kProcessesMax][kFabricAddressBytes];
};

inline std::unique_ptr<Fabric> fabric_of(const std::string& name) {
    if (name == "socket") {
        return std::make_unique<SocketFabric>();
    }
    auto fabric = make_fabric(name);
    if (!fabric) {
        die("%s", fabric.error().line.c_str());
    }
    return std::move(*fabric);
}

inline void* map_shared(std::size_t bytes) {
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    return memory;
}

inline void patiently(const std::function<bool()>& is_done) {
    const std::int64_t end_ns = now_ns() + kPatienceNs;
    while (!is_done()) {
        ::sched_yield();
        if (now_ns() > end_ns) {
            die("a test has waited for too long");
        }
    }
}

// The symmetric memory of all processes, as the parent and every process see it: at the symmetric address lies only
// the process's own.
class NetMemory {
public:
    NetMemory() {
        for (int i = 0; i < kProcessesMax; ++i) {
            fds_[i] = ::memfd_create("heap", MFD_CLOEXEC);
            EXPECT_EQ(::ftruncate(fds_[i], static_cast<off_t>(kHeapBytes + kGlobalsBytes)), 0);
            windows_[i] = static_cast<std::byte*>(
                ::mmap(nullptr, kHeapBytes + kGlobalsBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds_[i], 0));
            stores_[i] = static_cast<std::byte*>(map_shared(kStoreBytes));
        }
        board_ = new (map_shared(sizeof(NetBoard))) NetBoard{};
    }
    ~NetMemory() {
        for (int i = 0; i < kProcessesMax; ++i) {
            ::munmap(windows_[i], kHeapBytes + kGlobalsBytes);
            ::munmap(stores_[i], kStoreBytes);
            ::close(fds_[i]);
        }
        ::munmap(board_, sizeof(NetBoard));
    }
    NetMemory(const NetMemory&) = delete;
    NetMemory& operator=(const NetMemory&) = delete;

    void become(int process) const {
        const auto map = [&](std::uintptr_t at, std::size_t bytes, std::size_t offset) {
            const void* const memory =
                ::mmap(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE,
                       fds_[process], static_cast<off_t>(offset));
            if (memory == MAP_FAILED) {
                die("no room for a heap");
            }
        };
        map(kHeapBase, kHeapBytes, 0);
        map(kGlobalsBase, kGlobalsBytes, kHeapBytes);
    }

    // Where an address of process i shows here.
    template <class T>
    [[nodiscard]] T* seen(int process, const T* symmetric) const {
        const auto address = reinterpret_cast<std::uintptr_t>(symmetric);
        const std::size_t offset =
            address >= kGlobalsBase ? kHeapBytes + (address - kGlobalsBase) : address - kHeapBase;
        return reinterpret_cast<T*>(windows_[process] + offset);
    }
    [[nodiscard]] std::byte* store(int process) const { return stores_[process]; }
    [[nodiscard]] NetBoard& board() const { return *board_; }
    // For the next job of the same test.
    void restart() { board_ = new (board_) NetBoard{}; }

private:
    int fds_[kProcessesMax];
    std::byte* windows_[kProcessesMax];
    std::byte* stores_[kProcessesMax];
    NetBoard* board_;
};

template <class T = std::byte>
inline T* heap(std::size_t offset = 0) {
    return reinterpret_cast<T*>(kHeapBase + offset);
}

// One process: PE i is process i.
class NetNode {
public:
    NetNode(const std::string& fabric, const NetMemory& all_memory, int self, int n, WaitStyle style = {100, 0})
        : memory(all_memory), board(memory.board()) {
        memory.become(self);
        Network::Options options;
        options.self = ProcId(self);
        options.me = PeId(self);
        options.n_pes = n;
        options.n_slots = kProcessesMax;
        options.secret = kSecret;
        options.fabric = fabric_of(fabric);
        options.interface = "lo";
        options.address = "127.0.0.1";
        options.heap = {kHeapBase, kHeapBytes};
        options.globals = {kGlobalsBase, kGlobalsBytes};
        options.doorbell = &doorbell;
        options.gate = &gate;
        options.wait_style = style;
        options.address_of = [this](ProcId process) {
            return Bytes(board.addresses[process.index()], board.address_bytes[process.index()]);
        };
        options.connection_lost = [this](ProcId) { ++n_lost; };
        if (const Result<> opened = network.open(std::move(options)); !opened) {
            die("%s", opened.error().line.c_str());
        }
        const Bytes address = network.address();
        std::memcpy(board.addresses[self], address.data(), address.size());
        board.address_bytes[self] = address.size();
        network.set_store(memory.store(self), kStoreBytes);
        for (int pe = 0; pe < n; ++pe) {
            if (pe != self) {
                network.set_holder(PeId(pe), ProcId(pe));
            }
        }
        ++board.n_open;
        patiently([&] { return board.n_open >= n; });
    }

    // All n have come here for the k-th time. Nobody polls meanwhile: the progress threads do the work.
    void meet(int n) {
        ++n_meetings_;
        ++board.n_done;
        patiently([&] { return board.n_done >= n * n_meetings_; });
    }
    void reach(int step) const { board.step = step; }
    void await_step(int step) const {
        patiently([&] { return board.step >= step; });
    }

    const NetMemory& memory;
    NetBoard& board;
    Doorbell doorbell{};
    FaultGate gate;
    std::atomic<int> n_lost{0};
    Network network;

private:
    int n_meetings_ = 0;
};

class NetTest : public testing::TestWithParam<std::string> {
protected:
    using Body = std::function<void(NetNode&)>;
    void start(int self, int n, const Body& body, WaitStyle style = {100, 0}) {
        children.push_back(std::make_unique<Child>([&, self, n, style] {
            NetNode node(GetParam(), memory, self, n, style);
            body(node);
            return 0;
        }));
    }
    void run(int n, const std::function<void(NetNode&, int self)>& body) {
        for (int self = 0; self < n; ++self) {
            start(self, n, [&, self, n](NetNode& node) {
                body(node, self);
                node.network.quiet();
                node.meet(n);
            });
        }
        expect_all_end_well();
    }
    void expect_all_end_well() {
        for (std::size_t i = 0; i < children.size(); ++i) {
            EXPECT_EQ(children[i]->end(), 0) << "process " << i;
        }
        children.clear();
    }

    NetMemory memory;
    std::vector<std::unique_ptr<Child>> children;

public:
    static std::vector<std::string> fabrics() {
        std::vector<std::string> names{"socket"};
        const std::string all = fabric_names() + ",";
        for (std::size_t at = 0, end = 0; (end = all.find(',', at)) != std::string::npos; at = end + 2) {
            if (end > at) {
                names.push_back(all.substr(at, end - at));
            }
        }
        return names;
    }
    static std::string name_of(const testing::TestParamInfo<std::string>& info) { return info.param; }
};

}  // namespace sft
