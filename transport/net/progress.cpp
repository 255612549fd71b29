// Who calls the fabric, and how long threads wait.
//
// One progress thread sleeps on the fabric while no thread of the program waits in here. A thread that waits polls by
// itself: a message then costs no switch of threads. The progress thread must not be woken for such messages, so while
// there are pollers the fabric is taken out of what it sleeps on, and the last one to leave puts it back; that takes
// two system calls and wakes nobody. Should a poller not come to run, the progress thread looks now and then.
//
// While the program goes from one wait to the next, even that is too much: the progress thread is then parked. It looks
// every millisecond whether this is still so, and the fabric stays out. The price is that what comes in the first
// millisecond after the last wait may be served that much later.
//
// Of several threads that wait at once, one sleeps on the fabric and the others until that one is back.
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/report.hpp"
#include "transport/net/network_impl.hpp"
#include "transport/net/session_fabric.hpp"

namespace sft {
namespace {

// How long a poller may be kept from running before the progress thread does its work; also the longest sleep of a
// thread that waits for something that rings no bell here (the gate).
constexpr int kLookMs = 10;
// The same while nobody has polled since the last look.
constexpr int kIdleLookMs = 200;
// Until the progress thread tries again to get at what pollers use.
constexpr int kBehindPollersMs = 1;
// So many phases of polling between two looks are many.
constexpr std::uint64_t kDensePhases = 8;
constexpr int kParkedMs = 1;

// Turns in a row without giving the lock away, in the progress thread and when the last poller leaves.
constexpr int kTurnsMax = 64;
constexpr int kLeavingTurnsMax = 4;
// Turns with nothing to do before the progress thread sleeps, if the program sleeps.
constexpr int kPatience = 200;
static_assert(kBehindPollersMs < kLookMs && kParkedMs < kLookMs && kLookMs < kIdleLookMs);

void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

void add_to(int epoll, int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        die("epoll_ctl: %s", std::strerror(errno));
    }
}

void drain(int fd) noexcept {
    std::uint64_t count;
    static_cast<void>(!::read(fd, &count, sizeof count));
}

void wake(int fd) noexcept {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(fd, &one, sizeof one));
}

void close_fd(int& fd) noexcept {
    if (fd >= 0) {
        ::close(fd);
        fd = -1;
    }
}

}  // namespace

Result<> Network::Impl::open(Options options) {
    options_ = std::move(options);
    fabric_ = std::make_unique<SessionFabric>(std::move(options_.fabric));
    SFT_ASSERT(options_.n_pes > 0 && options_.n_slots > 0 && options_.gate != nullptr);
    SFT_ASSERT(options_.self.value() >= 0 && options_.self.value() < options_.n_slots);
    SFT_ASSERT(options_.address_of != nullptr && options_.lost_ms > 0);
    SFT_ASSERT(!is_open_ && options_.me.value() < options_.n_pes);
    me_.store(options_.me.value(), std::memory_order_relaxed);
    {
        const Locked lock(mutex_);
        regions_.heap = options_.heap;
        regions_.globals = options_.globals;
    }
    const auto n_slots = static_cast<std::size_t>(options_.n_slots);
    const auto n_pes = static_cast<std::size_t>(options_.n_pes);
    peers_ = std::make_unique<NetPeer[]>(n_slots);
    holders_ = std::make_unique<std::atomic<std::int32_t>[]>(n_pes);
    for (std::size_t pe = 0; pe < n_pes; ++pe) {
        holders_[pe].store(kNoProc.value(), std::memory_order_relaxed);
    }
    lanes_.open(n_pes);
    const Fabric::Options fabric_options{.self = options_.self,
                                         .n_slots = options_.n_slots,
                                         .receiver = this,
                                         .interface = options_.interface,
                                         .address = options_.address,
                                         .starts_shut = options_.starts_shut,
                                         .is_signed = options_.is_signed,
                                         .secret = options_.secret,
                                         .lost_ms = options_.lost_ms};
    if (Result<> done = fabric_->open(fabric_options); !done) {
        return done;
    }
    eager_bytes_ = fabric_->eager_bytes();
    packed_bytes_ = std::min(eager_bytes_, kPackedBytes);
    SFT_ASSERT(packed_bytes_ >= kChannelPayloadBytes);
    epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
    stop_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (epoll_ < 0 || stop_ < 0 || wake_ < 0) {
        const int number = errno;
        fabric_->close();
        return fails(format("the system gives no descriptors: %s", std::strerror(number)), number);
    }
    add_to(epoll_, stop_);
    add_to(epoll_, fabric_->fd());
    {
        const Locked lock(mutex_);
        is_watched_ = true;
    }
    is_open_ = true;
    thread_ = std::thread([this] { run_thread(); });
    return {};
}

void Network::Impl::close() noexcept {
    if (!is_open_) {
        return;
    }
    is_open_ = false;
    {
        const Locked lock(mutex_);
        is_stopping_ = true;
    }
    wake(stop_);
    thread_.join();
    const Locked lock(mutex_);
    fabric_->close();
    close_fd(epoll_);
    close_fd(stop_);
    close_fd(wake_);
}

bool Network::Impl::progress() {
    const bool is_anything = fabric_->progress();
    return finish() || is_anything;
}

bool Network::Impl::poll() {
    if (!mutex_.try_lock()) {
        return false;
    }
    const Locked lock(mutex_, AdoptMutex{});
    return progress();
}

// ---- the progress thread ----

void Network::Impl::wake_thread() noexcept { wake(stop_); }

