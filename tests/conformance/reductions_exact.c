/* Results of reductions to the bit: rounding, NaN, zeros with sign, wrap-around, complex numbers. */
#include <float.h>
#include <math.h>

#include "tests/conformance/check.h"

enum { MOST = 300 };
static int me, npes;
static void *dest_space, *source_space, *theirs_space;

/* All PEs must have got the same: the same number with the same sign, or the same NaN. Padding of long double is not
 * part of the number. */
static void expect_same_bits(const void* dest, size_t element, size_t used, size_t count) {
    shmem_barrier_all();
    shmem_getmem(theirs_space, dest, element * count, (me + 1) % npes);
    for (size_t i = 0; i < count; i++) {
        CHECK(memcmp((const char*)dest + i * element, (const char*)theirs_space + i * element, used) == 0);
    }
    shmem_barrier_all();
}

/* Rounding depends on the order of summation; all PEs and all repetitions must get the same bits, whether the data
 * travels in messages (small counts) or not. */
#define DEFINE_REPEATABLE(NAME, TYPE, USED)                                                                   \
    static void check_repeatable_##NAME(void) {                                                               \
        TYPE *const dest = dest_space, *const source = source_space;                                          \
        static TYPE first[MOST];                                                                              \
        static const size_t counts[] = {1, 3, 20, MOST};                                                      \
        for (int c = 0; c < 4; c++) {                                                                         \
            for (size_t i = 0; i < counts[c]; i++) {                                                          \
                source[i] = (TYPE)((me % 2 == 0 ? 1.0L : -1.0L) / (3.0L + me) * (TYPE)(1UL << (i * 7 % 40))); \
            }                                                                                                 \
            for (unsigned turn = 0; turn < 4; turn++) {                                                       \
                delay_below(200, turn);                                                                       \
                shmem_sync_all();                                                                             \
                CHECK_FOR(NAME, shmem_##NAME##_sum_reduce(SHMEM_TEAM_WORLD, dest, source, counts[c]) == 0);   \
                if (turn == 0) {                                                                              \
                    memcpy(first, dest, sizeof *first* counts[c]);                                            \
                }                                                                                             \
                for (size_t i = 0; i < counts[c]; i++) {                                                      \
                    CHECK_FOR(NAME, memcmp(&first[i], &dest[i], USED) == 0);                                  \
                }                                                                                             \
                expect_same_bits(dest, sizeof *dest, USED, counts[c]);                                        \
            }                                                                                                 \
        }                                                                                                     \
    }
DEFINE_REPEATABLE(float, float, sizeof(float))
DEFINE_REPEATABLE(double, double, sizeof(double))
DEFINE_REPEATABLE(longdouble, long double, 10)

