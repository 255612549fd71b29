// What fails in a mailbox while everybody lives: it is tried again, and told to the owner, who knows for how long.

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.hpp"
#include "base/report.hpp"
#include "transport/mail/mailbox.hpp"

namespace sft {
namespace {

// How long what the kernel gives no sign for is left alone: a full queue of connections, no descriptors. Each time in
// vain it is left alone for longer: many processes that try often keep the one they wait for from the processor.
constexpr std::int64_t kRetryFirstNs = kNsPerMs;
constexpr std::int64_t kRetryLastNs = 32'000'000;

}  // namespace

// As a rule the process has died, and retire_peer() follows.
void Mailbox::lose(ProcId process, Peer& peer, int error) {
    SFT_ASSERT(error != 0);
    drop(peer);
    lost_.push_back({process, now_ns(), error});
}

void Mailbox::settle_lost(ProcId process) {
    std::erase_if(lost_, [process](const Lost& lost) { return lost.process == process; });
}

bool Mailbox::has_trouble() const noexcept {
    return !lost_.empty() || trouble_.goes_on(now_ns()) || remote_.trouble().goes_on(now_ns());
}

std::optional<Trouble> Mailbox::lasting_trouble(std::int64_t begin_ns) const {
    const std::optional<Trouble> near = trouble_.since(begin_ns, now_ns());
    return near ? near : remote_.trouble().since(begin_ns, now_ns());
}

void Mailbox::retry_soon(const char* what, int error) noexcept {
    // A full queue of connections is a matter of time; for the rest somebody may have to do something.
    if (error != EAGAIN && error != EINTR) {
        trouble_.note(what, error, now_ns());
        if (!std::exchange(has_complained_, true)) {
            say("warning: cannot %s, will try on: %s", what, describe_error(error).c_str());
        }
    }
    SFT_ASSERT(timer_ >= 0);
    if (std::exchange(timer_runs_, true)) {
        return;  // or whoever fails often would put off the others' next try for ever
    }
    retry_after_ns_ = std::clamp(2 * retry_after_ns_, kRetryFirstNs, kRetryLastNs);
    itimerspec once{};
    once.it_value.tv_nsec = retry_after_ns_;
    timerfd_settime(timer_, 0, &once, nullptr);
}

void Mailbox::retry() {
    std::uint64_t expirations = 0;
    static_cast<void>(!read(timer_, &expirations, sizeof expirations));
    timer_runs_ = false;
    const bool was_paused = is_listener_paused_;
    if (was_paused) {
        watch_listener(true);
    }
    if (flush() && !was_paused) {
        has_succeeded();
    }
}

}  // namespace sft
