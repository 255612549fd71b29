/* What many checkpoints of little cost: the agreement, not the copies. A counter changes, then all take a checkpoint.
 * Beside it, in the same run, a barrier of the same job.
 *
 *     oshrun -n 8 bench_small_checkpoints [CHECKPOINTS]
 *
 * One line of JSON: microseconds for one of each, of the best of five series. */
#include <shmem.h>
#include <shmem_ft.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SERIES = 5, WARM = 20, BARRIERS_FOR_ONE = 10, WORDS = 128 };

static double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static long counter;

static void checkpoint(void) {
    counter++;
    if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
        fprintf(stderr, "small_checkpoints: error: a checkpoint has failed\n");
        shmem_global_exit(1);
    }
}

static double least(double a, double b) { return a < b ? a : b; }

int main(int argc, char** argv) {
    const int count = argc > 1 ? atoi(argv[1]) : 200;
    shmem_init();
    if (count < 1) {
        fprintf(stderr, "small_checkpoints: error: how many checkpoints? At least 1\n");
        shmem_global_exit(2);
    }
    shmem_ft_algo_init();
    long* const words = shmem_calloc(WORDS, sizeof *words);
    for (int i = 0; i < WARM; i++) {
        checkpoint();
    }
    double checkpoint_us = 1e12;
    double barrier_us = 1e12;
    for (int series = 0; series < SERIES; series++) {
        shmem_barrier_all();
        double begin = now_us();
        for (int i = 0; i < count; i++) {
            checkpoint();
        }
        checkpoint_us = least(checkpoint_us, (now_us() - begin) / count);
        shmem_barrier_all();
        begin = now_us();
        for (int i = 0; i < BARRIERS_FOR_ONE * count; i++) {
            shmem_barrier_all();
        }
        barrier_us = least(barrier_us, (now_us() - begin) / (BARRIERS_FOR_ONE * count));
    }
    if (shmem_my_pe() == 0) {
        printf(
            "{\"what\": \"small\", \"pes\": %d, \"checkpoint_us\": %.1f, \"barrier_us\": %.2f, \"barriers\": %.1f}\n",
            shmem_n_pes(), checkpoint_us, barrier_us, checkpoint_us / barrier_us);
    }
    shmem_free(words);
    shmem_finalize();
    return 0;
}
