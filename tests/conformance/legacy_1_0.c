/* A program as it was written for the first versions, in C of 1989: no finalize, names without prefix, active sets with
 * pSync, waits without comparison, and the cache routines that were removed in 1.5. */
#include <mpp/shmem.h>
#include <stdio.h>

#define N 64

long pSync[_SHMEM_REDUCE_SYNC_SIZE];
long pSync2[_SHMEM_COLLECT_SYNC_SIZE];
int pWrk[N / 2 + 1 + _SHMEM_REDUCE_MIN_WRKDATA_SIZE];
int source[N], total[N];
double row[N], col[2 * N];
long flag, lock, counter;
short small_flag;

static void fail(const char* what) {
    fprintf(stderr, "PE %d: legacy_1_0.c: %s\n", _my_pe(), what);
    shmem_global_exit(1);
}

int main(void) {
    int me, npes, next, last, i;
    long* table;

    start_pes(0);
    me = _my_pe();
    npes = _num_pes();
    next = (me + 1) % npes;
    last = (me + npes - 1) % npes;

    shmem_set_cache_inv();
    shmem_set_cache_line_inv(&flag);
    for (i = 0; i < _SHMEM_REDUCE_SYNC_SIZE; i++) pSync[i] = _SHMEM_SYNC_VALUE;
    for (i = 0; i < _SHMEM_COLLECT_SYNC_SIZE; i++) pSync2[i] = _SHMEM_SYNC_VALUE;
    for (i = 0; i < N; i++) {
        source[i] = me + i;
        row[i] = me + i / 2.0;
    }
    shmem_barrier_all();

    shmem_double_put(col, row, N, next);
    shmem_fence();
    shmem_long_p(&flag, 1L, next);
    shmem_wait(&flag, 0L);
    shmem_udcflush();
    shmem_udcflush_line(col);
    for (i = 0; i < N; i++) {
        if (col[i] != last + i / 2.0) fail("put, fence, flag and wait");
    }
    shmem_barrier_all();
    shmem_double_iput(col, row, 2, 1, N, next);
    shmem_barrier_all();
    if (col[2 * N - 2] != last + (N - 1) / 2.0) fail("iput");
    shmem_short_p(&small_flag, 3, next);
    shmem_short_wait(&small_flag, 0);
    shmem_wait_until(&flag, _SHMEM_CMP_EQ, 1L);

    shmem_int_sum_to_all(total, source, N, 0, 0, npes, pWrk, pSync);
    for (i = 0; i < N; i++) {
        if (total[i] != npes * (npes - 1) / 2 + npes * i) fail("sum_to_all");
    }
    shmem_barrier(0, 0, npes, pSync2);

    table = (long*)shmalloc((size_t)npes * sizeof(long));
    if (table == NULL) fail("shmalloc");
    table[me] = 0;
    flag = me + 100;
    shmem_barrier_all();
    shmem_fcollect64(table, &flag, 1, 0, 0, npes, pSync2);
    for (i = 0; i < npes; i++) {
        if (table[i] != i + 100) fail("fcollect64");
    }
    shmem_set_lock(&lock);
    shmem_long_p(&counter, shmem_long_g(&counter, 0) + 1, 0);
    shmem_quiet();
    shmem_clear_lock(&lock);
    shmem_barrier_all();
    if (shmem_long_g(&counter, 0) != npes) fail("lock");
    shmem_barrier_all();
    if (shmem_long_swap(&counter, 7L, next) < 0 || shmem_int_fadd(&source[0], 1, me) != me) fail("old AMO names");
    if (!shmem_pe_accessible(next) || !shmem_addr_accessible(&flag, next)) fail("accessible");
    shmem_clear_cache_line_inv(&flag);
    shmem_clear_cache_inv();
    shmem_barrier_all();
    shfree(table);
    return 0;
}
