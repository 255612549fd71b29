/* Put with signal in every type and size, and signals alone. */
#include "tests/conformance/check.h"

enum { COUNT = 33 };
static int me, npes, right, left;
static shmem_ctx_t ctx;
static uint64_t signal_word, sum_word;

/* The signal is the only thing that is waited for: the data must be there then. */
#define SEND(NAME, TYPE, CALL, ...)                                                     \
    turn++;                                                                             \
    for (int i = 0; i < COUNT; i++) {                                                   \
        source[i] = (TYPE)((me * 20 + i + (int)turn) % 120);                            \
    }                                                                                   \
    CALL(__VA_ARGS__ dest, source, COUNT, &signal_word, turn, SHMEM_SIGNAL_SET, right); \
    CHECK_FOR(NAME, shmem_signal_wait_until(&signal_word, SHMEM_CMP_EQ, turn) == turn); \
    for (int i = 0; i < COUNT; i++) {                                                   \
        CHECK_FOR(NAME, dest[i] == (TYPE)((left * 20 + i + (int)turn) % 120));          \
    }                                                                                   \
    CALL(__VA_ARGS__ NULL, NULL, 0, &sum_word, 3, SHMEM_SIGNAL_ADD, right);             \
    total += 3;                                                                         \
    CHECK_FOR(NAME, shmem_signal_wait_until(&sum_word, SHMEM_CMP_GE, total) >= total);  \
    shmem_barrier_all()

static uint64_t turn, total;
static _Alignas(16) unsigned char dest_space[COUNT * 16], source_space[COUNT * 16];

#define DEFINE(NAME, TYPE)                                          \
    static void check_##NAME(void) {                                \
        TYPE* const dest = (TYPE*)dest_space;                       \
        TYPE* const source = (TYPE*)source_space;                   \
        SEND(NAME, TYPE, shmem_##NAME##_put_signal, );              \
        SEND(NAME, TYPE, shmem_ctx_##NAME##_put_signal, ctx, );     \
        SEND(NAME, TYPE, shmem_##NAME##_put_signal_nbi, );          \
        SEND(NAME, TYPE, shmem_ctx_##NAME##_put_signal_nbi, ctx, ); \
    }
RMA_TYPES(DEFINE)

#define DEFINE_SIZED(BITS, TYPE)                                   \
    static void check_bits##BITS(void) {                           \
        TYPE* const dest = (TYPE*)dest_space;                      \
        TYPE* const source = (TYPE*)source_space;                  \
        SEND(BITS, TYPE, shmem_put##BITS##_signal, );              \
        SEND(BITS, TYPE, shmem_ctx_put##BITS##_signal, ctx, );     \
        SEND(BITS, TYPE, shmem_put##BITS##_signal_nbi, );          \
        SEND(BITS, TYPE, shmem_ctx_put##BITS##_signal_nbi, ctx, ); \
    }
SIZES(DEFINE_SIZED)
DEFINE_SIZED(mem, uint8_t)

static void check_alone(void) {
    static uint64_t word;
    word = 0;
    shmem_barrier_all();
    shmem_signal_set(&word, 5, right);
    CHECK(shmem_signal_wait_until(&word, SHMEM_CMP_EQ, 5) == 5);
    CHECK(shmem_signal_fetch(&word) == 5);
    shmem_barrier_all();
    for (int pe = 0; pe < npes; pe++) {
        shmem_signal_add(&word, 10, pe);
        shmem_ctx_signal_add(ctx, &word, 100, pe);
    }
    const uint64_t expected = 5 + 110 * (uint64_t)npes;
    CHECK(shmem_signal_wait_until(&word, SHMEM_CMP_GE, expected) == expected);
    shmem_barrier_all();
    shmem_ctx_signal_set(ctx, &word, 1, right);
    CHECK(shmem_signal_wait_until(&word, SHMEM_CMP_LT, 5) == 1);
    shmem_barrier_all();
}

/* A fence between a put and a signal alone orders the two. */
static void check_fence_before_signal(void) {
    static uint64_t word;
    static long data[COUNT];
    for (uint64_t turn_here = 1; turn_here <= 30; turn_here++) {
        long values[COUNT];
        for (int i = 0; i < COUNT; i++) {
            values[i] = (long)turn_here * 1000 + me * 40 + i;
        }
        shmem_ctx_long_put_nbi(ctx, data, values, COUNT, right);
        shmem_ctx_fence(ctx);
        if (turn_here % 2 == 0) {
            shmem_ctx_signal_add(ctx, &word, 1, right);
        } else {
            shmem_ctx_signal_set(ctx, &word, turn_here, right);
        }
        CHECK(shmem_signal_wait_until(&word, SHMEM_CMP_EQ, turn_here) == turn_here);
        for (int i = 0; i < COUNT; i++) {
            CHECK(data[i] == (long)turn_here * 1000 + left * 40 + i);
        }
        shmem_ctx_quiet(ctx);
        shmem_barrier_all();
    }
}

/* All PEs add to one word through every routine that adds, and signal words wrap and count to 64 bits. */
static void check_sum_of_all(void) {
    enum { ROUNDS = 10000 };
    static uint64_t sum, large;
    static long cells[64];
    const long value = me;
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 50 == 0) {
            shmem_sync_all(); /* PEs on different processors start together */
        }
        shmem_long_put_signal(&cells[me], &value, 1, &sum, 1, SHMEM_SIGNAL_ADD, 0);
        shmem_putmem_signal_nbi(&cells[me], &value, sizeof value, &sum, 1, SHMEM_SIGNAL_ADD, 0);
        shmem_signal_add(&sum, 1, 0);
        shmem_ctx_signal_add(ctx, &sum, 1, 0);
    }
    shmem_ctx_quiet(ctx);
    shmem_barrier_all();
    if (me == 0) {
        CHECK(shmem_signal_fetch(&sum) == 4 * (uint64_t)ROUNDS * (uint64_t)npes);
        for (int pe = 0; pe < npes; pe++) {
            CHECK(cells[pe] == pe);
        }
    }
    shmem_signal_set(&large, UINT64_MAX, right);
    CHECK(shmem_signal_wait_until(&large, SHMEM_CMP_EQ, UINT64_MAX) == UINT64_MAX);
    shmem_barrier_all();
    shmem_signal_add(&large, 3, right);
    CHECK(shmem_signal_wait_until(&large, SHMEM_CMP_EQ, 2) == 2);
    shmem_barrier_all();
}

static void check_with(int shift) {
    right = (me + shift) % npes;
    left = (me + npes - shift) % npes;
#define RUN(NAME, TYPE) check_##NAME();
#define RUN_SIZED(BITS, TYPE) check_bits##BITS();
    RMA_TYPES(RUN)
    SIZES(RUN_SIZED)
    RUN_SIZED(mem, uint8_t)
    check_alone();
}

int main(void) {
    shmem_init();
    me = shmem_my_pe();
    npes = shmem_n_pes();
    CHECK(npes <= 64);
    CHECK(shmem_ctx_create(0, &ctx) == 0);
    check_with(0);
    check_with(1 % npes);
    check_fence_before_signal();
    check_sum_of_all();
    shmem_finalize();
    return 0;
}
