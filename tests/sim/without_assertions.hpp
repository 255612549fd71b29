// Put in front of the sources of sim_mutated: the checkers of the simulator have to find each deliberate bug by
// themselves, as they share no code with what they check, and an assertion would end the process before they see it.
#pragma once

#include "base/assert.hpp"

#undef SFT_ASSERT
#undef SFT_ASSERT_SLOW
#define SFT_ASSERT(...) static_cast<void>(sizeof(static_cast<bool>(__VA_ARGS__)))
#define SFT_ASSERT_SLOW(...) SFT_ASSERT(__VA_ARGS__)
