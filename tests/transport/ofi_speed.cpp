// How fast the fabric on libfabric is beside bare libfabric, which the same two processes use in the same moments:
// small messages back and forth, and large ones in one direction. Rounds of both kinds take turns, and the best of each
// counts, because other work on the machine disturbs them.
//
//   ofi_speed [ADDRESS-OF-THE-INTERFACE [ROUNDS]]
//
// Bare libfabric means: the endpoint that the fabric would open, receives posted where the data shall lie, nothing
// else.
#include <rdma/fi_errno.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/report.hpp"
#include "transport/net/network.hpp"
#include "transport/ofi/device.hpp"

namespace {

using namespace sft;

constexpr int kUnderWay = 16;  // large messages

void require(bool is_good, const std::string& what) {
    if (!is_good) {
        die("ofi_speed: %s", what.c_str());
    }
}

void require(const Result<>& result) { require(result.has_value(), result ? "" : result.error().line); }

// One of the two ways, in one of the two processes. Sizes and numbers of messages are known to both.
class Way {
public:
    virtual ~Way() = default;
    virtual std::vector<std::byte> address() const = 0;
    virtual void introduce(Bytes address) = 0;
    // Is told before the other one sends.
    virtual void expect(std::size_t bytes, int n) = 0;
    virtual void send(std::size_t bytes) = 0;  // waits only for room
    virtual void wait_received(int n) = 0;     // n messages since expect()
    virtual void wait_sent() = 0;
};

class BareWay : public Way {
public:
    explicit BareWay(const std::string& address) : memory_(std::size_t{64} << 20) {
        Fabric::Options options;
        options.address = address;
        require(device_.open(options));
    }
    std::vector<std::byte> address() const override { return device_.address(); }
    void introduce(Bytes address) override {
        peer_ = device_.insert(address);
        require(peer_ != FI_ADDR_NOTAVAIL, "no address");
    }
    void expect(std::size_t bytes, int n) override {
        bytes_ = bytes;
        n_to_post_ = n;
        n_received_ = 0;
        for (int i = 0; i < kUnderWay; ++i) {
            post();
        }
    }
    void send(std::size_t bytes) override {
        while (n_sending_ >= kUnderWay ||
               again(::fi_send(device_.endpoint(), memory_.data(), bytes, nullptr, peer_, &sends_))) {
            poll();
        }
        ++n_sending_;
    }
    void wait_received(int n) override {
        while (n_received_ < n) {
            poll();
        }
    }
    void wait_sent() override {
        while (n_sending_ > 0) {
            poll();
        }
    }

private:
    static bool again(ssize_t status) {
        require(status == 0 || status == -FI_EAGAIN, ::fi_strerror(static_cast<int>(-status)));
        return status == -FI_EAGAIN;
    }
    void post() {
        if (n_to_post_ == 0) {
            return;
        }
        --n_to_post_;
        std::byte* place = memory_.data() + (static_cast<std::size_t>(n_to_post_) * bytes_) % (memory_.size() / 2);
        while (again(::fi_recv(device_.endpoint(), place, bytes_, nullptr, FI_ADDR_UNSPEC, &receives_))) {
            poll();
        }
    }
    void poll() {
        std::array<fi_cq_data_entry, 16> entries;
        const ssize_t n = ::fi_cq_read(device_.queue(), entries.data(), entries.size());
        require(n >= 0 || n == -FI_EAGAIN, "a message failed");
        for (ssize_t i = 0; i < n; ++i) {
            if (entries[static_cast<std::size_t>(i)].op_context == &sends_) {
                --n_sending_;
            } else {
                ++n_received_;
                post();
            }
        }
    }

    ofi::Device device_;
    fi_addr_t peer_ = FI_ADDR_NOTAVAIL;
    std::vector<std::byte> memory_;
    fi_context2 sends_{};
    fi_context2 receives_{};
    std::size_t bytes_ = 0;
    int n_to_post_ = 0;
    int n_received_ = 0;
    int n_sending_ = 0;
};

class FabricWay : public Way, FabricReceiver {
public:
    FabricWay(const std::string& address, int self) : memory_(std::size_t{64} << 20), other_(1 - self) {
        auto made = make_fabric("ofi");
        require(made.has_value(), made ? "" : made.error().line);
        fabric_ = std::move(*made);
        const Fabric::Options options{
            .self = ProcId(self), .n_slots = 2, .receiver = this, .interface = "", .address = address};
        require(fabric_->open(options));
        if (self == 0) {
            std::printf("%s\n", fabric_->describe().c_str());
        }
    }
    std::vector<std::byte> address() const override { return {fabric_->address().begin(), fabric_->address().end()}; }
    void introduce(Bytes address) override { fabric_->introduce(other_, address); }
    void expect(std::size_t, int) override { n_received_ = 0; }
    void send(std::size_t bytes) override {
        while (n_sending_ >= kUnderWay) {
            fabric_->progress();
        }
        const std::array<std::byte, 32> head{};
        const Fabric::Sent sent = fabric_->send(other_, head, Bytes(memory_).first(bytes), 0);
        require(sent != Fabric::Sent::gone, "the other one is gone");
        n_sending_ += sent == Fabric::Sent::pending ? 1 : 0;
    }
    void wait_received(int n) override {
        while (n_received_ < n) {
            fabric_->progress();
        }
    }
    void wait_sent() override {
        while (n_sending_ > 0) {
            fabric_->progress();
        }
    }

private:
    void message(Bytes, Bytes payload) override {
        std::copy(payload.begin(), payload.end(), memory_.begin());
        ++n_received_;
    }
    Place place(Bytes, std::size_t payload_bytes) override {
        next_place_ = (next_place_ + payload_bytes) % (memory_.size() / 2);
        return {.address = memory_.data() + next_place_, .from = other_, .ticket = 0};
    }
    void arrived(std::uint64_t, bool) override { ++n_received_; }
    void sent(std::uint64_t) override { --n_sending_; }

