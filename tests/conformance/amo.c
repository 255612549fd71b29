/* Atomic memory operations: every type and operation, default and own context, blocking and not. */
#include <math.h>

#include "tests/conformance/check.h"

enum { MOST_PES = 30 };
static int me, npes, right;
static shmem_ctx_t ctx;

/* Alone on a word of the right neighbour: old values and results are known. */
#define DEFINE_EXTENDED(NAME, TYPE)                                                          \
    static TYPE extended_##NAME[1];                                                          \
    static void check_extended_##NAME(void) {                                                \
        TYPE* const at = extended_##NAME;                                                    \
        TYPE fetched = 0;                                                                    \
        shmem_##NAME##_atomic_set(at, (TYPE)5, right);                                       \
        CHECK_FOR(NAME, shmem_##NAME##_atomic_fetch(at, right) == (TYPE)5);                  \
        shmem_ctx_##NAME##_atomic_set(ctx, at, (TYPE)6, right);                              \
        CHECK_FOR(NAME, shmem_ctx_##NAME##_atomic_fetch(ctx, at, right) == (TYPE)6);         \
        CHECK_FOR(NAME, shmem_##NAME##_atomic_swap(at, (TYPE)7, right) == (TYPE)6);          \
        CHECK_FOR(NAME, shmem_ctx_##NAME##_atomic_swap(ctx, at, (TYPE)8, right) == (TYPE)7); \
        shmem_##NAME##_atomic_fetch_nbi(&fetched, at, right);                                \
        shmem_quiet();                                                                       \
        CHECK_FOR(NAME, fetched == (TYPE)8);                                                 \
        shmem_##NAME##_atomic_swap_nbi(&fetched, at, (TYPE)9, right);                        \
        shmem_quiet();                                                                       \
        CHECK_FOR(NAME, fetched == (TYPE)8);                                                 \
        shmem_ctx_##NAME##_atomic_swap_nbi(ctx, &fetched, at, (TYPE)10, right);              \
        shmem_ctx_quiet(ctx);                                                                \
        CHECK_FOR(NAME, fetched == (TYPE)9);                                                 \
        shmem_ctx_##NAME##_atomic_fetch_nbi(ctx, &fetched, at, right);                       \
        shmem_ctx_quiet(ctx);                                                                \
        CHECK_FOR(NAME, fetched == (TYPE)10);                                                \
        shmem_barrier_all();                                                                 \
        CHECK_FOR(NAME, *at == (TYPE)10);                                                    \
    }
EXTENDED_AMO_TYPES(DEFINE_EXTENDED)

#define DEFINE_STANDARD(NAME, TYPE)                                                                     \
    static TYPE standard_##NAME[2];                                                                     \
    static void check_standard_##NAME(void) {                                                           \
        TYPE* const at = standard_##NAME;                                                               \
        TYPE fetched = 0;                                                                               \
        CHECK_FOR(NAME, shmem_##NAME##_atomic_compare_swap(at, (TYPE)1, (TYPE)9, right) == 0);          \
        CHECK_FOR(NAME, shmem_##NAME##_atomic_compare_swap(at, (TYPE)0, (TYPE)3, right) == 0);          \
        CHECK_FOR(NAME, shmem_ctx_##NAME##_atomic_compare_swap(ctx, at, (TYPE)3, (TYPE)4, right) == 3); \
        CHECK_FOR(NAME, shmem_##NAME##_atomic_fetch_inc(at, right) == 4);                               \
        CHECK_FOR(NAME, shmem_ctx_##NAME##_atomic_fetch_inc(ctx, at, right) == 5);                      \
        shmem_##NAME##_atomic_inc(at, right);                                                           \
        shmem_ctx_##NAME##_atomic_inc(ctx, at, right);                                                  \
        CHECK_FOR(NAME, shmem_##NAME##_atomic_fetch_add(at, (TYPE)10, right) == 8);                     \
        CHECK_FOR(NAME, shmem_ctx_##NAME##_atomic_fetch_add(ctx, at, (TYPE)10, right) == 18);           \
        shmem_##NAME##_atomic_add(at, (TYPE)1, right);                                                  \
        shmem_ctx_##NAME##_atomic_add(ctx, at, (TYPE)1, right);                                         \
        shmem_##NAME##_atomic_compare_swap_nbi(&fetched, at, (TYPE)30, (TYPE)50, right);                \
        shmem_quiet();                                                                                  \
        CHECK_FOR(NAME, fetched == 30);                                                                 \
        shmem_ctx_##NAME##_atomic_compare_swap_nbi(ctx, &fetched, at, (TYPE)50, (TYPE)60, right);       \
        shmem_ctx_quiet(ctx);                                                                           \
        CHECK_FOR(NAME, fetched == 50);                                                                 \
        shmem_##NAME##_atomic_fetch_inc_nbi(&fetched, at, right);                                       \
        shmem_quiet();                                                                                  \
        CHECK_FOR(NAME, fetched == 60);                                                                 \
        shmem_ctx_##NAME##_atomic_fetch_inc_nbi(ctx, &fetched, at, right);                              \
        shmem_ctx_quiet(ctx);                                                                           \
        CHECK_FOR(NAME, fetched == 61);                                                                 \
        shmem_##NAME##_atomic_fetch_add_nbi(&fetched, at, (TYPE)5, right);                              \
        shmem_quiet();                                                                                  \
        CHECK_FOR(NAME, fetched == 62);                                                                 \
        shmem_ctx_##NAME##_atomic_fetch_add_nbi(ctx, &fetched, at, (TYPE)-1, right);                    \
        shmem_ctx_quiet(ctx);                                                                           \
        CHECK_FOR(NAME, fetched == 67);                                                                 \
        for (int i = 0; i < 200; i++) { /* all PEs on one word */                                       \
            shmem_##NAME##_atomic_inc(at + 1, 0);                                                       \
            shmem_##NAME##_atomic_fetch_add(at + 1, (TYPE)2, 0);                                        \
        }                                                                                               \
        shmem_barrier_all();                                                                            \
        CHECK_FOR(NAME, *at == 66);                                                                     \
        CHECK_FOR(NAME, shmem_##NAME##_atomic_fetch(at + 1, 0) == (TYPE)(600 * npes));                  \
        shmem_barrier_all();                                                                            \
    }
AMO_TYPES(DEFINE_STANDARD)

#define DEFINE_BITWISE(NAME, TYPE)                                                                  \
    static TYPE bitwise_##NAME[1];                                                                  \
    static void check_bitwise_##NAME(void) {                                                        \
        TYPE* const at = bitwise_##NAME;                                                            \
        TYPE fetched = 0;                                                                           \
        CHECK_FOR(NAME, shmem_##NAME##_atomic_fetch_or(at, (TYPE)0x0f, right) == 0);                \
        CHECK_FOR(NAME, shmem_ctx_##NAME##_atomic_fetch_or(ctx, at, (TYPE)0xf0, right) == 0x0f);    \
        shmem_##NAME##_atomic_or(at, (TYPE)0x100, right);                                           \
        shmem_ctx_##NAME##_atomic_or(ctx, at, (TYPE)0x200, right);                                  \
        CHECK_FOR(NAME, shmem_##NAME##_atomic_fetch_and(at, (TYPE)0x3f0, right) == 0x3ff);          \
        CHECK_FOR(NAME, shmem_ctx_##NAME##_atomic_fetch_and(ctx, at, (TYPE)0x3c0, right) == 0x3f0); \
        shmem_##NAME##_atomic_and(at, (TYPE)0x380, right);                                          \
        shmem_ctx_##NAME##_atomic_and(ctx, at, (TYPE)0x300, right);                                 \
        CHECK_FOR(NAME, shmem_##NAME##_atomic_fetch_xor(at, (TYPE)0x101, right) == 0x300);          \
        CHECK_FOR(NAME, shmem_ctx_##NAME##_atomic_fetch_xor(ctx, at, (TYPE)2, right) == 0x201);     \
        shmem_##NAME##_atomic_xor(at, (TYPE)4, right);                                              \
        shmem_ctx_##NAME##_atomic_xor(ctx, at, (TYPE)8, right);                                     \
        shmem_##NAME##_atomic_fetch_and_nbi(&fetched, at, (TYPE)0x20e, right);                      \
        shmem_quiet();                                                                              \
        CHECK_FOR(NAME, fetched == 0x20f);                                                          \
        shmem_ctx_##NAME##_atomic_fetch_and_nbi(ctx, &fetched, at, (TYPE)0x20c, right);             \
        shmem_ctx_quiet(ctx);                                                                       \
        CHECK_FOR(NAME, fetched == 0x20e);                                                          \
        shmem_##NAME##_atomic_fetch_or_nbi(&fetched, at, (TYPE)1, right);                           \
        shmem_quiet();                                                                              \
        CHECK_FOR(NAME, fetched == 0x20c);                                                          \
        shmem_ctx_##NAME##_atomic_fetch_or_nbi(ctx, &fetched, at, (TYPE)2, right);                  \
        shmem_ctx_quiet(ctx);                                                                       \
        CHECK_FOR(NAME, fetched == 0x20d);                                                          \
        shmem_##NAME##_atomic_fetch_xor_nbi(&fetched, at, (TYPE)0xf, right);                        \
        shmem_quiet();                                                                              \
        CHECK_FOR(NAME, fetched == 0x20f);                                                          \
        shmem_ctx_##NAME##_atomic_fetch_xor_nbi(ctx, &fetched, at, (TYPE)0xff, right);              \
        shmem_ctx_quiet(ctx);                                                                       \
        CHECK_FOR(NAME, fetched == 0x200);                                                          \
        shmem_barrier_all();                                                                        \
        CHECK_FOR(NAME, *at == 0x2ff);                                                              \
    }
BITWISE_AMO_TYPES(DEFINE_BITWISE)

/* Values go through unchanged to the last bit, and what all PEs do at once to one word is not lost. */
#define DEFINE_BITS(NAME, TYPE, BITS)                                                                         \
    static void check_bits_##NAME(void) {                                                                     \
        static TYPE word;                                                                                     \
        const TYPE values[] = {(TYPE)0.1, -(TYPE)0, (TYPE)-INFINITY, (TYPE)NAN, (TYPE)1e-40};                 \
        TYPE before = 0;                                                                                      \
        for (int i = 0; i < 5; i++) {                                                                         \
            const TYPE old = shmem_##NAME##_atomic_swap(&word, values[i], right);                             \
            const TYPE now = shmem_ctx_##NAME##_atomic_fetch(ctx, &word, right);                              \
            CHECK_FOR(NAME, memcmp(&old, &before, BITS / 8) == 0 && memcmp(&now, &values[i], BITS / 8) == 0); \
            before = values[i];                                                                               \
        }                                                                                                     \
        shmem_barrier_all();                                                                                  \
        word = 0;                                                                                             \
        shmem_barrier_all();                                                                                  \
    }
DEFINE_BITS(float, float, 32)
DEFINE_BITS(double, double, 64)

#define TOP_OF(TYPE) ((TYPE)((TYPE)-1 > 0 ? UINT64_MAX : (UINT64_C(1) << (8 * sizeof(TYPE) - 1)) - 1))
#define DEFINE_WRAP(NAME, TYPE)                                                                                     \
    static void check_wrap_##NAME(void) {                                                                           \
        static TYPE word, alone[3];                                                                                 \
        const TYPE top = TOP_OF(TYPE), bottom = (TYPE)((uint64_t)top + 1);                                          \
        TYPE old = 0;                                                                                               \
        shmem_##NAME##_atomic_set(&word, top, right);                                                               \
        CHECK_FOR(NAME, shmem_##NAME##_atomic_fetch_inc(&word, right) == top);                                      \
        CHECK_FOR(NAME, shmem_##NAME##_atomic_fetch_add(&word, (TYPE)-1, right) == bottom);                         \
        shmem_##NAME##_atomic_inc(&word, right);                                                                    \
        shmem_##NAME##_atomic_fetch_add_nbi(&old, &word, top, right);                                               \
        shmem_quiet();                                                                                              \
        CHECK_FOR(NAME, old == bottom &&                                                                            \
                            shmem_##NAME##_atomic_fetch(&word, right) == (TYPE)((uint64_t)bottom + (uint64_t)top)); \
        CHECK_FOR(NAME, shmem_##NAME##_atomic_compare_swap(&word, (TYPE)-1, top, right) == (TYPE)-1);               \
        CHECK_FOR(NAME, shmem_##NAME##_atomic_fetch(&word, right) == top);                                          \
        /* Only the word itself is touched. */                                                                      \
        shmem_##NAME##_atomic_set(&alone[1], (TYPE)-1, right);                                                      \
        shmem_##NAME##_atomic_inc(&alone[1], right);                                                                \
        shmem_barrier_all();                                                                                        \
        CHECK_FOR(NAME, alone[0] == 0 && alone[1] == 0 && alone[2] == 0);                                           \
        shmem_barrier_all();                                                                                        \
    }
AMO_TYPES(DEFINE_WRAP)

/* Tickets are unique, a loop of compare_swap loses nothing, and the owner may wait for the word that others count. */
#define DEFINE_CROWD(NAME, TYPE)                                                                              \
    static void check_crowd_##NAME(void) {                                                                    \
        enum { TICKETS = 20 };                                                                                \
        static TYPE counter, swapped, sum;                                                                    \
        static int taken[TICKETS * MOST_PES];                                                                 \
        memset(taken, 0, sizeof taken);                                                                       \
        counter = swapped = sum = 0;                                                                          \
        shmem_barrier_all();                                                                                  \
        for (int i = 0; i < TICKETS; i++) {                                                                   \
            const TYPE ticket = shmem_##NAME##_atomic_fetch_inc(&counter, 0);                                 \
            CHECK_FOR(NAME, ticket < (TYPE)(TICKETS * npes));                                                 \
            CHECK_FOR(NAME ticket, shmem_int_atomic_fetch_inc(&taken[(int)ticket], (int)ticket % npes) == 0); \
            TYPE seen = shmem_##NAME##_atomic_fetch(&swapped, 0), old;                                        \
            while ((old = shmem_##NAME##_atomic_compare_swap(&swapped, seen, (TYPE)(seen + 3), 0)) != seen) { \
                seen = old;                                                                                   \
            }                                                                                                 \
            shmem_##NAME##_atomic_add(&sum, (TYPE)(me + 1), 0);                                               \
        }                                                                                                     \
        if (me == 0) {                                                                                        \
            shmem_##NAME##_wait_until(&counter, SHMEM_CMP_EQ, (TYPE)(TICKETS * npes));                        \
        }                                                                                                     \
        shmem_barrier_all();                                                                                  \
        if (me == 0) {                                                                                        \
            CHECK_FOR(NAME, swapped == (TYPE)(3 * TICKETS * npes));                                           \
            CHECK_FOR(NAME, sum == (TYPE)(TICKETS * (npes * (npes + 1) / 2)));                                \
        }                                                                                                     \
        shmem_barrier_all();                                                                                  \
    }
AMO_TYPES(DEFINE_CROWD)

/* Every PE works on a bit of its own. */
#define DEFINE_CROWD_OF_BITS(NAME, TYPE)                                         \
    static void check_bits_of_crowd_##NAME(void) {                               \
        static TYPE set, flipped, cleared;                                       \
        const TYPE mine = (TYPE)(UINT64_C(1) << (me % 31));                      \
        set = flipped = 0;                                                       \
        cleared = (TYPE)-1;                                                      \
        shmem_barrier_all();                                                     \
        for (int i = 0; i < 21; i++) {                                           \
            shmem_##NAME##_atomic_xor(&flipped, mine, 0);                        \
            shmem_##NAME##_atomic_or(&set, mine, 0);                             \
            shmem_##NAME##_atomic_and(&cleared, (TYPE)~mine, 0);                 \
        }                                                                        \
        shmem_barrier_all();                                                     \
        const TYPE all = (TYPE)((UINT64_C(1) << npes) - 1);                      \
        CHECK_FOR(NAME, shmem_##NAME##_atomic_fetch(&set, 0) == all);            \
        CHECK_FOR(NAME, shmem_##NAME##_atomic_fetch(&flipped, 0) == all);        \
        CHECK_FOR(NAME, shmem_##NAME##_atomic_fetch(&cleared, 0) == (TYPE)~all); \
        shmem_barrier_all();                                                     \
    }
BITWISE_AMO_TYPES(DEFINE_CROWD_OF_BITS)

/* PEs on different processors start together again and again: updates that are not atomic lose some. */
static void check_large_crowd(void) {
    enum { TIMES = 30000 };
    static long counter, added, swapped;
    for (int i = 0; i < TIMES; i++) {
        if (i % 100 == 0) {
            shmem_sync_all();
        }
        shmem_long_atomic_inc(&counter, npes - 1);
        shmem_ctx_long_atomic_add(ctx, &added, 3, npes - 1);
        long seen = shmem_long_atomic_fetch(&swapped, npes - 1), old;
        while ((old = shmem_long_atomic_compare_swap(&swapped, seen, seen + 1, npes - 1)) != seen) {
            seen = old;
        }
    }
    shmem_barrier_all();
    CHECK(shmem_long_g(&counter, npes - 1) == (long)TIMES * npes);
    CHECK(shmem_long_g(&added, npes - 1) == 3L * TIMES * npes);
    CHECK(shmem_long_g(&swapped, npes - 1) == (long)TIMES * npes);
    shmem_barrier_all();
}

/* Words are zero before, so that a second round with another PE starts like the first. */
static void check_with(int shift) {
    right = (me + shift) % npes;
#define RESET_EXTENDED(NAME, TYPE) extended_##NAME[0] = 0;
#define RESET_STANDARD(NAME, TYPE) standard_##NAME[0] = standard_##NAME[1] = 0;
#define RESET_BITWISE(NAME, TYPE) bitwise_##NAME[0] = 0;
    EXTENDED_AMO_TYPES(RESET_EXTENDED)
    AMO_TYPES(RESET_STANDARD)
    BITWISE_AMO_TYPES(RESET_BITWISE)
    shmem_barrier_all();
#define RUN_EXTENDED(NAME, TYPE) check_extended_##NAME();
#define RUN_STANDARD(NAME, TYPE) check_standard_##NAME();
#define RUN_BITWISE(NAME, TYPE) check_bitwise_##NAME();
#define RUN_WRAP(NAME, TYPE) check_wrap_##NAME();
    EXTENDED_AMO_TYPES(RUN_EXTENDED)
    AMO_TYPES(RUN_STANDARD)
    BITWISE_AMO_TYPES(RUN_BITWISE)
    AMO_TYPES(RUN_WRAP)
    check_bits_float();
    check_bits_double();
    shmem_barrier_all();
}

int main(void) {
    shmem_init();
    me = shmem_my_pe();
    npes = shmem_n_pes();
    CHECK(npes <= MOST_PES);
    CHECK(shmem_ctx_create(SHMEM_CTX_SERIALIZED, &ctx) == 0);
    check_with(0);
    check_with(1 % npes);
#define RUN_CROWD(NAME, TYPE) check_crowd_##NAME();
#define RUN_CROWD_OF_BITS(NAME, TYPE) check_bits_of_crowd_##NAME();
    AMO_TYPES(RUN_CROWD)
    BITWISE_AMO_TYPES(RUN_CROWD_OF_BITS)
    check_large_crowd();
    shmem_finalize();
    return 0;
}
