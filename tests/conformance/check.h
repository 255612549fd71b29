/* What the conformance programs share: a check that says in one line what did not hold and ends the job, and the type
 * lists of the specification. They are written out again here, from the specification's tables and not from types.def,
 * so that a wrong row there is found. */
#ifndef CONFORMANCE_CHECK_H
#define CONFORMANCE_CHECK_H

#include <complex.h>
#include <shmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

#define RMA_TYPES(X)                 \
    X(float, float)                  \
    X(double, double)                \
    X(longdouble, long double)       \
    X(char, char)                    \
    X(schar, signed char)            \
    X(short, short)                  \
    X(int, int)                      \
    X(long, long)                    \
    X(longlong, long long)           \
    X(uchar, unsigned char)          \
    X(ushort, unsigned short)        \
    X(uint, unsigned int)            \
    X(ulong, unsigned long)          \
    X(ulonglong, unsigned long long) \
    X(int8, int8_t)                  \
    X(int16, int16_t)                \
    X(int32, int32_t)                \
    X(int64, int64_t)                \
    X(uint8, uint8_t)                \
    X(uint16, uint16_t)              \
    X(uint32, uint32_t)              \
    X(uint64, uint64_t)              \
    X(size, size_t)                  \
    X(ptrdiff, ptrdiff_t)

#define AMO_TYPES(X)                 \
    X(int, int)                      \
    X(long, long)                    \
    X(longlong, long long)           \
    X(uint, unsigned int)            \
    X(ulong, unsigned long)          \
    X(ulonglong, unsigned long long) \
    X(int32, int32_t)                \
    X(int64, int64_t)                \
    X(uint32, uint32_t)              \
    X(uint64, uint64_t)              \
    X(size, size_t)                  \
    X(ptrdiff, ptrdiff_t)

#define EXTENDED_AMO_TYPES(X) X(float, float) X(double, double) AMO_TYPES(X)

#define BITWISE_AMO_TYPES(X)         \
    X(uint, unsigned int)            \
    X(ulong, unsigned long)          \
    X(ulonglong, unsigned long long) \
    X(int32, int32_t)                \
    X(int64, int64_t)                \
    X(uint32, uint32_t)              \
    X(uint64, uint64_t)

#define P2P_TYPES(X) X(short, short) X(ushort, unsigned short) AMO_TYPES(X)

#define LOGIC_TYPES(X)               \
    X(uchar, unsigned char)          \
    X(ushort, unsigned short)        \
    X(uint, unsigned int)            \
    X(ulong, unsigned long)          \
    X(ulonglong, unsigned long long) \
    X(int8, int8_t)                  \
    X(int16, int16_t)                \
    X(int32, int32_t)                \
    X(int64, int64_t)                \
    X(uint8, uint8_t)                \
    X(uint16, uint16_t)              \
    X(uint32, uint32_t)              \
    X(uint64, uint64_t)              \
    X(size, size_t)

#define SUM_TYPES(X) RMA_TYPES(X) X(complexd, double _Complex) X(complexf, float _Complex)

#define SIZES(X) X(8, uint8_t) X(16, uint16_t) X(32, uint32_t) X(64, uint64_t) X(128, struct check_wide)
struct check_wide {
    uint64_t half[2];
};

#endif
