#include "recovery/spare_wait.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/process_watch.hpp"
#include "base/report.hpp"

namespace sft {
Result<> SpareWait::open(Options options) {
    SFT_ASSERT(fd_ < 0);
    options_ = std::move(options);
    fd_ = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd_ < 0) {
        return fails("cannot have a timer: " + describe_error(errno), errno);
    }
    return {};
}

void SpareWait::close() noexcept {
    if (fd_ >= 0) {
        ::close(fd_);
        fd_ = -1;
    }
}

// at_ns: CLOCK_MONOTONIC; 0: never.
void SpareWait::set_timer(std::int64_t at_ns) noexcept {
    SFT_ASSERT(at_ns >= 0);
    itimerspec when{};
    when.it_value = {at_ns / kNsPerSecond, at_ns % kNsPerSecond};
    ::timerfd_settime(fd_, TFD_TIMER_ABSTIME, &when, nullptr);
}

void SpareWait::wait_for_spares() noexcept {
    SFT_ASSERT(!is_handler_due_ && !pes_.empty() && give_up_ns_ > 0);
    if (options_.ask_for_spare) {
        std::for_each(pes_.begin(), pes_.end(), options_.ask_for_spare);
    }
    set_timer(give_up_ns_);
}

void SpareWait::awaits(const std::vector<PeId>& pes) noexcept {
    SFT_ASSERT(std::find(pes.begin(), pes.end(), kNoPe) == pes.end());
    const Locked lock(mutex_);
    const bool is_new = pes_.empty();
    pes_ = pes;
    is_handler_due_ = options_.asks_handler && !pes.empty();
    if (pes.empty()) {
        set_timer(0);
        return;
    }
    if (is_new) {
        give_up_ns_ = now_ns() + options_.timeout_seconds * kNsPerSecond;
    }
    if (is_handler_due_) {
        set_timer(now_ns());
        return;
    }
    if (is_new) {
        say("warning: PE %d has failed and no spare is left: waiting %u s for one (SHMEM_FT_WAIT_TIMEOUT)%s",
            pes.front().value(), options_.timeout_seconds, options_.remedy.c_str());
    }
    wait_for_spares();
}

std::optional<SpareWait::End> SpareWait::timer_rang() noexcept {
    Locked lock(mutex_);
    std::uint64_t expirations = 0;
    if (::read(fd_, &expirations, sizeof expirations) < 0 || pes_.empty()) {
        return std::nullopt;  // it was set anew meanwhile
    }
    if (!is_handler_due_) {
        return End{End::Why::timeout, pes_};
    }
    is_handler_due_ = false;
    const std::vector<PeId> pes = pes_;
    lock.unlock();
    if (handler_ends(kNoSpare, pes)) {
        return End{End::Why::handler, pes};
    }
    lock.lock();
    // Others may be awaited by now, about whom it is to be asked again.
    if (!is_handler_due_ && !pes_.empty()) {
        wait_for_spares();
    }
    return std::nullopt;
}

void SpareWait::set_handler(UnreplacedHandler handler, void* context) noexcept {
    const Locked lock(mutex_);
    handler_ = handler;
    context_ = context;
}

bool SpareWait::handler_ends(int reason, const std::vector<PeId>& pes) noexcept {
    UnreplacedHandler handler = nullptr;
    void* context = nullptr;
    {
        const Locked lock(mutex_);
        handler = handler_;
        context = context_;
    }
    std::vector<int> numbers;
    std::transform(pes.begin(), pes.end(), std::back_inserter(numbers), [](PeId pe) { return pe.value(); });
    return handler == nullptr || handler(reason, numbers.data(), numbers.size(), context) == 0;
}

}  // namespace sft
