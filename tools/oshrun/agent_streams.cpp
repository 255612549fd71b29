// The standard streams of processes on other hosts, on the guardian's side: input for PE 0, output of the spares that
// agents have started. Both ends count what is under way, so that who reads slowly slows down who writes, and nobody
// else.

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/clock.hpp"
#include "tools/oshrun/agent_hub.hpp"

namespace sft::tools {
namespace {

constexpr std::size_t kInputUntakenMax = 65536;

}  // namespace

void AgentHub::send_input(std::int32_t host, Fd fd) {
    input_ = std::move(fd);
    input_host_ = host;
    if (input_) {
        is_input_a_file_ = !poller_->add(input_.get(), Source::input, 0);
        read_input();
    } else if (Session* session = session_of(host)) {
        session->send(FrameKind::input);
    }
}

// As much as may be under way; a file has always more, so the agent's counting alone tells when to go on.
void AgentHub::read_input() {
    Session* session = session_of(input_host_);
    while (input_ && session != nullptr && input_untaken_bytes_ < kInputUntakenMax) {
        pollfd entry{.fd = input_.get(), .events = POLLIN, .revents = 0};
        if (poll(&entry, 1, 0) != 1) {
            break;
        }
        std::array<char, 16384> buffer;
        const ssize_t bytes = read(input_.get(), buffer.data(), buffer.size());
        if (bytes < 0 && errno == EINTR) {
            continue;
        }
        if (bytes < 0 && errno == EAGAIN) {
            break;
        }
        if (bytes <= 0) {
            session->send(FrameKind::input);
            input_.reset();
            return;
        }
        input_untaken_bytes_ += static_cast<std::size_t>(bytes);
        session->send(FrameKind::input, std::string_view(buffer.data(), static_cast<std::size_t>(bytes)));
    }
    if (input_ && !is_input_a_file_) {
        poller_->change(input_.get(), Source::input, 0,
                        input_untaken_bytes_ < kInputUntakenMax ? std::uint32_t{EPOLLIN} : 0U);
    }
}

void AgentHub::relay(std::int32_t host, const Frame& frame) {
    const auto part = fixed_part<OutputFrame>(frame, true);
    if (!part || (part->descriptor != STDOUT_FILENO && part->descriptor != STDERR_FILENO)) {
        return;
    }
    Relay& relay = relays_[part->descriptor];
    if (!relay.pump) {
        std::array<int, 2> ends{-1, -1};
        if (pipe2(ends.data(), O_CLOEXEC) != 0) {
            return;
        }
        relay.pipe = Fd(ends[1]);
        fcntl(relay.pipe.get(), F_SETFL, O_NONBLOCK);
        relay.pump = std::make_unique<StderrPump>(Fd(ends[0]), static_cast<int>(part->descriptor));
        poller_->add(relay.pipe.get(), Source::output, part->descriptor, 0);
    }
    relay.waiting.emplace_back(host, frame.payload.substr(sizeof(OutputFrame)));
    write_relay(part->descriptor);
}

void AgentHub::write_relay(std::uint32_t descriptor) {
    const auto found = relays_.find(descriptor);
    if (found == relays_.end() || !found->second.pipe) {
        return;
    }
    Relay& relay = found->second;
    while (!relay.waiting.empty()) {
        auto& [host, bytes] = relay.waiting.front();
        const ssize_t written = write(relay.pipe.get(), bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written < 0) {
            break;
        }
        bytes.erase(0, static_cast<std::size_t>(written));
        if (Session* session = session_of(host)) {
            session->send(FrameKind::output_taken, CountFrame{static_cast<std::uint32_t>(written)});
        }
        if (bytes.empty()) {
            relay.waiting.pop_front();
        }
    }
    poller_->change(relay.pipe.get(), Source::output, descriptor, relay.waiting.empty() ? 0U : std::uint32_t{EPOLLOUT});
}

int AgentHub::lost_output(int descriptor) const {
    const auto found = relays_.find(static_cast<std::uint32_t>(descriptor));
    return found == relays_.end() || !found->second.pump ? 0 : found->second.pump->lost();
}

void AgentHub::wait_for_output(int patience_ms) {
    const std::int64_t deadline_ns = now_ns() + patience_ms * kNsPerMs;
    for (auto& [descriptor, relay] : relays_) {
        while (relay.pump && !relay.waiting.empty() && now_ns() < deadline_ns) {
            pollfd entry{.fd = relay.pipe.get(), .events = POLLOUT, .revents = 0};
            poll(&entry, 1, 100);
            write_relay(descriptor);
        }
        relay.pipe.reset();
        if (relay.pump) {
            pollfd done{.fd = relay.pump->done_fd(), .events = POLLIN, .revents = 0};
            poll(&done, 1, patience_ms);
        }
    }
}

}  // namespace sft::tools
