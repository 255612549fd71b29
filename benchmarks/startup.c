/* A start-up that communicates all the time, up to its first checkpoint. Prints as JSON how long that took (the slowest
 * PE) and how long the checkpoint.
 *
 *     bench_startup ROUNDS
 */
#include <shmem.h>
#include <shmem_ft.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WORDS = 128 };
static long box[WORDS], own[WORDS], sum[8], counter;
static double seconds[2], slowest[2];
static int flag;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int main(int argc, char** argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 20000;
    shmem_init();
    const int next = (shmem_my_pe() + 1) % shmem_n_pes();
    long got[8] = {0};
    shmem_barrier_all();
    const double begin = now();
    for (int round = 1; round <= rounds; round++) {
        own[0] = round;
        shmem_long_put(box, own, WORDS, next);
        shmem_long_p(&box[3], round, next);
        shmem_barrier_all();
        shmem_long_get(got, own, 8, next);
        got[1] += shmem_long_atomic_fetch_add(&counter, 1, next);
        shmem_long_broadcast(SHMEM_TEAM_WORLD, sum, own, 8, round % shmem_n_pes());
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, sum, own, 1);
        shmem_int_p(&flag, round, next);
        shmem_int_wait_until(&flag, SHMEM_CMP_GE, round);
        shmem_barrier_all();
    }
    seconds[0] = now() - begin;
    const int status = shmem_checkpoint_all();
    seconds[1] = now() - begin - seconds[0];
    shmem_double_max_reduce(SHMEM_TEAM_WORLD, slowest, seconds, 2);
    if (shmem_my_pe() == 0) {
        printf("{\"rounds\": %d, \"startup_s\": %.6f, \"checkpoint_s\": %.6f, \"status\": %d}\n", rounds, slowest[0],
               slowest[1], status);
    }
    shmem_finalize();
    return 0;
}
