// What happens at a visited fault point. Fault model: none; this file is the fault.

#include "base/faults/fault_points.hpp"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <new>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/mutex.hpp"
#include "base/private_data.hpp"
#include "base/report.hpp"
#include "base/thread_start.hpp"

namespace sft {

namespace {

// Everything there is when the points are on. In the process's heap, which no rollback touches; it is never freed,
// because a thread may visit a point until the process ends.
struct FaultLab {
    FaultSchedule schedule;
    pid_t owner_pid = 0;  // not a child made by fork()
    FaultVisits* counted = nullptr;
    std::array<std::atomic<std::uint32_t>, kFaultPointNumbers> before_pe{};  // visits before the process became its PE

    static constexpr std::int64_t kFirstPeriodNs = 10'000'000;
    std::atomic<std::int64_t> left_ns{0};                 // the last visit of checkpoint_leave
    std::atomic<std::int64_t> period_ns{kFirstPeriodNs};  // from the one before to it

    Mutex mutex{MutexRank::fault_lab};
    FaultSelf self SFT_GUARDED_BY(mutex);
    FaultHook hook SFT_GUARDED_BY(mutex);
};

SFT_LIBRARY_STATE FaultLab* g_lab = nullptr;

}  // namespace

namespace detail {
SFT_LIBRARY_STATE std::atomic<bool> g_fault_points_on{false};
}

namespace {

// ---- actions ----

void wait_ms(std::int64_t duration_ms) noexcept {
    const std::int64_t end_ns = now_ns() + duration_ms * kNsPerMs;
    for (std::int64_t left_ms = duration_ms; left_ms > 0; left_ms = (end_ns - now_ns() + kNsPerMs - 1) / kNsPerMs) {
        ::poll(nullptr, 0, static_cast<int>(std::min<std::int64_t>(left_ms, INT_MAX)));
    }
}

// A stopped process cannot wake itself: a child does both, so that the order is certain. It is made by the bare system
// call: no handlers of fork() run, no signal tells the application of its end, and it goes if its parent is killed.
void stop_for(std::int64_t duration_ms) noexcept {
    if (duration_ms == kForEver) {
        ::raise(SIGSTOP);
        return;
    }
    const pid_t parent = ::getpid();
    const long child = ::syscall(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr);
    if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::close_range(0, ~0U, 0);  // the ends of its parent's connections must not outlive the parent here
        if (::getppid() == parent) {
            ::kill(parent, SIGSTOP);
            wait_ms(duration_ms);
            ::kill(parent, SIGCONT);
        }
        ::_exit(0);
    }
    if (child < 0) {
        say("fault: cannot stop for %lld ms: %s", static_cast<long long>(duration_ms), std::strerror(errno));
        return;
    }
    while (::waitpid(static_cast<pid_t>(child), nullptr, __WALL) < 0 && errno == EINTR) {
    }
}

void die_of_segv() noexcept {
    ::raise(SIGSEGV);
    ::signal(SIGSEGV, SIG_DFL);  // the program has a handler that returned
    ::raise(SIGSEGV);
}

// Whether it could be done. The deadly ones do not return.
bool act(const FaultEntry& entry, const FaultHook& hook) noexcept {
    switch (entry.kind) {
        case FaultKind::kill: ::kill(::getpid(), SIGKILL); break;
        case FaultKind::segv: die_of_segv(); break;
        case FaultKind::abort: std::abort();
        case FaultKind::exit: std::exit(entry.status);
        case FaultKind::stop: stop_for(entry.duration_ms); break;
        case FaultKind::delay: wait_ms(entry.duration_ms); break;
        case FaultKind::flip:
            if (hook.flip == nullptr || !hook.flip(hook.context, entry.copy, entry.bit_seed)) {
                say("fault: no such stored copy in this process now: nothing is flipped");
                return false;
            }
            break;
        case FaultKind::cut:
            if (hook.cut == nullptr || !hook.cut(hook.context, entry.point, entry.duration_ms)) {
                say("fault: cut needs a job on several nodes: nothing is cut");
                return false;
            }
            break;
        case FaultKind::fail: break;  // by whoever makes the call
    }
    return true;
}

// ---- visits ----

ProcId keeper_of(const FaultSelf& self, PeId pe) noexcept {
    return self.keeper == nullptr || pe == kNoPe ? kNoProc : self.keeper(self.context, pe);
}

bool is_its_turn(const FaultEntry& entry, const FaultVisit& visit, const FaultSelf& self) noexcept {
    if (!is_due(entry, visit)) {
        return false;
    }
    if (entry.victim == FaultVictim::leader) {
        return self.leads != nullptr && self.leads(self.context);
    }
    if (entry.victim == FaultVictim::partner) {
        return entry.number < self.n_pes && keeper_of(self, PeId(entry.number)) == self.process;
    }
    return true;
}

// Whether this process is the one to carry it out: an entry happens once in a job.
bool claim(const FaultLab& lab, std::size_t index, const FaultSelf& self) noexcept {
    static_assert(kFaultEntriesMax <= 64, "a bit each in FaultSelf::fired");
    SFT_ASSERT(index < lab.schedule.size() && index < kFaultEntriesMax);
    if (lab.schedule[index].is_every) {
        return true;
    }
    const std::uint32_t times = lab.counted->fired[index].count.load();
    if (times != 0) {
        return times < lab.schedule[index].times;  // begun by this process
    }
    const std::uint64_t bit = std::uint64_t{1} << index;
    return self.fired == nullptr || (self.fired->fetch_or(bit) & bit) == 0;
}

void announce(const FaultEntry& entry, const FaultVisit& visit) noexcept {
    if (visit.pe == kNoPe) {
        say("fault: %s (process %d, visit %u)", to_string(entry).c_str(), visit.process.value(), visit.of_process);
    } else {
        say("fault: %s (process %d, PE %d, visit %u)", to_string(entry).c_str(), visit.process.value(),
            visit.pe.value(), visit.of_process);
    }
}

// The name comes from the environment, and the process may be root's. So nothing that exists is written to but counters
// of an earlier job of the same user: no link is followed, and no other file loses its contents.
Result<int> open_visits_file(const std::string& path) {
    const auto fail = [&](const char* why) {
        return fails(format("SHMEM_FT_FAULT_VISITS: cannot write %s: %s", path.c_str(), why));
    };
    if (::getauxval(AT_SECURE) != 0) {
        return fail("the program has other rights than its user");
    }
    int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno != EEXIST) {
        return fail(std::strerror(errno));
    }
    if (fd < 0) {
        constexpr const char* kStranger = "there is something else under that name: remove it, or give another name";
        fd = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        struct stat info {};
        std::uint32_t magic = 0;
        if (fd < 0 || ::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != ::geteuid() ||
            info.st_nlink != 1 || info.st_size != static_cast<off_t>(sizeof(FaultVisits)) ||
            ::pread(fd, &magic, sizeof magic, 0) != sizeof magic || magic != kFaultVisitsMagic) {
            if (fd >= 0) {
                ::close(fd);
            }
            return fail(kStranger);
        }
    }
    if (::ftruncate(fd, 0) != 0 || ::ftruncate(fd, sizeof(FaultVisits)) != 0) {
        const int problem = errno;
        ::close(fd);
        return fail(std::strerror(problem));
    }
    return fd;
}

