#include "base/mutex.hpp"

#include <limits>

#include "base/assert.hpp"

namespace sft {
namespace {

thread_local std::uint32_t t_held = 0;  // a bit for each rank that is checked
static_assert(kMutexRanks <= std::numeric_limits<decltype(t_held)>::digits);

}  // namespace

// Those that it holds come before this one in MutexRank.
void Mutex::check_order() const noexcept { SFT_ASSERT(t_held < bit_); }

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
