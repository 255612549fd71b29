// Who has connected to the guardian and not shown the secret yet.
//
// Fault model: anybody may connect, as often as he likes, say anything or nothing. Nobody who belongs to the job may
// have to wait behind that: there is room for every newcomer, because the oldest one that is silent goes, and of those
// the oldest of the address that has most of them; so a host that crowds the door keeps out others of its own address
// only, and these try again. Whoever has said something is heard before it is sent away. Few are let in at a time, so
// members are heard in between.

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "base/clock.hpp"
#include "tools/common/text.hpp"
#include "tools/oshrun/agent_hub.hpp"
#include "tools/oshrun/tcp.hpp"

namespace sft::tools {
namespace {

constexpr std::int64_t kStrangerPatience_ns = 10'000'000'000;
constexpr std::size_t kStrangersMax = 256;
constexpr int kAcceptsAtOnce = 64;

}  // namespace

void AgentHub::accept_agents() {
    std::string from;
    for (int i = 0; i < kAcceptsAtOnce; ++i) {
        errno = 0;
        Fd fd = accept_from(entrance_->listener, from);
        if (!fd && (errno == EMFILE || errno == ENFILE) && !strangers_.empty()) {
            drop_oldest_stranger();
            continue;
        }
        if (!fd) {
            return;
        }
        while (strangers_.size() >= kStrangersMax) {
            drop_oldest_stranger();
        }
        const int number = fd.get();
        poller_->add(number, Source::agent, static_cast<std::uint32_t>(number));
        Stranger& stranger = strangers_[number];
        stranger.stream = FrameStream(std::move(fd), sizeof(HelloFrame));
        stranger.since_ns = now_ns();
        stranger.from = from;
    }
}

// REQUIRES: there are strangers.
void AgentHub::drop_oldest_stranger() {
    std::map<std::string, std::size_t> counts;
    for (const auto& [fd, stranger] : strangers_) {
        ++counts[stranger.from];
    }
    const auto crowd = std::max_element(counts.begin(), counts.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
    auto oldest = strangers_.end();
    for (auto at = strangers_.begin(); at != strangers_.end(); ++at) {
        if (at->second.from == crowd->first &&
            (oldest == strangers_.end() || at->second.since_ns < oldest->second.since_ns)) {
            oldest = at;
        }
    }
    const int fd = oldest->first;
    hear_stranger(fd);
    if (!strangers_.contains(fd)) {
        return;  // it has said who it is
    }
    if (!has_named_crowd_ && !is_ending_) {
        has_named_crowd_ = true;
        print_line(
            fmt::format("oshrun: warning: {} connections to port {} do not say whose they are, {} of them from {}: the "
                        "oldest are dropped",
                        strangers_.size(), entrance_->address.port, crowd->second, crowd->first));
    }
    strangers_.erase(fd);
}

void AgentHub::hear_stranger(int fd) {
    Stranger& stranger = strangers_.at(fd);
    const FrameStream::State state = stranger.stream.receive();
    if (const auto frame = stranger.stream.next()) {
        const auto hello = fixed_part<HelloFrame>(*frame);
        if (frame->kind != FrameKind::hello || !hello || !are_equal(hello->secret, entrance_->address.agent_secret) ||
            hello->event_layout != JobEvent{}.layout) {
            drop_stranger(fd, "it does not know the job's secret");
        } else if (hello->number >= 0) {
            take_back(fd, *hello);
        } else if (is_ending_) {
            strangers_.erase(fd);
        } else {
            take_in(fd, *hello);
        }
    } else if (stranger.stream.is_broken()) {
        drop_stranger(fd, "what it sends is not of this job");
    } else if (state != FrameStream::State::open) {
        drop_stranger(fd, "the connection to it has ended");
    }
}

void AgentHub::drop_stranger(int fd, const std::string& why) {
    if (!has_named_stranger_ && !is_ending_) {
        has_named_stranger_ = true;
        print_line(
            fmt::format("oshrun: warning: a connection from {} has been dropped: {} (others are dropped silently)",
                        strangers_.at(fd).from, why));
    }
    strangers_.erase(fd);
}

void AgentHub::drop_silent_strangers(std::int64_t now_ns, bool was_away) {
    std::vector<int> silent;
    for (auto& [fd, stranger] : strangers_) {
        stranger.since_ns = was_away ? now_ns : stranger.since_ns;
        if (now_ns - stranger.since_ns > kStrangerPatience_ns) {
            silent.push_back(fd);
        }
    }
    for (const int fd : silent) {
        drop_stranger(fd, "it says nothing");
    }
}

std::optional<std::int64_t> AgentHub::first_stranger_deadline_ns() const {
    std::optional<std::int64_t> first;
    for (const auto& [fd, stranger] : strangers_) {
        first = std::min(first.value_or(stranger.since_ns), stranger.since_ns);
    }
    return first ? std::optional(*first + kStrangerPatience_ns) : std::nullopt;
}

}  // namespace sft::tools
