/* C11 type-generic names: every macro with every type of its table, with and without a context. What the routines do
 * is tested elsewhere; here the selection must compile for each type, and work. */
#include "tests/conformance/check.h"

static shmem_ctx_t ctx;
static int me, right;

#define DEFINE_RMA(NAME, TYPE)                                                               \
    static void check_rma_##NAME(void) {                                                     \
        static TYPE dest[8], source[8];                                                      \
        static uint64_t signal;                                                              \
        const TYPE* const constant = source;                                                 \
        TYPE local[8];                                                                       \
        source[0] = source[1] = (TYPE)(me + 1);                                              \
        shmem_barrier_all();                                                                 \
        shmem_put(dest, source, 1, right);                                                   \
        shmem_put(ctx, dest, constant, 1, right);                                            \
        shmem_put_nbi(dest, source, 1, right);                                               \
        shmem_put_nbi(ctx, dest, source, 1, right);                                          \
        shmem_p(dest + 1, (TYPE)(me + 1), right);                                            \
        shmem_p(ctx, dest + 2, (TYPE)(me + 1), right);                                       \
        shmem_iput(dest + 3, source, 1, 1, 1, right);                                        \
        shmem_iput(ctx, dest + 4, source, 1, 1, 1, right);                                   \
        shmem_ibput(dest + 5, source, 1, 1, 1, 1, right);                                    \
        shmem_ibput(ctx, dest + 6, source, 1, 1, 1, 1, right);                               \
        shmem_put_signal(dest + 7, source, 1, &signal, 1, SHMEM_SIGNAL_ADD, right);          \
        shmem_put_signal(ctx, dest + 7, source, 1, &signal, 1, SHMEM_SIGNAL_ADD, right);     \
        shmem_put_signal_nbi(dest + 7, source, 1, &signal, 1, SHMEM_SIGNAL_ADD, right);      \
        shmem_put_signal_nbi(ctx, dest + 7, source, 1, &signal, 1, SHMEM_SIGNAL_ADD, right); \
        CHECK(shmem_signal_wait_until(&signal, SHMEM_CMP_EQ, 4) == 4);                       \
        shmem_barrier_all();                                                                 \
        for (int i = 1; i < 8; i++) {                                                        \
            CHECK_FOR(NAME, dest[i] == dest[0]);                                             \
        }                                                                                    \
        shmem_get(local, constant, 1, right);                                                \
        shmem_get(ctx, local + 1, source, 1, right);                                         \
        shmem_get_nbi(local + 2, source, 1, right);                                          \
        shmem_get_nbi(ctx, local + 3, source, 1, right);                                     \
        shmem_iget(local + 4, source, 1, 1, 1, right);                                       \
        shmem_iget(ctx, local + 5, source, 1, 1, 1, right);                                  \
        shmem_ibget(local + 6, source, 1, 1, 1, 1, right);                                   \
        shmem_ibget(ctx, local + 7, source, 1, 1, 1, 1, right);                              \
        shmem_quiet();                                                                       \
        shmem_ctx_quiet(ctx);                                                                \
        for (int i = 0; i < 8; i++) {                                                        \
            CHECK_FOR(NAME, local[i] == (TYPE)(right + 1));                                  \
        }                                                                                    \
        CHECK_FOR(NAME, shmem_g(source, right) == (TYPE)(right + 1));                        \
        CHECK_FOR(NAME, shmem_g(constant, right) == (TYPE)(right + 1));                      \
        CHECK_FOR(NAME, shmem_g(ctx, constant, right) == (TYPE)(right + 1));                 \
        shmem_barrier_all();                                                                 \
    }
RMA_TYPES(DEFINE_RMA)

#define DEFINE_EXTENDED(NAME, TYPE)                                                    \
    static void check_extended_##NAME(void) {                                          \
        static TYPE cell[1];                                                           \
        TYPE old;                                                                      \
        shmem_atomic_set(cell, (TYPE)3, right);                                        \
        shmem_atomic_set(ctx, cell, (TYPE)4, right);                                   \
        CHECK_FOR(NAME, shmem_atomic_fetch(cell, right) == (TYPE)4);                   \
        CHECK_FOR(NAME, shmem_atomic_fetch(ctx, (const TYPE*)cell, right) == (TYPE)4); \
        CHECK_FOR(NAME, shmem_atomic_swap(cell, (TYPE)5, right) == (TYPE)4);           \
        CHECK_FOR(NAME, shmem_atomic_swap(ctx, cell, (TYPE)6, right) == (TYPE)5);      \
        shmem_atomic_fetch_nbi(&old, cell, right);                                     \
        shmem_atomic_fetch_nbi(ctx, &old, cell, right);                                \
        shmem_atomic_swap_nbi(&old, cell, (TYPE)7, right);                             \
        shmem_atomic_swap_nbi(ctx, &old, cell, (TYPE)8, right);                        \
        shmem_barrier_all();                                                           \
        CHECK_FOR(NAME, *cell == (TYPE)8);                                             \
    }
