#include "recovery/detection/failure_service.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/realtime.hpp"
#include "base/report.hpp"
#include "base/thread_start.hpp"

namespace sft {
namespace {

// One descriptor per process of the node, besides the application's own.
void allow_descriptors(std::int32_t n_processes) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        const rlim_t wanted = limit.rlim_cur + static_cast<rlim_t>(n_processes);
        limit.rlim_cur = std::min(wanted, limit.rlim_max);
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
}

}  // namespace

FailureService::FailureService(Options options)
    : options_(std::move(options)),
      lease_({.control = options_.control,
              .self = options_.self,
              .bound_ns = options_.node_bound_ns,
              .is_one_node = options_.nodes == nullptr}),
      reports_({.channel = options_.channel,
                .control = options_.control,
                .coordinator = options_.coordinator,
                .self = options_.self,
                .is_one_node = options_.nodes == nullptr,
                .host = options_.host}),
      watches_(*options_.control) {}

Result<> FailureService::watch_processes() {
    allow_descriptors(options_.control->n_slots());
    for (std::int32_t i = 0; i < options_.control->n_processes(); ++i) {
        const ProcId process(i);
        if (process == options_.self || options_.host->is_remote(process)) {
            continue;
        }
        const ProcessSlot& slot = options_.control->slot(process);
        if (slot.state.load(std::memory_order_acquire) == ProcessState::starting) {
            return fails(format("process %d of the job ended inside shmem_init", i));
        }
        const ProcessWatches::Outcome outcome = watches_.watch(process);
        if (outcome.reach == Reach::cannot_be_opened) {
            return fails(Error{Failure::cannot_be_opened,
                               format("cannot watch process %d (pid %d): %s", i, slot.pid,
                                      describe_error(outcome.error).c_str()),
                               outcome.error});
        }
        SFT_ASSERT(watches_.is_watched(process) == (outcome.reach == Reach::opened));
        if (outcome.reach == Reach::gone) {
            early_.push_back(process);
        }
    }
    return {};
}

void FailureService::watch_descriptor(int fd, std::function<void()> on_readable) {
    SFT_ASSERT(fd >= 0 && on_readable && !service_.joinable());
    descriptors_.push_back({fd, std::move(on_readable)});
}

Result<> FailureService::start() {
    SFT_ASSERT(!service_.joinable() && wake_fd_ < 0);
    wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd_ < 0) {
        const int error = errno;
        return fails(format("cannot have the descriptors of the service thread: %s", describe_error(error).c_str()),
                     error);
    }
    lease_.begin(now_ns(), options_.joins);
    service_ = start_without_signals([this] {
        if (options_.is_realtime) {
            prefer_this_thread();
        }
        serve();
    });
    return service_.joinable() ? Result<>{} : fails("the system gives no service thread");
}

void FailureService::listen_to_launcher(const std::string& name_space) {
    failure_events_.listen(name_space, [this](ProcId process) { told_of_failure(process); });
}

void FailureService::stop() noexcept {
    SFT_ASSERT(!is_here());
    failure_events_.stop();
    if (service_.joinable()) {
        is_stopping_.store(true);
        wake();
        service_.join();
        thread_.store({});  // another thread may get its number
    }
    if (wake_fd_ >= 0) {
        ::close(std::exchange(wake_fd_, -1));
    }
    watches_.clear();
}

void FailureService::wake() noexcept {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_fd_, &one, sizeof one);
}

bool FailureService::has_lease() const { return lease_.is_held(now_ns()); }

// A thread of PMIx.
void FailureService::told_of_failure(ProcId process) {
    {
        const Locked lock(reported_mutex_);
        reported_failures_.push_back(process);
    }
    wake();
}

}  // namespace sft
