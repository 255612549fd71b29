/* Are the upper halves of the vector registers in use, as the processor says? As long as they are, every SSE
 * instruction has to preserve them, which on many processors makes programs compiled for plain x86-64 slower by a
 * factor. Whoever has used them executes VZEROUPPER before he returns.
 *
 * XGETBV with ECX = 1 tells which parts of the state are in use. Of these only bits 2 (upper halves of YMM0 to 15) and
 * 6 (upper halves of ZMM0 to 15) count, which VZEROUPPER clears. Bits 5 and 7 (mask registers, registers 16 to 31) are
 * out of the reach of SSE instructions and cost them nothing, and glibc's string functions use them from the first one
 * in the dynamic loader on. */
#ifndef TESTS_REGISTERS_UPPER_HALVES_H
#define TESTS_REGISTERS_UPPER_HALVES_H

#include <cpuid.h>
#include <stddef.h>
#include <stdint.h>

enum { YMM_UPPER = 1 << 2, ZMM_UPPER = 1 << 6 };

static inline uint32_t extended_control(uint32_t which) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(which));
    return low;
}

static inline uint32_t upper_halves_in_use(void) { return extended_control(1) & (YMM_UPPER | ZMM_UPPER); }

/* The lower halves, in which code may hold values, stay. */
static inline void clear_upper_halves(void) { __asm__ volatile("vzeroupper"); }

static inline void use_upper_halves(void) { __asm__ volatile("vcmptrueps %%ymm15, %%ymm15, %%ymm15" : : : "xmm15"); }

/* Why the functions above cannot be called here, or NULL. */
static inline const char* upper_halves_problem(void) {
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & bit_OSXSAVE) == 0 || (c & bit_AVX) == 0 ||
        (extended_control(0) & YMM_UPPER) == 0) {
        return "the processor or the kernel has no AVX";
    }
    if (!__get_cpuid_count(0xd, 1, &a, &b, &c, &d) || (a & (1 << 2)) == 0) {
        return "the processor does not tell which state is in use (XGETBV with ECX = 1)";
    }
    clear_upper_halves();
    const uint32_t when_cleared = upper_halves_in_use();
    use_upper_halves();
    const uint32_t when_used = upper_halves_in_use();
    clear_upper_halves();
    return when_cleared == 0 && when_used != 0 ? NULL
                                               : "the processor says the same of registers in use and not in use";
}

#endif