EXTENDED_AMO_TYPES(DEFINE_EXTENDED)

#define DEFINE_STANDARD(NAME, TYPE)                                                                         \
    static void check_standard_##NAME(void) {                                                               \
        static TYPE cell[2];                                                                                \
        const TYPE operands[2] = {8, 8};                                                                    \
        TYPE old;                                                                                           \
        size_t indices[2];                                                                                  \
        CHECK_FOR(NAME, shmem_atomic_compare_swap(cell, 0, (TYPE)1, right) == 0);                           \
        CHECK_FOR(NAME, shmem_atomic_compare_swap(ctx, cell, 0, (TYPE)1, right) == 1);                      \
        CHECK_FOR(NAME, shmem_atomic_fetch_inc(cell, right) == 1);                                          \
        CHECK_FOR(NAME, shmem_atomic_fetch_inc(ctx, cell, right) == 2);                                     \
        shmem_atomic_inc(cell, right);                                                                      \
        shmem_atomic_inc(ctx, cell, right);                                                                 \
        CHECK_FOR(NAME, shmem_atomic_fetch_add(cell, (TYPE)1, right) == 5);                                 \
        CHECK_FOR(NAME, shmem_atomic_fetch_add(ctx, cell, (TYPE)1, right) == 6);                            \
        shmem_atomic_add(cell, (TYPE)1, right);                                                             \
        shmem_atomic_add(ctx, cell, 0, right);                                                              \
        shmem_atomic_compare_swap_nbi(&old, cell, 0, 0, right);                                             \
        shmem_atomic_compare_swap_nbi(ctx, &old, cell, 0, 0, right);                                        \
        shmem_atomic_fetch_inc_nbi(&old, cell + 1, right);                                                  \
        shmem_atomic_fetch_inc_nbi(ctx, &old, cell + 1, right);                                             \
        shmem_atomic_fetch_add_nbi(&old, cell + 1, (TYPE)3, right);                                         \
        shmem_atomic_fetch_add_nbi(ctx, &old, cell + 1, (TYPE)3, right);                                    \
        shmem_wait_until(cell, SHMEM_CMP_EQ, 8);                                                            \
        shmem_wait_until_all(cell, 2, NULL, SHMEM_CMP_EQ, 8);                                               \
        CHECK_FOR(NAME, shmem_wait_until_any(cell, 2, NULL, SHMEM_CMP_EQ, 8) < 2);                          \
        CHECK_FOR(NAME, shmem_wait_until_some(cell, 2, indices, NULL, SHMEM_CMP_EQ, 8) == 2);               \
        shmem_wait_until_all_vector(cell, 2, NULL, SHMEM_CMP_EQ, operands);                                 \
        CHECK_FOR(NAME, shmem_wait_until_any_vector(cell, 2, NULL, SHMEM_CMP_EQ, operands) < 2);            \
        CHECK_FOR(NAME, shmem_wait_until_some_vector(cell, 2, indices, NULL, SHMEM_CMP_EQ, operands) == 2); \
        CHECK_FOR(NAME, shmem_test(cell, SHMEM_CMP_EQ, 8) == 1);                                            \
        CHECK_FOR(NAME, shmem_test_all(cell, 2, NULL, SHMEM_CMP_EQ, 8) == 1);                               \
        CHECK_FOR(NAME, shmem_test_any(cell, 2, NULL, SHMEM_CMP_EQ, 8) < 2);                                \
        CHECK_FOR(NAME, shmem_test_some(cell, 2, indices, NULL, SHMEM_CMP_EQ, 8) == 2);                     \
        CHECK_FOR(NAME, shmem_test_all_vector(cell, 2, NULL, SHMEM_CMP_EQ, operands) == 1);                 \
        CHECK_FOR(NAME, shmem_test_any_vector(cell, 2, NULL, SHMEM_CMP_EQ, operands) < 2);                  \
        CHECK_FOR(NAME, shmem_test_some_vector(cell, 2, indices, NULL, SHMEM_CMP_EQ, operands) == 2);       \
        shmem_barrier_all();                                                                                \
    }
AMO_TYPES(DEFINE_STANDARD)