Result<> create_counters(FaultLab& lab, const std::string& prefix, ProcId process) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    int fd = -1;
    if (!prefix.empty()) {
        const Result<int> opened = open_visits_file(prefix + "." + std::to_string(process.value()));
        if (!opened) {
            return fails(opened.error());
        }
        fd = *opened;
        flags = MAP_SHARED;
    }
    void* memory = ::mmap(nullptr, sizeof(FaultVisits), PROT_READ | PROT_WRITE, flags, fd, 0);
    if (fd >= 0) {
        ::close(fd);
    }
    if (memory == MAP_FAILED) {
        return fails(format("SHMEM_FT_FAULT_VISITS: cannot map the counters: %s", std::strerror(errno)));
    }
    lab.counted = new (memory) FaultVisits{};  // all zeros, as the file is
    lab.counted->magic = kFaultVisitsMagic;
    lab.counted->layout = 1;
    lab.counted->process = process.value();
    lab.counted->pid = ::getpid();
    lab.counted->pe.store(kNoPe.value());
    return {};
}

}  // namespace

namespace {

void strike(std::size_t index, const FaultVisit& visit, const FaultSelf& self, const FaultHook& hook) noexcept {
    SFT_ASSERT(index < g_lab->schedule.size() && g_lab->counted != nullptr);
    const FaultEntry& entry = g_lab->schedule[index];
    // First the record: most faults do not come back.
    FaultFired& fired = g_lab->counted->fired[index];
    fired.pe = self.pe.value();
    fired.keeper = keeper_of(self, self.pe).value();
    fired.phase = self.phase;
    fired.time_ns = now_ns();
    fired.count.fetch_add(1);
    if (fired.count.load() == 1) {
        announce(entry, visit);
    }
    if (!act(entry, hook)) {
        fired.count.fetch_sub(1);
    }
}

struct LaterStrike {
    std::size_t index;
    FaultVisit visit;
};

// A part of the time that the program takes from one checkpoint to the next, so that the same schedule does the same on
// a machine that is slower.
std::int64_t later_ns(std::int64_t after_us) noexcept {
    return after_us > 0 ? after_us * 1000 : g_lab->period_ns.load(std::memory_order_relaxed) / 100 * -after_us;
}

void* wait_and_strike(void* argument) {
    const std::unique_ptr<LaterStrike> later(static_cast<LaterStrike*>(argument));
    const std::int64_t end_ns = now_ns() + later_ns(g_lab->schedule[later->index].after_us);
    for (std::int64_t left_ns = end_ns - now_ns(); left_ns > 0; left_ns = end_ns - now_ns()) {
        const timespec left = {left_ns / kNsPerSecond, left_ns % kNsPerSecond};
        ::ppoll(nullptr, 0, &left, nullptr);
    }
    FaultSelf self;
    FaultHook hook;
    {
        const Locked lock(g_lab->mutex);
        self = g_lab->self;
        hook = g_lab->hook;
    }
    strike(later->index, later->visit, self, hook);
    return nullptr;
}

// By a thread of its own, because the one that is here goes on into the program. Signals of the program are not for it.
void strike_later(std::size_t index, const FaultVisit& visit) noexcept {
    SFT_ASSERT(index < g_lab->schedule.size() && g_lab->schedule[index].after_us != 0);
    pthread_t thread{};
    auto later = std::make_unique<LaterStrike>(LaterStrike{index, visit});
    const int problem = [&] {
        const WithoutSignals none;
        return ::pthread_create(&thread, nullptr, wait_and_strike, later.get());
    }();
    if (problem != 0) {
        say("fault: no thread for what comes later: %s", std::strerror(problem));
        return;
    }
    static_cast<void>(later.release());
    ::pthread_detach(thread);
}

}  // namespace

