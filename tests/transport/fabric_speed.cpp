// How fast a fabric moves messages between two processes of this machine, by its own interface: what is left of a
// communication library's speed. Compare with the library's own tools in the same run.
//
//   fabric_speed NAME [INTERFACE]
//
// Latency: half of a round trip of 8 bytes. Bandwidth: 16 messages under way. Both ends poll.
#include <cstdio>
#include <memory>

#include "tests/transport/fabric_test.hpp"

namespace sft {
namespace {

constexpr int kWindow = 16;

class Counter : public FabricReceiver {
public:
    void message(Bytes /*head*/, Bytes /*payload*/) override { ++n_received; }
    Place place(Bytes /*head*/, std::size_t bytes) override {
        memory.resize(std::max(memory.size(), bytes * kWindow));
        return {.address = memory.data() + n_places++ % kWindow * bytes, .from = ProcId(0), .ticket = 0};
    }
    void arrived(std::uint64_t /*ticket*/, bool is_whole) override { n_received += is_whole ? 1 : 0; }
    void sent(std::uint64_t /*ticket*/) override { --n_pending; }

    std::vector<std::byte> memory = std::vector<std::byte>(kWindow * (std::size_t{4} << 20), std::byte{1});
    std::size_t n_places = 0;
    int n_received = 0;
    int n_pending = 0;
};

struct Side {
    Counter counter;
    std::unique_ptr<Fabric> fabric;
    std::int32_t other = 0;
    std::vector<std::byte> data = std::vector<std::byte>(std::size_t{4} << 20, std::byte{1});

    void send(std::size_t bytes) {
        const std::byte head[32] = {};
        const Fabric::Sent sent = fabric->send(ProcId(other), head, Bytes(data).first(bytes), 1);
        if (sent == Fabric::Sent::gone) {
            die("the other process is gone");
        }
        counter.n_pending += sent == Fabric::Sent::pending ? 1 : 0;
    }
    void receive(int n) {
        while (counter.n_received < n) {
            fabric->progress();
        }
        counter.n_received -= n;
    }
};

double latency_us(Side& side, bool is_first) {
    constexpr int kRounds = 20'000;
    const std::int64_t begin_ns = now_ns();
    for (int i = 0; i < kRounds; ++i) {
        if (is_first) {
            side.send(8);
        }
        side.receive(1);
        if (!is_first) {
            side.send(8);
        }
    }
    return static_cast<double>(now_ns() - begin_ns) / kRounds / 2e3;
}

double bandwidth_mb(Side& side, bool is_first, std::size_t bytes) {
    const int n = static_cast<int>((std::size_t{2} << 30) / bytes);
    const std::int64_t begin_ns = now_ns();
    for (int i = 0; is_first && i < n; ++i) {
        side.send(bytes);
        while (side.counter.n_pending >= kWindow) {
            side.fabric->progress();
        }
    }
    side.receive(is_first ? 1 : n);
    if (!is_first) {
        side.send(0);
    }
    return static_cast<double>(bytes) * n / static_cast<double>(now_ns() - begin_ns) * 1e3;
}

int run(const std::string& name, const std::string& interface, Board& board, std::int32_t self) {
    Side side;
    side.other = 1 - self;
    auto made = make_fabric(name);
    if (!made) {
        die("%s", made.error().line.c_str());
    }
    side.fabric = std::move(*made);
    const Result<> opened = side.fabric->open(
        {.self = ProcId(self), .n_slots = 2, .receiver = &side.counter, .interface = interface, .address = ""});
    if (!opened) {
        die("%s", opened.error().line.c_str());
    }
    const Bytes address = side.fabric->address();
    std::copy(address.begin(), address.end(), board.addresses[self]);
    board.address_bytes[self] = address.size();
    ++board.n_open;
    while (board.n_open != 2) {
        side.fabric->progress();
    }
    side.fabric->introduce(ProcId(side.other), Bytes(board.addresses[side.other], board.address_bytes[side.other]));
    const bool is_first = self == 0;
    (void)bandwidth_mb(side, is_first, std::size_t{1} << 20);  // pages, connections
    const double us = latency_us(side, is_first);
    if (is_first) {
        std::printf("%s: 8 B %.2f us", side.fabric->describe().c_str(), us);
    }
    for (const std::size_t bytes :
         {std::size_t{64} << 10, std::size_t{256} << 10, std::size_t{1} << 20, std::size_t{4} << 20}) {
        const double mb = bandwidth_mb(side, is_first, bytes);
        if (is_first) {
            std::printf("; %zu KiB %.0f MB/s", bytes >> 10, mb);
        }
    }
    if (is_first) {
        std::printf("\n");
        std::fflush(stdout);
    }
    ++board.n_done;
    while (board.n_done != 2) {
        side.fabric->progress();
    }
    return 0;
}

}  // namespace
}  // namespace sft

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: fabric_speed NAME [INTERFACE]\n");
        return 2;
    }
    const sft::SharedBoard board;
    sft::Child other([&] { return sft::run(argv[1], argc > 2 ? argv[2] : "", *board, 1); });
    const int status = sft::run(argv[1], argc > 2 ? argv[2] : "", *board, 0);
    return other.end() == 0 ? status : 1;
}
