// How fast is a checkpoint whose shadow is on another node, against plain writes of as many bytes to the keeper's store
// in the same run?
//
//   far_speed [FABRIC [MIB]]          FABRIC: socket (made for tests), ucx, ofi
//
// One JSON object a line: the median of the repeats, in ms and MB/s. Two processes over the loopback. Not run as a
// test, because times on a shared machine prove nothing.
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "backup/store.hpp"
#include "tests/transport/net_test.hpp"

namespace sft {
namespace {

constexpr int kRepeats = 7;
constexpr ProcId kKeeper{1};

double median_ms(const std::function<void()>& prepare, const std::function<void()>& step) {
    std::vector<double> samples;
    for (int i = 0; i < kRepeats; ++i) {
        prepare();
        const auto begin = std::chrono::steady_clock::now();
        step();
        samples.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    }
    std::sort(samples.begin(), samples.end());
    return samples[kRepeats / 2];
}

void report(const char* what, double ms, std::size_t bytes) {
    std::printf("{\"what\": \"%s\", \"median_ms\": %.2f, \"MB_per_s\": %.0f}\n", what, ms,
                static_cast<double>(bytes) / ms / 1000);
}

void require(const Result<>& result) {
    if (!result) {
        die("%s", result.error().line.c_str());
    }
}

struct Bench {
    Segment heap;
    LiveState live;
    int fill = 1;
    std::uint32_t version = 0;

    explicit Bench(std::size_t bytes) {
        require(heap.create("speed-heap", bytes).then([this] { return heap.map_at(nullptr); }));
        live.heap = {reinterpret_cast<std::uintptr_t>(heap.address()), bytes};
        live.heap_fd = heap.fd();
    }
    void change_all() { std::memset(heap.address(), ++fill, heap.bytes()); }
    void change_some() {
        ++fill;
        for (std::size_t at = 0; at < heap.bytes(); at += 100 * kBlockBytes) {
            heap.address()[at] = static_cast<std::byte>(fill);
        }
    }
};

void keep(NetNode& node, std::size_t bytes) {
    const Bench bench(bytes);
    BackupStore store;
    require(store.create(BackupMode::single_copy, bench.live, 1).then([&] {
        return store.serve(node.network, bench.live);
    }));
    node.board.values[0] = 1;
    while (node.board.step == 0) {
        ::poll(nullptr, 0, 10);  // and takes no time from the processor
    }
    node.network.close();
    store.release();
}

void measure(NetNode& node, std::size_t bytes) {
    Bench bench(bytes);
    bench.change_all();
    patiently([&] { return node.board.values[0] == 1; });
    // In pieces and with a window as a ship does it, into the memory that the second slot will be.
    const auto wire = make_network_wire(node.network, kKeeper);
    const std::size_t piece = wire->piece_bytes();
    const double raw_ms = median_ms([&] { bench.change_all(); },
                                    [&] {
                                        for (std::size_t at = 0; at < bytes; at += piece) {
                                            wire->write(at, bench.heap.address() + at, std::min(piece, bytes - at));
                                            wire->drain_to(std::size_t{8} << 20);
                                        }
                                        static_cast<void>(wire->flush());
                                    });
    report("plain writes", raw_ms, bytes);
    BackupStore store;
    BackupStore::KeeperLocation location;
    location.process = kKeeper;
    location.network = &node.network;
    Trouble trouble;
    require(store.create(BackupMode::double_copy, bench.live, 1));
    if (store.use_keeper(location, PeId(0), bench.live, trouble) != Reach::opened) {
        die("%s", trouble.what.c_str());
    }
    const auto ship = [&] { store.replicate(Version(++bench.version), bench.live); };
    const auto fold = [&] { store.update_local_copy(Version(bench.version), bench.live); };
    const auto both = [&] {
        ship();
        fold();
    };
    both();
    both();
    const double ship_ms = median_ms([&] { fold(), bench.change_all(); }, ship);
    fold();
    report("ship, all changed", ship_ms, bytes);
    const double both_ms = median_ms([&] { bench.change_all(); }, both);
    report("ship and fold, all changed", both_ms, bytes);
    report("ship and fold, every 100th block changed", median_ms([&] { bench.change_some(); }, both), bytes);
    report("ship and fold, nothing changed", median_ms([] {}, both), bytes);
    const double fetch_ms = median_ms(
        [&] { bench.change_all(); },
        [&] { static_cast<void>(BackupStore::fetch(location, PeId(0), Version(bench.version), bench.live)); });
    report("fetch, all changed", fetch_ms, bytes);
    std::printf("{\"what\": \"ship, of the plain writes' rate\", \"percent\": %.0f}\n", 100 * raw_ms / ship_ms);
    std::printf("{\"what\": \"ship and fold, of it\", \"percent\": %.0f}\n", 100 * raw_ms / both_ms);
    node.reach(1);
}

}  // namespace
}  // namespace sft

int main(int argc, char** argv) {
    const std::string fabric = argc > 1 ? argv[1] : "socket";
    const std::size_t bytes = (argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 128) << 20;
    const sft::NetMemory memory;
    const auto start = [&](int self, const std::function<void(sft::NetNode&, std::size_t)>& body) {
        return std::make_unique<sft::Child>([&, self] {
            sft::NetNode node(fabric, memory, self, 2);
            body(node, bytes);
            return 0;
        });
    };
    const auto keeper = start(1, sft::keep);
    const auto owner = start(0, sft::measure);
    return owner->end() == 0 && keeper->end() == 0 ? 0 : 1;
}
