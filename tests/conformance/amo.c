/* Atomic memory operations: every type and operation, default and own context, blocking and not. */
#include "tests/conformance/check.h"

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

int main(void) {
    shmem_init();
    me = shmem_my_pe();
    npes = shmem_n_pes();
    right = (me + 1) % npes;
    CHECK(shmem_ctx_create(SHMEM_CTX_SERIALIZED, &ctx) == 0);
#define RUN_EXTENDED(NAME, TYPE) check_extended_##NAME();
#define RUN_STANDARD(NAME, TYPE) check_standard_##NAME();
#define RUN_BITWISE(NAME, TYPE) check_bitwise_##NAME();
    EXTENDED_AMO_TYPES(RUN_EXTENDED)
    AMO_TYPES(RUN_STANDARD)
    BITWISE_AMO_TYPES(RUN_BITWISE)
    shmem_finalize();
    return 0;
}