int detail::visit_fault_point(FaultPoint point) noexcept {
    FaultLab& lab = *g_lab;
    if (::getpid() != lab.owner_pid) {
        return 0;
    }
    const auto number = static_cast<std::size_t>(point);
    SFT_ASSERT(number < kFaultPointNumbers);
    lab.counted->last_point.store(static_cast<std::uint32_t>(number), std::memory_order_relaxed);
    FaultVisit visit;
    visit.of_process = lab.counted->visits[number].fetch_add(1, std::memory_order_relaxed) + 1;
    if (lab.schedule.empty()) {
        return 0;
    }
    if (point == FaultPoint::checkpoint_leave) {
        const std::int64_t at_ns = now_ns();
        const std::int64_t before_ns = lab.left_ns.exchange(at_ns, std::memory_order_relaxed);
        lab.period_ns.store(before_ns == 0 ? FaultLab::kFirstPeriodNs : at_ns - before_ns, std::memory_order_relaxed);
    }
    int error = 0;
    FaultSelf self;
    FaultHook hook;
    {
        const Locked lock(lab.mutex);
        self = lab.self;
        hook = lab.hook;
    }
    visit.of_pe = visit.of_process - lab.before_pe[number].load(std::memory_order_relaxed);
    visit.point = point;
    visit.process = self.process;
    visit.pe = self.pe;
    visit.incarnation = self.incarnation;
    visit.n_pes = self.n_pes;
    visit.n_processes = self.n_processes;
    for (std::size_t i = 0; i < lab.schedule.size(); ++i) {
        const FaultEntry& entry = lab.schedule[i];
        if (is_its_turn(entry, visit, self) && claim(lab, i, self)) {
            if (entry.after_us != 0) {
                strike_later(i, visit);
                continue;
            }
            error = entry.kind == FaultKind::fail ? entry.status : error;
            strike(i, visit, self, hook);
        }
    }
    return error;
}

Result<> start_fault_points(const Config& config, ProcId process) {
    if (g_lab != nullptr || (config.fault_schedule.empty() && config.fault_visits.empty())) {
        return {};
    }
    auto* lab = new FaultLab;
    lab->schedule = config.fault_schedule;
    lab->owner_pid = ::getpid();
    {
        const Locked lock(lab->mutex);
        lab->self.process = process;
    }
    if (Result<> created = create_counters(*lab, config.fault_visits, process); !created) {
        delete lab;
        return created;
    }
    g_lab = lab;
    if (process == ProcId(0) && !lab->schedule.empty()) {
        say("fault schedule: %s", to_string(lab->schedule).c_str());
    }
    detail::g_fault_points_on.store(true);
    return {};
}

FaultSelf fault_self() noexcept {
    if (g_lab == nullptr) {
        return {};
    }
    const Locked lock(g_lab->mutex);
    return g_lab->self;
}

void set_fault_self(const FaultSelf& self) noexcept {
    if (g_lab == nullptr) {
        return;
    }
    const Locked lock(g_lab->mutex);
    // What a process did as a sleeping spare is not what the PE does; the first holders were their PEs from the start.
    if (self.pe != g_lab->self.pe && self.process.value() >= self.n_pes) {
        for (std::size_t i = 0; i < kFaultPointNumbers; ++i) {
            g_lab->before_pe[i].store(g_lab->counted->visits[i].load(std::memory_order_relaxed));
        }
    }
    g_lab->self = self;
    g_lab->counted->pe.store(self.pe.value());
    g_lab->counted->incarnation.store(self.incarnation);
    g_lab->counted->phase.store(self.phase);
}

void forget_fault_self() noexcept {
    if (g_lab != nullptr) {
        const Locked lock(g_lab->mutex);
        FaultSelf& self = g_lab->self;
        self.context = nullptr;
        self.leads = nullptr;
        self.keeper = nullptr;
        self.fired = nullptr;
        g_lab->hook = FaultHook{};
    }
}

void set_fault_hook(const FaultHook& hook) noexcept {
    if (g_lab != nullptr) {
        const Locked lock(g_lab->mutex);
        g_lab->hook = hook;
    }
}

}  // namespace sft
