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
__extension__ typedef unsigned __int128 wide;
DEFINE_SIZED(8, uint8_t)
DEFINE_SIZED(16, uint16_t)
DEFINE_SIZED(32, uint32_t)
DEFINE_SIZED(64, uint64_t)
DEFINE_SIZED(128, wide)
DEFINE_SIZED(mem, uint8_t)

static void check_alone(void) {
    static uint64_t word;
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

int main(void) {
    shmem_init();
    me = shmem_my_pe();
    npes = shmem_n_pes();
    right = (me + 1) % npes;
    left = (me + npes - 1) % npes;
    CHECK(shmem_ctx_create(0, &ctx) == 0);
#define RUN(NAME, TYPE) check_##NAME();
    RMA_TYPES(RUN)
    RUN(bits8, uint8_t)
    RUN(bits16, uint16_t)
    RUN(bits32, uint32_t)
    RUN(bits64, uint64_t)
    RUN(bits128, wide)
    RUN(bitsmem, uint8_t)
    check_alone();
    shmem_finalize();
    return 0;
}