/* Element i of PE p is one of the special values; over the elements all combinations of neighbours occur. */
enum { SPECIALS = 8 };
#define DEFINE_EXTREMES(NAME, TYPE, USED)                                                                           \
    static TYPE special_##NAME(int pe, size_t i) {                                                                  \
        const TYPE values[SPECIALS] = {0, -(TYPE)0, 1, -1, (TYPE)INFINITY, -(TYPE)INFINITY, (TYPE)NAN, -(TYPE)NAN}; \
        for (int k = 0; k < pe % 3; k++) {                                                                          \
            i /= SPECIALS;                                                                                          \
        }                                                                                                           \
        return values[(i + (size_t)pe / 3) % SPECIALS];                                                             \
    }                                                                                                               \
    static void check_extremes_##NAME(size_t count, int is_maximum) {                                               \
        TYPE *const dest = dest_space, *const source = source_space;                                                \
        for (size_t first = 0; first < (count < 20 ? (size_t)SPECIALS * SPECIALS : 1); first += count) {            \
            for (size_t i = 0; i < count; i++) {                                                                    \
                source[i] = special_##NAME(me, first + i);                                                          \
            }                                                                                                       \
            shmem_sync_all();                                                                                       \
            CHECK((is_maximum ? shmem_##NAME##_max_reduce(SHMEM_TEAM_WORLD, dest, source, count)                    \
                              : shmem_##NAME##_min_reduce(SHMEM_TEAM_WORLD, dest, source, count)) == 0);            \
            for (size_t i = 0; i < count; i++) {                                                                    \
                int found = 0;                                                                                      \
                TYPE best = 0;                                                                                      \
                for (int pe = 0; pe < npes; pe++) {                                                                 \
                    const TYPE value = special_##NAME(pe, first + i);                                               \
                    const int wins = is_maximum ? value > best || (value == best && !signbit(value))                \
                                                : value < best || (value == best && signbit(value));                \
                    if (!isnan(value) && (!found || wins)) {                                                        \
                        best = value;                                                                               \
                        found = 1;                                                                                  \
                    }                                                                                               \
                }                                                                                                   \
                CHECK_FOR(NAME extreme,                                                                             \
                          found ? dest[i] == best && !signbit(dest[i]) == !signbit(best) : isnan(dest[i]));         \
            }                                                                                                       \
            expect_same_bits(dest, sizeof *dest, USED, count);                                                      \
        }                                                                                                           \
    }
DEFINE_EXTREMES(float, float, sizeof(float))
DEFINE_EXTREMES(double, double, sizeof(double))
DEFINE_EXTREMES(longdouble, long double, 10)

/* A NaN stays one in sums, wherever it comes from. */
static void check_nan_in_sums(void) {
    double *const dest = dest_space, *const source = source_space;
    for (size_t count = 1; count <= MOST; count += MOST - 1) {
        for (size_t i = 0; i < count; i++) {
            source[i] = i % 3 == 0 && me == npes - 1 ? NAN : i % 3 == 1 ? (me == 0 ? INFINITY : 1.0) : 1.0;
        }
        shmem_sync_all();
        CHECK(shmem_double_sum_reduce(SHMEM_TEAM_WORLD, dest, source, count) == 0);
        for (size_t i = 0; i < count; i++) {
            CHECK(i % 3 == 0 ? isnan(dest[i]) : i % 3 == 1 ? isinf(dest[i]) && dest[i] > 0 : dest[i] == npes);
        }
        expect_same_bits(dest, sizeof *dest, sizeof *dest, count);
    }
}

/* Both halves of complex numbers: (1 + i) to the power of npes, sums of both parts, scans. */
#define DEFINE_COMPLEX(NAME, REAL)                                                                   \
    static void check_##NAME(void) {                                                                 \
        REAL _Complex *const dest = dest_space, *const source = source_space;                        \
        for (size_t count = 1; count <= MOST; count += MOST - 1) {                                   \
            REAL _Complex power = 1;                                                                 \
            for (int pe = 0; pe < npes; pe++) {                                                      \
                const REAL re = __real__ power, im = __imag__ power;                                 \
                __real__ power = re - im;                                                            \
                __imag__ power = re + im;                                                            \
            }                                                                                        \
            for (size_t i = 0; i < count; i++) {                                                     \
                source[i] = (REAL)1 + (REAL)1 * _Complex_I;                                          \
            }                                                                                        \
            shmem_sync_all();                                                                        \
            CHECK_FOR(NAME, shmem_##NAME##_prod_reduce(SHMEM_TEAM_WORLD, dest, source, count) == 0); \
            for (size_t i = 0; i < count; i++) {                                                     \
                CHECK_FOR(NAME prod, dest[i] == power);                                              \
                __real__ source[i] = (REAL)(me + (int)i);                                            \
                __imag__ source[i] = (REAL)(2 * me - (int)i);                                        \
            }                                                                                        \
            const int pairs = npes * (npes - 1) / 2;                                                 \
            shmem_sync_all();                                                                        \
            CHECK_FOR(NAME, shmem_##NAME##_sum_reduce(SHMEM_TEAM_WORLD, dest, source, count) == 0);  \
            for (size_t i = 0; i < count; i++) {                                                     \
                CHECK_FOR(NAME sum, __real__ dest[i] == (REAL)(pairs + npes * (int)i));              \
                CHECK_FOR(NAME sum, __imag__ dest[i] == (REAL)(2 * pairs - npes * (int)i));          \
            }                                                                                        \
            const int before = me * (me - 1) / 2;                                                    \
            shmem_sync_all();                                                                        \
            CHECK_FOR(NAME, shmem_##NAME##_sum_exscan(SHMEM_TEAM_WORLD, dest, source, count) == 0);  \
            for (size_t i = 0; i < count; i++) {                                                     \
                CHECK_FOR(NAME scan, __real__ dest[i] == (REAL)(before + me * (int)i));              \
                CHECK_FOR(NAME scan, __imag__ dest[i] == (REAL)(2 * before - me * (int)i));          \
            }                                                                                        \
            shmem_sync_all();                                                                        \
        }                                                                                            \
    }
DEFINE_COMPLEX(complexd, double)
DEFINE_COMPLEX(complexf, float)

/* Integers wrap as the hardware does, and extremes of a type compare right. */
#define DEFINE_LIMITS(NAME, TYPE)                                                                      \
    static void check_limits_##NAME(void) {                                                            \
        TYPE *const dest = dest_space, *const source = source_space;                                   \
        const int is_signed = (TYPE)-1 < (TYPE)1;                                                      \
        const TYPE top = (TYPE)(is_signed ? (UINT64_C(1) << (8 * sizeof(TYPE) - 1)) - 1 : UINT64_MAX); \
        const TYPE bottom = (TYPE)(is_signed ? UINT64_C(1) << (8 * sizeof(TYPE) - 1) : 0);             \
        uint64_t sum = 0;                                                                              \
        for (int pe = 0; pe < npes; pe++) {                                                            \
            sum += (uint64_t)(pe % 2 == 0 ? top : bottom);                                             \
        }                                                                                              \
        for (size_t i = 0; i < 70; i++) {                                                              \
            source[i] = me % 2 == 0 ? top : bottom;                                                    \
        }                                                                                              \
        shmem_sync_all();                                                                              \
        CHECK_FOR(NAME, shmem_##NAME##_sum_reduce(SHMEM_TEAM_WORLD, dest, source, 70) == 0);           \
        CHECK_FOR(NAME sum, dest[0] == (TYPE)sum && dest[69] == (TYPE)sum);                            \
        shmem_sync_all();                                                                              \
        CHECK_FOR(NAME, shmem_##NAME##_max_reduce(SHMEM_TEAM_WORLD, dest, source, 70) == 0);           \
        CHECK_FOR(NAME max, dest[0] == top && dest[69] == top);                                        \
        shmem_sync_all();                                                                              \
        CHECK_FOR(NAME, shmem_##NAME##_min_reduce(SHMEM_TEAM_WORLD, dest, source, 70) == 0);           \
        CHECK_FOR(NAME min, dest[0] == (npes == 1 ? top : bottom) && dest[69] == dest[0]);             \
        shmem_sync_all();                                                                              \
    }
#define INTEGER_TYPES(X) CHAR_TYPES(X) X(short, short) WORD_TYPES(X) LOGIC_TYPES(X) X(ptrdiff, ptrdiff_t)
INTEGER_TYPES(DEFINE_LIMITS)

int main(void) {
    shmem_init();
    me = shmem_my_pe();
    npes = shmem_n_pes();
    dest_space = shmem_calloc(MOST, 16);
    source_space = shmem_calloc(MOST, 16);
    theirs_space = calloc(MOST, 16);
    CHECK(dest_space != NULL && source_space != NULL && theirs_space != NULL);
    check_repeatable_float();
    check_repeatable_double();
    check_repeatable_longdouble();
    static const size_t counts[] = {1, 3, 256};
    for (int c = 0; c < 3; c++) {
        for (int is_maximum = 0; is_maximum < 2; is_maximum++) {
            check_extremes_float(counts[c], is_maximum);
            check_extremes_double(counts[c], is_maximum);
            check_extremes_longdouble(counts[c], is_maximum);
        }
    }
    check_nan_in_sums();
    check_complexd();
    check_complexf();
#define RUN(NAME, TYPE) check_limits_##NAME();
    INTEGER_TYPES(RUN)
    free(theirs_space);
    shmem_finalize();
    return 0;
}
