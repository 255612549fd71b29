#include "shmem_ft/ops/copy.hpp"

#include "base/sanitizers.hpp"

// Sanitizers see what memcpy touches, but not what an instruction of ours does.
#if defined(__x86_64__) && !SFT_ADDRESS_SANITIZER && !SFT_THREAD_SANITIZER
#define SFT_HAS_STRING_MOVE 1
#include <cpuid.h>
#endif

namespace sft {

#ifdef SFT_HAS_STRING_MOVE

Copier Copier::for_this_processor() noexcept {
    constexpr unsigned kFeatureLeaf = 7;
    constexpr unsigned kEnhancedMove = 1U << 9;  // in EBX: ERMS
    Copier copier;
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    if (__get_cpuid_count(kFeatureLeaf, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & kEnhancedMove) != 0) {
        copier.move_from_bytes_ = kMoveFromBytes;
    }
    return copier;
}

void Copier::move(void* to, const void* from, std::size_t bytes) noexcept {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

#else

Copier Copier::for_this_processor() noexcept { return {}; }

void Copier::move(void* to, const void* from, std::size_t bytes) noexcept { std::memcpy(to, from, bytes); }

#endif

}  // namespace sft