    std::unique_ptr<Fabric> fabric_;
    std::vector<std::byte> memory_;
    ProcId other_;
    std::size_t next_place_ = 0;
    int n_received_ = 0;
    int n_sending_ = 0;
};

struct Pair {
    int self;
    int socket;

    void meet() const {
        char byte = 0;
        require(::write(socket, &byte, 1) == 1 && ::read(socket, &byte, 1) == 1, "the other process is gone");
    }
    void introduce(Way& way) const {
        const std::vector<std::byte> own = way.address();
        std::vector<std::byte> other(own.size());
        require(::write(socket, own.data(), own.size()) > 0 && ::read(socket, other.data(), other.size()) > 0,
                "no address");
        way.introduce(other);
    }
};

// One way, seconds.
double ping_pong(Way& way, const Pair& pair, std::size_t bytes, int n) {
    way.expect(bytes, n);
    pair.meet();
    const std::int64_t begin_ns = now_ns();
    for (int i = 1; i <= n; ++i) {
        if (pair.self == 0) {
            way.send(bytes);
        }
        way.wait_received(i);
        if (pair.self == 1) {
            way.send(bytes);
        }
    }
    way.wait_sent();
    return static_cast<double>(now_ns() - begin_ns) * 1e-9 / (2.0 * n);
}

// For one message; measured where they arrive.
double stream(Way& way, const Pair& pair, std::size_t bytes, int n) {
    if (pair.self == 1) {
        way.expect(bytes, n);
    }
    pair.meet();
    const std::int64_t begin_ns = now_ns();
    if (pair.self == 0) {
        for (int i = 0; i < n; ++i) {
            way.send(bytes);
        }
        way.wait_sent();
    } else {
        way.wait_received(n);
    }
    const double seconds = static_cast<double>(now_ns() - begin_ns) * 1e-9 / n;
    pair.meet();
    double result = seconds;
    if (pair.self == 1) {
        require(::write(pair.socket, &seconds, sizeof(seconds)) == sizeof(seconds), "the other process is gone");
    } else {
        require(::read(pair.socket, &result, sizeof(result)) == sizeof(result), "the other process is gone");
    }
    return result;
}

void compare(Way& bare, Way& ours, const Pair& pair, std::size_t bytes, int rounds) {
    const bool is_large = bytes >= 65536;
    const int n = is_large ? static_cast<int>((std::size_t{64} << 20) / bytes) : 1000;
    std::vector<double> bare_seconds;
    std::vector<double> our_seconds;
    for (int round = 0; round < rounds; ++round) {
        bare_seconds.push_back(is_large ? stream(bare, pair, bytes, n) : ping_pong(bare, pair, bytes, n));
        our_seconds.push_back(is_large ? stream(ours, pair, bytes, n) : ping_pong(ours, pair, bytes, n));
    }
    if (pair.self != 0) {
        return;
    }
    const double bare_best = *std::min_element(bare_seconds.begin(), bare_seconds.end());
    const double our_best = *std::min_element(our_seconds.begin(), our_seconds.end());
    if (is_large) {
        const auto size = static_cast<double>(bytes);
        std::printf("%8zu bytes: bare %7.1f MB/s, fabric %7.1f MB/s, %5.1f %%\n", bytes, size / bare_best * 1e-6,
                    size / our_best * 1e-6, 100 * bare_best / our_best);
    } else {
        std::printf("%8zu bytes: bare %7.2f us, fabric %7.2f us one way\n", bytes, bare_best * 1e6, our_best * 1e6);
    }
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    const std::string address = argc > 1 ? argv[1] : "127.0.0.1";
    const int rounds = argc > 2 ? std::atoi(argv[2]) : 10;
    int sockets[2];
    require(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) == 0, "no sockets");
    const pid_t child = ::fork();
    const int self = child == 0 ? 1 : 0;
    ::close(sockets[1 - self]);
    const Pair pair{.self = self, .socket = sockets[self]};
    FabricWay ours(address, self);
    BareWay bare(address);
    pair.introduce(bare);
    pair.introduce(ours);
    for (const std::size_t bytes : {8UL, 4096UL, 65536UL, 262144UL, 1048576UL, 4194304UL}) {
        compare(bare, ours, pair, bytes, rounds);
    }
    pair.meet();
    if (child > 0) {
        ::waitpid(child, nullptr, 0);
    }
    return 0;
}
