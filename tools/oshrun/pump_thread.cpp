#include "tools/oshrun/pump_thread.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <utility>

namespace sft::tools {

PumpThread::PumpThread(std::function<void(std::atomic<int>& lost)> move)
    : done_(std::make_shared<const Fd>(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))),
      lost_(std::make_shared<std::atomic<int>>(0)),
      thread_([done = done_, lost = lost_, move = std::move(move)] {
          move(*lost);
          eventfd_write(done->get(), 1);
      }) {}

PumpThread::~PumpThread() {
    pollfd entry{.fd = done_->get(), .events = POLLIN, .revents = 0};
    if (poll(&entry, 1, 0) == 1) {
        thread_.join();
    } else {
        thread_.detach();
    }
}

}  // namespace sft::tools
