/* A program that knows nothing of the tool that it is run with: the driver knows how often it calls what. PE number p
 * calls some things p times. It uses the type-generic names as well, which must lead to the tool, too. */
#include <shmem.h>
#include <stdio.h>

static long cells[8], flag, lock;
static double numbers[8];
static uint64_t signal_word;

int main(void) {
    shmem_init();
    const int me = shmem_my_pe(), npes = shmem_n_pes(), right = (me + 1) % npes;
    const long values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const double reals[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    long* const block = shmem_malloc(64 * sizeof *block);
    long* const unseen = shmem_calloc(64, sizeof *block); /* not redefined, and shmem_malloc is not behind it */
    shmem_long_put(block, values, 8, right);
    shmem_put(block, values, 4, right);
    shmem_put_nbi(SHMEM_CTX_DEFAULT, numbers, reals, 2, right);
    shmem_long_put_nbi(block, values, 8, right); /* not redefined */
    for (int i = 0; i < me; i++) {
        shmem_long_atomic_fetch_add(&cells[0], 1, 0);
    }
    shmem_fence();
    shmem_quiet();
    shmem_barrier_all();
    shmem_sync_all();
    shmem_team_sync(SHMEM_TEAM_WORLD);
    shmem_sync(SHMEM_TEAM_WORLD);
    const long got = shmem_g(&block[3], right);
    shmem_getmem(&cells[1], block, sizeof *block, right);
    shmem_sum_reduce(SHMEM_TEAM_WORLD, &cells[2], &cells[1], 1); /* with syncs in it that are not the program's */
    shmem_broadcastmem(SHMEM_TEAM_WORLD, &cells[3], &cells[2], sizeof(long), 0);
    shmem_long_atomic_inc(&flag, right);
    shmem_wait_until(&flag, SHMEM_CMP_EQ, 1);
    shmem_signal_add(&signal_word, 1, right);
    shmem_signal_wait_until(&signal_word, SHMEM_CMP_EQ, 1);
    shmem_set_lock(&lock);
    shmem_clear_lock(&lock); /* a quiet in it that is not the program's */
    shmem_pcontrol(0);
    shmem_long_put(block, values, 8, right); /* not counted */
    shmem_barrier_all();
    shmem_pcontrol(1);
    shmem_free(unseen);
    shmem_free(block);
    if (got != 4 || cells[2] != npes || cells[3] != npes) {
        fprintf(stderr, "PE %d: the program computed %ld, %ld and %ld\n", me, got, cells[2], cells[3]);
        shmem_global_exit(1);
    }
    shmem_finalize();
    return 0;
}
