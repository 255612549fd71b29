// What the tests of fabrics share: processes that know each other's addresses, messages that can be recognised.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/report.hpp"
#include "tests/transport/child.hpp"
#include "transport/net/network.hpp"

namespace sft {

inline constexpr std::int64_t kPatienceNs = 60'000'000'000;
inline constexpr int kPlacesMax = 16;

// Memory that the processes of a test share.
struct Board {
    std::atomic<int> n_open;
    std::atomic<int> n_done;
    std::atomic<int> step;  // of tests with steps
    std::size_t address_bytes[kPlacesMax];
    std::byte addresses[kPlacesMax][kFabricAddressBytes];
};

class SharedBoard {
public:
    SharedBoard()
        : memory_(::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
          board_(new (memory_) Board{}) {}
    ~SharedBoard() { ::munmap(memory_, sizeof(Board)); }
    SharedBoard(const SharedBoard&) = delete;
    SharedBoard& operator=(const SharedBoard&) = delete;
    Board* operator->() const { return board_; }
    Board& operator*() const { return *board_; }

private:
    void* memory_;
    Board* board_;
};

struct TestHead {
    std::int32_t from = 0;
    std::uint32_t number = 0;
    std::uint64_t bytes = 0;
};

inline Bytes bytes_of(const TestHead& head) { return std::as_bytes(std::span(&head, 1)); }

inline TestHead head_in(Bytes bytes) {
    TestHead head;
    EXPECT_EQ(bytes.size(), sizeof head);
    std::memcpy(&head, bytes.data(), std::min(sizeof head, bytes.size()));
    return head;
}

// What message `number` of `from` holds.
inline std::vector<std::byte> content(std::int32_t from, std::uint32_t number, std::size_t bytes) {
    std::vector<std::byte> data(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
        data[i] = static_cast<std::byte>((i >> 8 ^ i) * 31 + number * 7 + static_cast<std::uint32_t>(from));
    }
    return data;
}

// Checks what comes: heads in order for each sender, payloads as they were sent.
class Recorder : public FabricReceiver {
public:
    void message(Bytes head, Bytes payload) override {
        const TestHead known = note(head, payload.size());
        const std::vector<std::byte> expected = content(known.from, known.number, payload.size());
        EXPECT_TRUE(std::equal(payload.begin(), payload.end(), expected.begin(), expected.end())) << known.number;
        if (on_message) {
            on_message(known);
        }
    }
    Place place(Bytes head, std::size_t bytes) override {
        const TestHead known = note(head, bytes);
        if (refuses) {
            return {};
        }
        const std::uint64_t ticket = ++last_ticket;
        std::vector<std::byte>& memory = places[ticket].memory;
        places[ticket].head = known;
        memory.resize(bytes);
        return {.address = memory.data(), .from = ProcId(known.from), .ticket = ticket};
    }
    void arrived(std::uint64_t ticket, bool is_whole) override {
        const auto at = places.find(ticket);
        ASSERT_NE(at, places.end()) << "twice, or never asked for";
        if (is_whole) {
            const TestHead& head = at->second.head;
            EXPECT_TRUE(at->second.memory == content(head.from, head.number, head.bytes)) << head.number;
            ++n_whole;
        } else {
            ++n_cut;
        }
        if (!keeps_places) {
            places.erase(at);
        }
    }
    void lost(ProcId /*process*/) override { ++n_lost; }
    void stranger() override { ++n_strangers; }
    void sent(std::uint64_t ticket) override { EXPECT_EQ(pending.erase(ticket), 1U) << "twice, or never sent"; }

