#include "tools/oshrun/agent_forward.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <list>
#include <vector>

#include "base/clock.hpp"
#include "tools/oshrun/tcp.hpp"

namespace sft::tools {
namespace {

constexpr std::int64_t kSecretWithin_ns = 2'000'000'000;
constexpr int kConnectWithin_ms = 1'000;
constexpr std::size_t kNewWaysMax = 64;
constexpr std::size_t kAheadMax = 1U << 16;

// What has been read at one end and not written at the other.
struct Direction {
    std::string bytes;
    bool has_ended = false;
};

struct Way {
    FrameStream stranger;  // until it has shown the secret
    Fd here;
    Fd there;
    Direction to_there;
    Direction to_here;
    std::int64_t since_ns = 0;
    bool is_over = false;
};

void move_bytes(const Fd& from, const Fd& to, Direction& direction, bool& is_over) {
    std::array<char, 16384> buffer;
    while (direction.bytes.size() < kAheadMax && !direction.has_ended) {
        const ssize_t bytes = recv(from.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (bytes > 0) {
            direction.bytes.append(buffer.data(), static_cast<std::size_t>(bytes));
        } else if (bytes == 0 || (errno != EAGAIN && errno != EINTR)) {
            direction.has_ended = true;
        } else if (errno == EAGAIN) {
            break;
        }
    }
    const ssize_t written = direction.bytes.empty() ? 0
                                                    : ::send(to.get(), direction.bytes.data(), direction.bytes.size(),
                                                             MSG_DONTWAIT | MSG_NOSIGNAL);
    if (written > 0) {
        direction.bytes.erase(0, static_cast<std::size_t>(written));
    }
    const bool is_refused = written < 0 && errno != EAGAIN && errno != EINTR;
    is_over = is_over || is_refused || (direction.has_ended && direction.bytes.empty());
}

short events_of(const Direction& in, const Direction& out) {
    const int reads = !in.has_ended && in.bytes.size() < kAheadMax ? POLLIN : 0;
    return static_cast<short>(reads | (out.bytes.empty() ? 0 : POLLOUT));
}

// What the stranger has sent behind the secret waits in its socket: who is connected on speaks when it is.
void admit(Way& way, const GuardianAddress& guardian) {
    const FrameStream::State state = way.stranger.receive();
    if (const auto frame = way.stranger.next()) {
        const auto shown = fixed_part<ForwardFrame>(*frame);
        way.is_over = frame->kind != FrameKind::forward || !shown || !are_equal(shown->secret, guardian.agent_secret);
        if (!way.is_over) {
            std::string ignored;
            way.there = connect_to(guardian.address, guardian.port, kConnectWithin_ms, ignored);
            way.is_over = !way.there;
            way.to_there.bytes = way.stranger.take_rest();
            way.here = way.stranger.release();
        }
        return;
    }
    way.is_over =
        state != FrameStream::State::open || way.stranger.is_broken() || now_ns() - way.since_ns > kSecretWithin_ns;
}

// Nobody of the job waits behind strangers: of these the oldest goes.
void drop_oldest_stranger(std::list<Way>& ways, std::size_t left_max) {
    const auto is_stranger = [](const Way& way) { return !way.here; };
    for (auto n = static_cast<std::size_t>(std::count_if(ways.begin(), ways.end(), is_stranger)); n > left_max; --n) {
        ways.erase(std::find_if(ways.begin(), ways.end(), is_stranger));  // they are in the order in which they came
    }
}

void accept_ways(const Fd& listener, std::list<Way>& ways) {
    std::string from;
    for (std::size_t i = 0; i < kNewWaysMax; ++i) {
        errno = 0;
        Fd fd = accept_from(listener, from);
        if (!fd && (errno == EMFILE || errno == ENFILE)) {
            drop_oldest_stranger(ways, 0);
        }
        if (!fd) {
            return;
        }
        Way& way = ways.emplace_back();
        way.stranger = FrameStream(std::move(fd), sizeof(HelloFrame));
        way.since_ns = now_ns();
    }
}

}  // namespace

AgentForward::AgentForward(Fd listener, GuardianAddress guardian)
    : listener_(std::move(listener)), stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), guardian_(std::move(guardian)) {
    thread_ = std::thread([this] { run(); });
}

AgentForward::~AgentForward() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(stop_.get(), &one, sizeof one);
    thread_.join();
}

void AgentForward::run() {
    constexpr int kLook_ms = 1'000;
    std::list<Way> ways;
    std::vector<pollfd> polled;
    while (true) {
        polled.assign({{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}});
        for (const Way& way : ways) {
            const bool is_admitted = static_cast<bool>(way.here);
            polled.push_back({is_admitted ? way.here.get() : way.stranger.fd(),
                              is_admitted ? events_of(way.to_there, way.to_here) : short{POLLIN}, 0});
            polled.push_back({way.there.get(), events_of(way.to_here, way.to_there), 0});
        }
        poll(polled.data(), polled.size(), kLook_ms);
        if (polled[0].revents != 0) {
            return;
        }
        accept_ways(listener_, ways);
        for (Way& way : ways) {
            if (way.here) {
                move_bytes(way.here, way.there, way.to_there, way.is_over);
                move_bytes(way.there, way.here, way.to_here, way.is_over);
            } else {
                admit(way, guardian_);
            }
        }
        ways.remove_if([](const Way& way) { return way.is_over; });
        drop_oldest_stranger(ways, kNewWaysMax);
    }
}

}  // namespace sft::tools
