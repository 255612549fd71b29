#include "base/instruments.hpp"

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif

// Null in a program without the sanitizer. Declared here because the compilers' headers for them need not be there.
extern "C" {
__attribute__((weak)) void __asan_init();
__attribute__((weak)) void __tsan_init();
__attribute__((weak)) void __lsan_disable();
__attribute__((weak)) void __lsan_enable();
}

namespace sft {

bool is_address_sanitized() noexcept { return __asan_init != nullptr; }
bool is_thread_sanitized() noexcept { return __tsan_init != nullptr; }

bool is_under_valgrind() noexcept {
#if defined(RUNNING_ON_VALGRIND)
    return RUNNING_ON_VALGRIND != 0;
#else
    return false;
#endif
}

OthersLeaks::OthersLeaks() noexcept {
    if (__lsan_disable != nullptr) {
        __lsan_disable();
    }
}

OthersLeaks::~OthersLeaks() {
    if (__lsan_enable != nullptr) {
        __lsan_enable();
    }
}

}  // namespace sft
