// What must hold, checked where it can break. Whoever finds that it does not hold ends the job with one line that names
// the file, the line and the condition: going on would be a wrong result, and a substitute would meet the same defect.
//
//   SFT_ASSERT(x)         in every build: a few instructions, on paths that are not the fast ones
//   SFT_ASSERT_SLOW(x)    in builds for debugging and with sanitizers: loops over a state, and fast paths
//   SFT_UNREACHABLE()     in every build
//
// The condition has no effects of its own. What a user, another process or the network can bring about is no defect and
// has an error instead (base/result.hpp).
#pragma once

#ifndef SFT_SLOW_ASSERTIONS
#define SFT_SLOW_ASSERTIONS 0
#endif

namespace sft {

[[noreturn]] void end_by_defect(const char* file, int line, const char* what) noexcept;

// What tells the others; it must take no locks. Called once, before the process ends with kExitError.
void set_defect_hook(void (*hook)(const char* line)) noexcept;

}  // namespace sft

#define SFT_ASSERT(...)                                              \
    (__builtin_expect(static_cast<bool>(__VA_ARGS__), true) ? void() \
                                                            : ::sft::end_by_defect(__FILE__, __LINE__, #__VA_ARGS__))
#if SFT_SLOW_ASSERTIONS
#define SFT_ASSERT_SLOW(...) SFT_ASSERT(__VA_ARGS__)
#else
#define SFT_ASSERT_SLOW(...) static_cast<void>(sizeof(static_cast<bool>(__VA_ARGS__)))
#endif
#define SFT_UNREACHABLE() ::sft::end_by_defect(__FILE__, __LINE__, "this place is never reached")
