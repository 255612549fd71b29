// What fails in a mailbox while everybody lives: it is tried again, and told to the owner, who knows for how long.

#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/clock.hpp"
#include "base/report.hpp"
#include "transport/mail/mailbox.hpp"

namespace sft {
namespace {

// How long what the kernel gives no sign for is left alone: a full queue of connections, no descriptors.
constexpr timespec kRetryAfter{.tv_sec = 0, .tv_nsec = 1'000'000};

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
    itimerspec once{};
    once.it_value = kRetryAfter;
    timerfd_settime(timer_, 0, &once, nullptr);
}

void Mailbox::retry() {
    std::uint64_t expirations = 0;
    static_cast<void>(!read(timer_, &expirations, sizeof expirations));
    if (is_listener_paused_) {
        watch_listener(true);
    }
    flush();
}

}  // namespace sft