#define DEFINE_BITWISE(NAME, TYPE)                                                \
    static void check_bitwise_##NAME(void) {                                      \
        static TYPE cell[1];                                                      \
        TYPE old;                                                                 \
        CHECK_FOR(NAME, shmem_atomic_fetch_or(cell, (TYPE)7, right) == 0);        \
        CHECK_FOR(NAME, shmem_atomic_fetch_or(ctx, cell, (TYPE)8, right) == 7);   \
        shmem_atomic_or(cell, (TYPE)16, right);                                   \
        shmem_atomic_or(ctx, cell, (TYPE)16, right);                              \
        CHECK_FOR(NAME, shmem_atomic_fetch_and(cell, (TYPE)15, right) == 31);     \
        CHECK_FOR(NAME, shmem_atomic_fetch_and(ctx, cell, (TYPE)7, right) == 15); \
        shmem_atomic_and(cell, (TYPE)3, right);                                   \
        shmem_atomic_and(ctx, cell, (TYPE)3, right);                              \
        CHECK_FOR(NAME, shmem_atomic_fetch_xor(cell, (TYPE)1, right) == 3);       \
        CHECK_FOR(NAME, shmem_atomic_fetch_xor(ctx, cell, (TYPE)1, right) == 2);  \
        shmem_atomic_xor(cell, (TYPE)1, right);                                   \
        shmem_atomic_xor(ctx, cell, (TYPE)1, right);                              \
        shmem_atomic_fetch_and_nbi(&old, cell, (TYPE)3, right);                   \
        shmem_atomic_fetch_and_nbi(ctx, &old, cell, (TYPE)3, right);              \
        shmem_atomic_fetch_or_nbi(&old, cell, (TYPE)3, right);                    \
        shmem_atomic_fetch_or_nbi(ctx, &old, cell, (TYPE)3, right);               \
        shmem_atomic_fetch_xor_nbi(&old, cell, (TYPE)0, right);                   \
        shmem_atomic_fetch_xor_nbi(ctx, &old, cell, (TYPE)0, right);              \
        shmem_barrier_all();                                                      \
        CHECK_FOR(NAME, *cell == 3);                                              \
    }
BITWISE_AMO_TYPES(DEFINE_BITWISE)

enum { MOST_PES = 64 };
#define DEFINE_MOVES(NAME, TYPE)                                                        \
    static void check_moves_##NAME(void) {                                              \
        static TYPE dest[MOST_PES], source[MOST_PES];                                   \
        CHECK_FOR(NAME, shmem_broadcast(SHMEM_TEAM_WORLD, dest, source, 1, 0) == 0);    \
        shmem_sync_all();                                                               \
        CHECK_FOR(NAME, shmem_collect(SHMEM_TEAM_WORLD, dest, source, 1) == 0);         \
        shmem_sync_all();                                                               \
        CHECK_FOR(NAME, shmem_fcollect(SHMEM_TEAM_WORLD, dest, source, 1) == 0);        \
        shmem_sync_all();                                                               \
        CHECK_FOR(NAME, shmem_alltoall(SHMEM_TEAM_WORLD, dest, source, 1) == 0);        \
        shmem_sync_all();                                                               \
        CHECK_FOR(NAME, shmem_alltoalls(SHMEM_TEAM_WORLD, dest, source, 1, 1, 1) == 0); \
        shmem_sync_all();                                                               \
        CHECK_FOR(NAME, shmem_max_reduce(SHMEM_TEAM_WORLD, dest, source, 1) == 0);      \
        CHECK_FOR(NAME, shmem_min_reduce(SHMEM_TEAM_WORLD, dest, source, 1) == 0);      \
    }
RMA_TYPES(DEFINE_MOVES)

#define DEFINE_SUMS(NAME, TYPE)                                                     \
    static void check_sums_##NAME(void) {                                           \
        static TYPE dest[1], source[1];                                             \
        source[0] = 1;                                                              \
        CHECK_FOR(NAME, shmem_sum_reduce(SHMEM_TEAM_WORLD, dest, source, 1) == 0);  \
        CHECK_FOR(NAME, dest[0] == (TYPE)shmem_n_pes());                            \
        CHECK_FOR(NAME, shmem_prod_reduce(SHMEM_TEAM_WORLD, dest, source, 1) == 0); \
        CHECK_FOR(NAME, dest[0] == 1);                                              \
        CHECK_FOR(NAME, shmem_sum_inscan(SHMEM_TEAM_WORLD, dest, source, 1) == 0);  \
        CHECK_FOR(NAME, dest[0] == (TYPE)(me + 1));                                 \
        CHECK_FOR(NAME, shmem_sum_exscan(SHMEM_TEAM_WORLD, dest, source, 1) == 0);  \
        CHECK_FOR(NAME, dest[0] == (TYPE)me);                                       \
    }
