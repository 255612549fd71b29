/* An old program: start_pes, names and headers of the first versions. */
#include <mpp/shmem.h>
#include <mpp/shmemx.h>

#include "tests/conformance/check.h"

static long barrier_words[_SHMEM_BARRIER_SYNC_SIZE];
static long collect_words[_SHMEM_COLLECT_SYNC_SIZE];
static long broadcast_words[_SHMEM_BCAST_SYNC_SIZE];
static long reduce_words[_SHMEM_REDUCE_SYNC_SIZE];
static int work[_SHMEM_REDUCE_MIN_WRKDATA_SIZE];

static void check_constants(void) {
    CHECK(_SHMEM_MAJOR_VERSION == 1 && _SHMEM_MINOR_VERSION == 6 && _SHMEM_MAX_NAME_LEN == SHMEM_MAX_NAME_LEN);
    CHECK(OSHMEM_SPEC_VERSION == 10600);
    CHECK(sizeof(_SHMEM_VENDOR_STRING) == sizeof(SHMEM_VENDOR_STRING));
    CHECK(_SHMEM_CMP_EQ == SHMEM_CMP_EQ && _SHMEM_CMP_NE == SHMEM_CMP_NE && _SHMEM_CMP_GT == SHMEM_CMP_GT);
    CHECK(_SHMEM_CMP_GE == SHMEM_CMP_GE && _SHMEM_CMP_LT == SHMEM_CMP_LT && _SHMEM_CMP_LE == SHMEM_CMP_LE);
    CHECK(_SHMEM_SYNC_VALUE == SHMEM_SYNC_VALUE);
    CHECK(SHMEM_SYNC_SIZE >= SHMEM_ALLTOALL_SYNC_SIZE && SHMEM_SYNC_SIZE >= SHMEM_ALLTOALLS_SYNC_SIZE);
    CHECK(SHMEM_SYNC_SIZE >= SHMEM_BARRIER_SYNC_SIZE && SHMEM_SYNC_SIZE >= SHMEM_BCAST_SYNC_SIZE);
    CHECK(SHMEM_SYNC_SIZE >= SHMEM_COLLECT_SYNC_SIZE && SHMEM_SYNC_SIZE >= SHMEM_REDUCE_SYNC_SIZE);
}

#define CHECK_EXTENDED(NAME, TYPE)                                    \
    {                                                                 \
        static TYPE cell;                                             \
        shmem_##NAME##_set(&cell, (TYPE)4, right);                    \
        CHECK(shmem_##NAME##_fetch(&cell, right) == (TYPE)4);         \
        CHECK(shmem_##NAME##_swap(&cell, (TYPE)5, right) == (TYPE)4); \
        shmem_barrier_all();                                          \
        CHECK(cell == (TYPE)5);                                       \
    }
#define CHECK_STANDARD(NAME, TYPE)                            \
    {                                                         \
        static TYPE cell;                                     \
        CHECK(shmem_##NAME##_cswap(&cell, 0, 2, right) == 0); \
        CHECK(shmem_##NAME##_cswap(&cell, 0, 9, right) == 2); \
        CHECK(shmem_##NAME##_finc(&cell, right) == 2);        \
        shmem_##NAME##_inc(&cell, right);                     \
        CHECK(shmem_##NAME##_fadd(&cell, 3, right) == 4);     \
        shmem_##NAME##_add(&cell, 1, right);                  \
        shmem_barrier_all();                                  \
        CHECK(cell == 8);                                     \
    }

int main(void) {
    start_pes(0);
    start_pes(0); /* no effect */
    const int me = _my_pe(), npes = _num_pes(), right = (me + 1) % npes;
    CHECK(me == shmem_my_pe() && npes == shmem_n_pes());
    check_constants();
    for (int i = 0; i < _SHMEM_BARRIER_SYNC_SIZE; i++) {
        barrier_words[i] = _SHMEM_SYNC_VALUE;
    }
    shmem_barrier_all();

    int* const block = shmalloc(100 * sizeof *block);
    int* const aligned = shmemalign(4096, 100 * sizeof *aligned);
    CHECK(block != NULL && aligned != NULL && (size_t)aligned % 4096 == 0);
    for (int i = 0; i < 100; i++) {
        block[i] = me * 100 + i;
    }
    int* const larger = shrealloc(block, 1000 * sizeof *larger);
    CHECK(larger != NULL && larger[99] == me * 100 + 99);

    shmem_barrier(0, 0, npes, barrier_words);
    shmem_int_put(aligned, larger, 100, right);
    shmem_barrier(0, 0, npes, barrier_words);
    CHECK(aligned[7] == (me + npes - 1) % npes * 100 + 7);
    shmem_barrier_all();
    shmem_broadcast32(aligned, larger, 10, 0, 0, 0, npes, broadcast_words);
    CHECK(me == 0 || aligned[9] == 9);
    shmem_barrier_all();
    int* const all = shmalloc((size_t)npes * sizeof *all);
    shmem_fcollect32(all, larger, 1, 0, 0, npes, collect_words);
    for (int pe = 0; pe < npes; pe++) {
        CHECK(all[pe] == pe * 100);
    }
    shmem_int_sum_to_all(aligned, larger, 1, 0, 0, npes, work, reduce_words);
    CHECK(aligned[0] == npes * (npes - 1) / 2 * 100);

    OLD_EXTENDED_AMO_TYPES(CHECK_EXTENDED)
    OLD_AMO_TYPES(CHECK_STANDARD)

    static long flag, other;
    shmem_long_p(&flag, 1, right);
    shmem_wait(&flag, 0);
    (shmem_wait_until)(&flag, SHMEM_CMP_EQ, 1); /* the function, not the macro */
    CHECK(flag == 1);
    shmem_long_p(&other, 1, right);
    shmem_long_wait(&other, 0);
    /* Initialised once more: the inner pair is a barrier, the end is still the library's. */
    shmem_init();
    shmem_finalize();
    CHECK(shmem_my_pe() == me);
    shfree(all);
    shfree(aligned);
    shfree(larger);
    shmem_finalize(); /* which may as well be left to the library: legacy_1_0.c */
    return 0;
}