void Network::Impl::watch_fabric(bool is_on) {
    if (is_watched_ == is_on) {
        return;
    }
    is_watched_ = is_on;
    epoll_event event{};
    event.events = is_on ? static_cast<std::uint32_t>(EPOLLIN) : 0U;
    event.data.fd = fabric_->fd();
    if (::epoll_ctl(epoll_, EPOLL_CTL_MOD, fabric_->fd(), &event) != 0) {
        die("epoll_ctl: %s", std::strerror(errno));
    }
}

// Never in the queue of the mutex: a poller gives it away for moments only, too short for this thread to be woken in
// them, and as long as somebody is in the queue every one of these moments costs a system call.
void Network::Impl::lock_behind_pollers() {
    while (!mutex_.try_lock()) {
        if (n_pollers_.load(std::memory_order_relaxed) == 0) {
            ::sched_yield();
        } else {
            ::poll(nullptr, 0, kBehindPollersMs);
        }
    }
}

void Network::Impl::run_thread() {
    const Locked lock(mutex_);
    std::uint64_t phases_before = n_phases_;
    bool is_look = false;
    while (!is_stopping_) {
        const std::uint64_t n_phases = n_phases_ - phases_before;
        phases_before = n_phases_;
        is_parked_ = n_phases >= kDensePhases;
        if (is_parked_) {
            watch_fabric(false);
        }
        if (n_pollers_ == 0 || is_look) {
            work();
        }
        if (n_pollers_ == 0 && !is_parked_) {
            if (!fabric_->arm()) {
                mutex_.unlock();
                lock_behind_pollers();
                continue;
            }
            watch_fabric(true);
        }
        std::vector<ProcId> lost;
        lost.swap(lost_);
        const int look_ms = is_parked_ ? kParkedMs : n_pollers_ != 0 || n_phases != 0 ? kLookMs : kIdleLookMs;
        mutex_.unlock();
        for (const ProcId process : lost) {
            if (options_.connection_lost) {
                options_.connection_lost(process);
            }
        }
        epoll_event events[2];
        const int n = ::epoll_wait(epoll_, events, 2, look_ms);
        is_look = n == 0;
        lock_behind_pollers();
        drain(stop_);
    }
}

// Turns until there is nothing to do. While a thread of the program sleeps, its processor is free, and what has come is
// mostly followed by more: then a little longer.
void Network::Impl::work() {
    const bool is_patient = n_pollers_ == 0 && options_.wait_style.yields == 0 && options_.doorbell != nullptr &&
                            options_.doorbell->sleepers.load(std::memory_order_relaxed) != 0;
    const int patience = is_patient ? kPatience : 0;
    int n_idle = 0;
    for (int turn = 0; turn < kTurnsMax; ++turn) {
        if (progress()) {
            n_idle = 0;
        } else if (++n_idle > patience) {
            return;
        } else {
            turn = 0;
            mutex_.unlock();
            pause();
            lock_behind_pollers();
            if (n_pollers_ != 0 || is_stopping_) {
                return;
            }
        }
    }
}

// ---- threads that wait ----

void Network::Impl::enter_polling() {
    const Locked lock(mutex_);
    begin_polling();
}

void Network::Impl::leave_polling() {
    const Locked lock(mutex_);
    end_polling();
}

void Network::Impl::begin_polling() {
    ++n_phases_;
    if (n_pollers_++ == 0) {
        watch_fabric(false);
    }
}

void Network::Impl::end_polling() {
    SFT_ASSERT(n_pollers_ != 0);
    if (--n_pollers_ != 0 || is_parked_) {
        return;
    }
    for (int turn = 0; turn < kLeavingTurnsMax; ++turn) {
        if (fabric_->arm()) {
            watch_fabric(true);
            return;
        }
        progress();
    }
    wake_thread();  // there is much to do
}

void Network::Impl::back_off(std::uint32_t turn) {
    const WaitStyle& style = options_.wait_style;
    if (turn >= style.spins + style.yields) {
        sleep_on_fabric();
        return;
    }
    mutex_.unlock();
    if (turn >= style.spins) {
        ::sched_yield();
    } else {
        pause();
    }
    mutex_.lock();
}

void Network::Impl::sleep_on_fabric() {
    if (has_sleeper_) {
        ++n_waiting_for_sleeper_;
        sleeper_is_back_.wait(mutex_);
        SFT_ASSERT(n_waiting_for_sleeper_ != 0);
        --n_waiting_for_sleeper_;
        return;
    }
    if (!fabric_->arm()) {
        return;
    }
    has_sleeper_ = true;
    SFT_ASSERT(wake_ >= 0 && n_pollers_ != 0);  // whoever sleeps here is one of those that poll
    pollfd entries[2] = {{.fd = fabric_->fd(), .events = POLLIN, .revents = 0},
                         {.fd = wake_, .events = POLLIN, .revents = 0}};
    mutex_.unlock();
    ::poll(entries, 2, kLookMs);
    mutex_.lock();
    SFT_ASSERT(has_sleeper_);  // nobody else has slept meanwhile
    has_sleeper_ = false;
    if (entries[1].revents != 0) {
        drain(wake_);
    }
    if (n_waiting_for_sleeper_ != 0) {
        sleeper_is_back_.notify_all();
    }
}

// Something has happened that they may wait for.
void Network::Impl::wake_sleepers() {
    if (has_sleeper_) {
        wake(wake_);
    }
    if (n_waiting_for_sleeper_ != 0) {
        sleeper_is_back_.notify_all();
    }
}

}  // namespace sft
