#include "base/mutex.hpp"

#include <cstdlib>
#include <limits>

#include "base/report.hpp"

namespace sft {
namespace {

thread_local std::uint32_t t_held = 0;  // a bit for each rank that is checked
static_assert(kMutexRanks <= std::numeric_limits<decltype(t_held)>::digits);

}  // namespace

void Mutex::check_order() const noexcept {
    if (t_held >= bit_) {
        say("error: a thread takes a mutex out of order (rank %#x, it holds %#x): please report this error of the "
            "library",
            bit_, t_held);
        std::abort();
    }
}

void Mutex::check_held() const noexcept { SFT_ASSERT((t_held & bit_) != 0); }

void Mutex::note_held() const noexcept {
    SFT_ASSERT((t_held & bit_) == 0);
    t_held |= bit_;
}

void Mutex::note_left() const noexcept {
    SFT_ASSERT((t_held & bit_) != 0);
    t_held &= ~bit_;
}

}  // namespace sft
