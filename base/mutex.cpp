#include "base/mutex.hpp"

#include <cstdlib>

#include "base/report.hpp"

namespace sft {
namespace {

thread_local std::uint32_t t_held = 0;  // a bit for each rank

}  // namespace

void Mutex::lock() noexcept {
    if (t_held >= bit_) {
        say("error: a thread takes a mutex out of order (rank %#x, it holds %#x): please report this error of the "
            "library",
            bit_, t_held);
        std::abort();
    }
    mutex_.lock();
    t_held |= bit_;
}

void Mutex::unlock() noexcept {
    t_held &= ~bit_;
    mutex_.unlock();
}

}  // namespace sft