SUM_TYPES(DEFINE_SUMS)

#define DEFINE_LOGIC(NAME, TYPE)                                                                   \
    static void check_logic_##NAME(void) {                                                         \
        static TYPE dest[1], source[1];                                                            \
        source[0] = 5;                                                                             \
        CHECK_FOR(NAME, shmem_and_reduce(SHMEM_TEAM_WORLD, dest, source, 1) == 0 && dest[0] == 5); \
        CHECK_FOR(NAME, shmem_or_reduce(SHMEM_TEAM_WORLD, dest, source, 1) == 0 && dest[0] == 5);  \
        CHECK_FOR(NAME, shmem_xor_reduce(SHMEM_TEAM_WORLD, dest, source, 1) == 0);                 \
    }
LOGIC_TYPES(DEFINE_LOGIC)

#define CHECK_OLD_EXTENDED(NAME, TYPE)                                 \
    {                                                                  \
        static TYPE cell;                                              \
        shmem_set(&cell, (TYPE)4, right);                              \
        CHECK_FOR(NAME, shmem_fetch(&cell, right) == (TYPE)4);         \
        CHECK_FOR(NAME, shmem_swap(&cell, (TYPE)5, right) == (TYPE)4); \
    }
#define CHECK_OLD_STANDARD(NAME, TYPE)                         \
    {                                                          \
        static TYPE cell;                                      \
        CHECK_FOR(NAME, shmem_cswap(&cell, 0, 2, right) == 0); \
        CHECK_FOR(NAME, shmem_finc(&cell, right) == 2);        \
        shmem_inc(&cell, right);                               \
        CHECK_FOR(NAME, shmem_fadd(&cell, 3, right) == 4);     \
        shmem_add(&cell, 1, right);                            \
        shmem_barrier_all();                                   \
        CHECK_FOR(NAME, cell == 8);                            \
    }

/* Names that are a function and a macro at once. */
static void check_double_names(void) {
    static long sync_words[SHMEM_SYNC_SIZE];
    static uint64_t signal;
    static short small = 1;
    static unsigned short small_unsigned = 1;
    CHECK(shmem_sync(SHMEM_TEAM_WORLD) == 0);
    shmem_sync(0, 0, shmem_n_pes(), sync_words);
    shmem_signal_set(&signal, 1, right);
    shmem_signal_set(ctx, &signal, 2, right);
    shmem_barrier_all();
    shmem_signal_add(&signal, 1, right);
    shmem_signal_add(ctx, &signal, 1, right);
    CHECK(shmem_signal_wait_until(&signal, SHMEM_CMP_EQ, 4) == 4);
    shmem_wait_until(&small, SHMEM_CMP_EQ, 1);
    shmem_wait_until(&small_unsigned, SHMEM_CMP_EQ, 1);
    CHECK(shmem_test(&small, SHMEM_CMP_NE, 1) == 0 && shmem_test(&small_unsigned, SHMEM_CMP_EQ, 1) == 1);
    shmem_barrier_all();
}

int main(void) {
    shmem_init();
    me = shmem_my_pe();
    right = (me + 1) % shmem_n_pes();
    CHECK(shmem_n_pes() <= MOST_PES);
    CHECK(shmem_ctx_create(0, &ctx) == 0);
#define RUN_RMA(NAME, TYPE) check_rma_##NAME();
#define RUN_EXTENDED(NAME, TYPE) check_extended_##NAME();
#define RUN_STANDARD(NAME, TYPE) check_standard_##NAME();
#define RUN_BITWISE(NAME, TYPE) check_bitwise_##NAME();
#define RUN_MOVES(NAME, TYPE) check_moves_##NAME();
#define RUN_SUMS(NAME, TYPE) check_sums_##NAME();
#define RUN_LOGIC(NAME, TYPE) check_logic_##NAME();
    RMA_TYPES(RUN_RMA)
    EXTENDED_AMO_TYPES(RUN_EXTENDED)
    AMO_TYPES(RUN_STANDARD)
    BITWISE_AMO_TYPES(RUN_BITWISE)
    RMA_TYPES(RUN_MOVES)
    SUM_TYPES(RUN_SUMS)
    LOGIC_TYPES(RUN_LOGIC)
    OLD_EXTENDED_AMO_TYPES(CHECK_OLD_EXTENDED)
    OLD_AMO_TYPES(CHECK_OLD_STANDARD)
    check_double_names();
    shmem_finalize();
    return 0;
}
