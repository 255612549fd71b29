/* What the conformance programs share: a check that says in one line what did not hold and ends the job, delays, and
 * the type lists of the specification. They are written out again here, from the specification's tables and not from
 * types.def, so that a wrong row there is found. */
#ifndef CONFORMANCE_CHECK_H
#define CONFORMANCE_CHECK_H

#include <complex.h>
#include <shmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline void check_failed(const char* file, int line, const char* what, const char* subject) {
    fprintf(stderr, "PE %d: %s:%d: %s: %s does not hold\n", shmem_my_pe(), file, line, subject, what);
    shmem_global_exit(1);
}

#define CHECK_FOR(subject, condition)                               \
    do {                                                            \
        if (!(condition)) {                                         \
            check_failed(__FILE__, __LINE__, #condition, #subject); \
        }                                                           \
    } while (0)
#define CHECK(condition) CHECK_FOR(check, condition)

/* Then wrong calls that do no harm are told of. */
static inline int calls_are_checked(void) { return getenv("SHMEM_FT_CHECK") != NULL; }

/* PEs that arrive at different times: another delay, below that many microseconds, for each turn and PE. */
static inline void delay_below(unsigned microseconds, unsigned turn) {
    const unsigned scrambled = (turn * 2654435761U + (unsigned)shmem_my_pe() * 40503U) >> 7;
    const struct timespec pause = {0, (long)(scrambled % microseconds) * 1000};
    if (scrambled % 3 != 0) {
        nanosleep(&pause, NULL);
    }
}

/* Groups of the tables of types, each type once. Below, the tables are made of them. */
#define REAL_TYPES(X) X(float, float) X(double, double) X(longdouble, long double)
#define CHAR_TYPES(X) X(char, char) X(schar, signed char)
#define WORD_TYPES(X) X(int, int) X(long, long) X(longlong, long long)
#define UNSIGNED_WORD_TYPES(X) X(uint, unsigned int) X(ulong, unsigned long) X(ulonglong, unsigned long long)
#define EXACT_WORD_TYPES(X) X(int32, int32_t) X(int64, int64_t) X(uint32, uint32_t) X(uint64, uint64_t)
#define EXACT_SMALL_TYPES(X) X(int8, int8_t) X(int16, int16_t) X(uint8, uint8_t) X(uint16, uint16_t)

#define BITWISE_AMO_TYPES(X) UNSIGNED_WORD_TYPES(X) EXACT_WORD_TYPES(X)
#define AMO_TYPES(X) WORD_TYPES(X) BITWISE_AMO_TYPES(X) X(size, size_t) X(ptrdiff, ptrdiff_t)
#define EXTENDED_AMO_TYPES(X) X(float, float) X(double, double) AMO_TYPES(X)
#define P2P_TYPES(X) X(short, short) X(ushort, unsigned short) AMO_TYPES(X)
#define LOGIC_TYPES(X)      \
    X(uchar, unsigned char) \
    X(ushort, unsigned short) UNSIGNED_WORD_TYPES(X) EXACT_SMALL_TYPES(X) EXACT_WORD_TYPES(X) X(size, size_t)
#define RMA_TYPES(X) REAL_TYPES(X) CHAR_TYPES(X) X(short, short) WORD_TYPES(X) LOGIC_TYPES(X) X(ptrdiff, ptrdiff_t)
#define SUM_TYPES(X) RMA_TYPES(X) X(complexd, double _Complex) X(complexf, float _Complex)

/* Of the routines that are kept for old programs. */
#define OLD_AMO_TYPES(X) WORD_TYPES(X)
#define OLD_EXTENDED_AMO_TYPES(X) X(float, float) X(double, double) WORD_TYPES(X)
#define OLD_WAIT_TYPES(X) X(short, short) WORD_TYPES(X)
#define OLD_LOGIC_TYPES(X) X(short, short) WORD_TYPES(X)
#define OLD_MINMAX_TYPES(X) OLD_LOGIC_TYPES(X) REAL_TYPES(X)
#define OLD_SUM_TYPES(X) OLD_MINMAX_TYPES(X) X(complexd, double _Complex) X(complexf, float _Complex)

/* The sizes in bits that have routines of their own, with a type of that size. */
__extension__ typedef unsigned __int128 wide;
#define SIZES(X) X(8, uint8_t) X(16, uint16_t) X(32, uint32_t) X(64, uint64_t) X(128, wide)

/* As many as the specification has. */
#define CHECK_ONE_MORE(NAME, TYPE) +1
_Static_assert(0 RMA_TYPES(CHECK_ONE_MORE) == 24, "standard RMA types");
_Static_assert(0 AMO_TYPES(CHECK_ONE_MORE) == 12, "standard AMO types");
_Static_assert(0 EXTENDED_AMO_TYPES(CHECK_ONE_MORE) == 14, "extended AMO types");
_Static_assert(0 BITWISE_AMO_TYPES(CHECK_ONE_MORE) == 7, "bitwise AMO types");
_Static_assert(0 P2P_TYPES(CHECK_ONE_MORE) == 14, "point-to-point types");
_Static_assert(0 LOGIC_TYPES(CHECK_ONE_MORE) == 14, "types of AND, OR and XOR");
_Static_assert(0 SUM_TYPES(CHECK_ONE_MORE) == 26, "types of SUM, PROD and scans");
_Static_assert(0 OLD_SUM_TYPES(CHECK_ONE_MORE) == 9, "types of active-set reductions");

#endif