    struct Large {
        TestHead head;
        std::vector<std::byte> memory;
    };
    std::map<std::int32_t, std::uint32_t> next;               // number expected
    std::map<std::uint64_t, Large> places;                    // by ticket
    std::map<std::uint64_t, std::vector<std::byte>> pending;  // payloads that the fabric still needs
    std::uint64_t last_ticket = 0;
    std::size_t n_whole = 0;
    std::size_t n_cut = 0;
    std::size_t n_heads = 0;
    std::size_t n_lost = 0;
    std::size_t n_strangers = 0;
    bool refuses = false;
    bool keeps_places = false;
    std::function<void(const TestHead&)> on_message;

private:
    TestHead note(Bytes head, std::size_t bytes) {
        const TestHead known = head_in(head);
        EXPECT_EQ(known.bytes, bytes);
        EXPECT_EQ(known.number, next[known.from]) << "from " << known.from;
        next[known.from] = known.number + 1;
        ++n_heads;
        return known;
    }
};

inline std::unique_ptr<Fabric> fabric_called(const std::string& name) {
    auto fabric = make_fabric(name);
    if (!fabric) {
        die("%s", fabric.error().line.c_str());
    }
    return std::move(*fabric);
}

// The tests are run with signed connections as well.
inline bool is_test_signed() { return std::getenv("SFT_TEST_SIGNED") != nullptr; }

// One process of a test.
class Node {
public:
    Node(const std::string& name, Board& board, std::int32_t self, std::int32_t n)
        : Node(fabric_called(name), board, self, n) {}
    Node(std::unique_ptr<Fabric> unopened, Board& board, std::int32_t self, std::int32_t n,
         std::int64_t lost_ms = 60'000)
        : fabric(std::move(unopened)), board_(board), self_(self) {
        const Result<> opened = fabric->open({.self = ProcId(self),
                                              .n_slots = n,
                                              .receiver = &recorder,
                                              .interface = "lo",
                                              .address = "127.0.0.1",
                                              .is_signed = is_test_signed(),
                                              .secret = 7,
                                              .lost_ms = lost_ms});
        if (!opened) {
            die("%s", opened.error().line.c_str());
        }
        const Bytes address = fabric->address();
        std::copy(address.begin(), address.end(), board.addresses[self]);
        board.address_bytes[self] = address.size();
        ++board.n_open;
        wait([&] { return board.n_open == n; });
        for (std::int32_t other = 0; other < n; ++other) {
            fabric->introduce(ProcId(other), Bytes(board.addresses[other], board.address_bytes[other]));
        }
    }

    // Something that this process's messages bring about: sleeps until the fabric says that there is something to do.
    // A wake-up that is lost shows as impatience.
    bool until(const std::function<bool()>& is_done) {
        while (!is_done()) {
            if (!fabric->progress() && fabric->arm()) {
                pollfd entry{.fd = fabric->fd(), .events = POLLIN, .revents = 0};
                if (::poll(&entry, 1, static_cast<int>(kPatienceNs / 1'000'000)) == 0) {
                    return false;
                }
            }
        }
        return true;
    }

    // Something that shows on the board only.
    bool wait(const std::function<bool()>& is_done) const {
        const std::int64_t end_ns = now_ns() + kPatienceNs;
        while (!is_done()) {
            fabric->progress();
            ::sched_yield();
            if (now_ns() > end_ns) {
                ADD_FAILURE() << "process " << self_ << " has waited for too long";
                return false;
            }
        }
        return true;
    }

    // The next message to `to`.
    Fabric::Sent send(std::int32_t to, std::size_t bytes) {
        const TestHead head{.from = self_, .number = numbers_[to], .bytes = bytes};
        const std::uint64_t ticket = ++last_send_;
        std::vector<std::byte>& payload = recorder.pending[ticket] = content(self_, head.number, bytes);
        const Fabric::Sent sent = fabric->send(ProcId(to), bytes_of(head), payload, ticket);
        if (sent != Fabric::Sent::pending) {
            recorder.pending[ticket].assign(bytes, std::byte{0xee});  // must not matter any more
            recorder.pending.erase(ticket);
        }
        numbers_[to] += sent != Fabric::Sent::gone ? 1 : 0;
        return sent;
    }

    // Ends when all have come here: a fabric that is closed early would take what it has not delivered with it.
    int finish(int n) {
        until([&] { return recorder.pending.empty() && recorder.places.empty(); });
        ++board_.n_done;
        return wait([&] { return board_.n_done >= n; }) ? 0 : 1;
    }

    Recorder recorder;
    std::unique_ptr<Fabric> fabric;

private:
    Board& board_;
    std::int32_t self_;
    std::map<std::int32_t, std::uint32_t> numbers_;
    std::uint64_t last_send_ = 0;
};

// One test for each fabric that has been built.
class FabricTest : public testing::TestWithParam<std::string> {
protected:
    static std::vector<std::string> names() {
        std::vector<std::string> names;
        const std::string all = fabric_names() + ",";
        for (std::size_t at = 0, end = 0; (end = all.find(',', at)) != std::string::npos; at = end + 2) {
            if (end > at) {
                names.push_back(all.substr(at, end - at));
            }
        }
        return names;
    }

    // In process `self` of `n`.
    using Body = std::function<int(Node&)>;
    void start(std::int32_t self, std::int32_t n, const Body& body) {
        children.push_back(std::make_unique<Child>([&] {
            Node node(GetParam(), *board, self, n);
            return body(node);
        }));
    }
    void expect_all_end_well() {
        for (std::size_t i = 0; i < children.size(); ++i) {
            EXPECT_EQ(children[i]->end(), 0) << "process " << i;
        }
    }

    SharedBoard board;
    std::vector<std::unique_ptr<Child>> children;

public:
    static auto all() { return testing::ValuesIn(names()); }
    static std::string name_of(const testing::TestParamInfo<std::string>& info) { return info.param; }
};

}  // namespace sft
