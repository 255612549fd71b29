#include "tools/oshrun/agent_roads.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/clock.hpp"
#include "tools/oshrun/tcp.hpp"

namespace sft::tools {
namespace {

// Of one way, the first time; twice as long in each further round, since a way may have become slow.
constexpr int kPatience_ms = 300;
constexpr int kPatienceMax_ms = 2'400;
constexpr std::chrono::milliseconds kBetweenRounds{50};

}  // namespace

Reply greet_guardian(FrameStream& stream, const HelloFrame& hello, const GuardianAddress& guardian, int patience_ms,
                     std::string& error_line) {
    const std::int64_t deadline_ns = now_ns() + patience_ms * kNsPerMs;
    stream.send(FrameKind::hello, hello);
    while (true) {
        const FrameStream::State state = stream.receive();
        if (const auto frame = stream.next()) {
            const auto welcome = fixed_part<WelcomeFrame>(*frame);
            if (frame->kind == FrameKind::welcome && welcome && are_equal(welcome->secret, guardian.guardian_secret)) {
                return {Reply::Kind::welcome, *welcome};
            }
            error_line = "somebody else than the job's oshrun answers there";
            return {frame->kind == FrameKind::end ? Reply::Kind::dismissed : Reply::Kind::refused, {}};
        }
        const std::int64_t left_ms = (deadline_ns - now_ns()) / kNsPerMs;
        if (state != FrameStream::State::open || stream.is_broken()) {
            error_line =
                "the connection has been closed there: the job's oshrun has gone, does not know this process, or is "
                "crowded with strangers";
            return {stream.is_broken() ? Reply::Kind::refused : Reply::Kind::closed, {}};
        }
        if (left_ms <= 0) {
            error_line = "no answer";
            return {Reply::Kind::none, {}};
        }
        pollfd entry{.fd = stream.fd(), .events = POLLIN, .revents = 0};
        poll(&entry, 1, static_cast<int>(left_ms));
    }
}

AgentRoads::AgentRoads(GuardianAddress guardian, HelloFrame hello)
    : guardian_(std::move(guardian)), hello_(hello), outcome_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    thread_ = std::thread([this] { run(); });
}

AgentRoads::~AgentRoads() {
    {
        const Locked lock(mutex_);
        is_over_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void AgentRoads::add_peer(std::string address, std::uint16_t port) {
    const Locked lock(mutex_);
    peers_.push_back({std::move(address), port});
}

void AgentRoads::look(std::uint64_t taken) {
    {
        const Locked lock(mutex_);
        if (is_looking_) {
            return;
        }
        ++n_looks_;
        taken_ = taken;
        is_looking_ = true;
    }
    changed_.notify_all();
}

void AgentRoads::stop() {
    const Locked lock(mutex_);
    is_looking_ = false;
    ++n_looks_;
    outcome_.found.reset();
}

bool AgentRoads::is_looking() {
    const Locked lock(mutex_);
    return is_looking_;
}

AgentRoads::Outcome AgentRoads::take_outcome() {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t bytes = read(outcome_fd_.get(), &count, sizeof count);
    const Locked lock(mutex_);
    return std::exchange(outcome_, {});
}

void AgentRoads::run() {
    int patience_ms = kPatience_ms;
    std::uint64_t of_look = 0;
    Locked lock(mutex_);
    while (true) {
        while (!is_over_ && !is_looking_) {
            changed_.wait(mutex_);
        }
        if (is_over_) {
            return;
        }
        patience_ms = of_look == n_looks_ ? std::min(2 * patience_ms, kPatienceMax_ms) : kPatience_ms;
        of_look = n_looks_;
        HelloFrame hello = hello_;
        hello.taken = taken_;
        std::vector<std::optional<Peer>> roads = {std::nullopt};
        roads.insert(roads.end(), peers_.begin(), peers_.end());
        for (const std::optional<Peer>& road : roads) {
            if (is_over_ || !is_looking_ || of_look != n_looks_) {
                break;
            }
            lock.unlock();
            try_road(road, hello, patience_ms);
            lock.lock();
        }
        const auto end = std::chrono::steady_clock::now() + kBetweenRounds;
        while (!is_over_ && changed_.wait_until(mutex_, end)) {
        }
    }
}

void AgentRoads::try_road(const std::optional<Peer>& peer, HelloFrame hello, int patience_ms) {
    std::string error_line;
    FrameStream stream(connect_to(peer ? peer->address : guardian_.address, peer ? peer->port : guardian_.port,
                                  patience_ms, error_line));
    Reply reply;
    const bool is_port_closed = !stream.is_open() && errno == ECONNREFUSED;
    if (stream.is_open()) {
        if (peer) {
            stream.send(FrameKind::forward, ForwardFrame{guardian_.agent_secret});
        }
        reply = greet_guardian(stream, hello, guardian_, patience_ms, error_line);
    }
    bool is_direct = !peer.has_value();
    if (peer && reply.kind == Reply::Kind::welcome) {
        // It is awake. If it had stood still, then nothing is wrong with the direct way.
        FrameStream direct(connect_to(guardian_.address, guardian_.port, kPatience_ms, error_line));
        const Reply second =
            direct.is_open() ? greet_guardian(direct, hello, guardian_, kPatience_ms, error_line) : Reply{};
        if (second.kind == Reply::Kind::welcome) {
            stream = std::move(direct);
            reply = second;
            is_direct = true;
        }
    }
    const Locked lock(mutex_);
    if (!is_looking_ || hello.taken != taken_) {
        return;
    }
    Outcome outcome;
    outcome.is_gone = (is_port_closed && !peer) || reply.kind == Reply::Kind::dismissed;
    outcome.is_answering = !peer && reply.kind == Reply::Kind::none && stream.is_open();
    if (reply.kind == Reply::Kind::welcome) {
        is_looking_ = false;
        outcome.found = Found{std::move(stream), reply.welcome.taken, is_direct};
    } else if (!outcome.is_gone && !outcome.is_answering) {
        return;
    }
    outcome_ = std::move(outcome);
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t bytes = write(outcome_fd_.get(), &one, sizeof one);
}

}  // namespace sft::tools
