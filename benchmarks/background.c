/* What does a checkpoint in the background cost the program?
 *
 *     background MIB [PERCENT [WORK]]
 *
 * Each step works (arithmetic that keeps one processor busy for about WORK ms, 300), changes PERCENT (100) of the 4 KiB
 * pages of a heap of MIB mebibytes per PE, and makes a version: not at all, by shmem_checkpoint_all, or by
 * shmem_ft_checkpoint_nb, which the next step's waits for. Prints, one JSON object a line, in ms, medians of the
 * slowest PE:
 *
 *   memcpy      a warm copy of the same bytes by all PEs at the same time
 *   stall       what the call takes: "all_ms" of shmem_checkpoint_all, "nb_ms" of shmem_ft_checkpoint_nb (when the one
 *               before is committed), "committed_ms" from its beginning until it is committed, if the program waits
 *   step        a step: "none_ms" without versions, "all_ms", "nb_ms"
 *
 * The copies are made by other threads than the program's: where PEs have no more processors than that one each, their
 * work takes the longer.
 */
#include <shmem.h>
#include <shmem_ft.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPEATS = 9, PAGE = 4096 };
typedef enum { NONE, ALL, NB, WAYS } Way;

static double slowest_ms;
static double own_ms;
static volatile double sink SHMEM_FT_PRIVATE;

static double now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static double slowest(double ms) {
    own_ms = ms;
    shmem_barrier_all();
    shmem_double_max_reduce(SHMEM_TEAM_WORLD, &slowest_ms, &own_ms, 1);
    return slowest_ms;
}

static int by_value(const void* a, const void* b) {
    const double difference = *(const double*)a - *(const double*)b;
    return difference < 0 ? -1 : difference > 0;
}

static double median(double* samples) {
    qsort(samples, REPEATS, sizeof *samples, by_value);
    return samples[REPEATS / 2];
}

static void work(uint64_t rounds) {
    double value = 1.0;
    for (uint64_t i = 0; i < rounds; i++) {
        value = value * 1.0000001 + 1e-9;
    }
    sink = value;
}

static uint64_t rounds_of(double ms) {
    const uint64_t some = UINT64_C(10000000);
    const double begin = now_ms();
    work(some);
    return (uint64_t)(ms / (now_ms() - begin) * (double)some);
}

static void change(char* heap, size_t bytes, unsigned long percent, int what) {
    for (size_t page = 0; page < bytes / PAGE; page++) {
        if ((page * 37 + 11) % 100 < percent) {
            memset(heap + page * PAGE, what, PAGE);
        }
    }
}

static double checkpoint(Way way) {
    const double begin = now_ms();
    if ((way == ALL && shmem_checkpoint_all() != SHMEM_FT_SUCCESS) ||
        (way == NB && shmem_ft_checkpoint_nb() != SHMEM_FT_SUCCESS)) {
        fprintf(stderr, "background: error: a checkpoint failed\n");
        shmem_global_exit(2);
    }
    return now_ms() - begin;
}

static double measure_memcpy(const char* heap, size_t bytes) {
    char* copy = malloc(bytes);
    double samples[REPEATS];
    memset(copy, 1, bytes);
    for (int i = 0; i < REPEATS; i++) {
        shmem_barrier_all();
        const double begin = now_ms();
        memcpy(copy, heap, bytes);
        __asm__ volatile("" : : "r"(copy) : "memory");
        samples[i] = slowest(now_ms() - begin);
    }
    free(copy);
    return median(samples);
}

static void print_rows(size_t mib, unsigned long percent, double work_ms, double copy_ms, double stalls[WAYS][REPEATS],
                       double* committed, double steps[WAYS][REPEATS]) {
    const char* const setting = getenv("SHMEM_FT_BACKGROUND");
    printf("{\"what\": \"memcpy\", \"pes\": %d, \"mib\": %zu, \"ms\": %.3f}\n", shmem_n_pes(), mib, copy_ms);
    printf(
        "{\"what\": \"stall\", \"pes\": %d, \"mib\": %zu, \"percent\": %lu, \"setting\": \"%s\", \"all_ms\": %.3f, "
        "\"nb_ms\": %.3f, "
        "\"committed_ms\": %.3f}\n",
        shmem_n_pes(), mib, percent, setting != NULL ? setting : "copy", median(stalls[ALL]), median(stalls[NB]),
        median(committed));
    printf(
        "{\"what\": \"step\", \"pes\": %d, \"mib\": %zu, \"percent\": %lu, \"work_ms\": %.0f, \"none_ms\": %.3f, "
        "\"all_ms\": %.3f, \"nb_ms\": %.3f}\n",
        shmem_n_pes(), mib, percent, work_ms, median(steps[NONE]), median(steps[ALL]), median(steps[NB]));
}

int main(int argc, char** argv) {
    shmem_init();
    const size_t mib = argc > 1 ? (size_t)atol(argv[1]) : 64;
    const unsigned long percent = argc > 2 ? strtoul(argv[2], NULL, 10) : 100;
    const double work_ms = argc > 3 ? atof(argv[3]) : 300;
    const size_t bytes = mib << 20;
    char* const heap = shmem_align(PAGE, bytes); /* so that what is changed is as many pages */
    if (heap == NULL) {
        fprintf(stderr, "background: error: needs SHMEM_SYMMETRIC_SIZE above %zu MiB\n", mib);
        shmem_global_exit(2);
    }
    memset(heap, 1, bytes);
    const double copy_ms = measure_memcpy(heap, bytes);
    const uint64_t rounds = rounds_of(work_ms);
    for (int i = 0; i < 4; i++) { /* first touches, and trackers that find out what changes */
        change(heap, bytes, percent, i);
        checkpoint(i < 2 ? ALL : NB);
        if (shmem_ft_checkpoint_wait() != SHMEM_FT_SUCCESS) {
            shmem_global_exit(2);
        }
    }
    double stalls[WAYS][REPEATS];
    double committed[REPEATS];
    double steps[WAYS][REPEATS];
    int what = 0;
    for (int i = 0; i < REPEATS; i++) {
        for (Way way = NONE; way < WAYS; way++) {
            change(heap, bytes, percent, ++what);
            shmem_barrier_all();
            const double begin = now_ms();
            const double stall = checkpoint(way);
            if (shmem_ft_checkpoint_wait() != SHMEM_FT_SUCCESS) {
                shmem_global_exit(2);
            }
            const double end = now_ms() - begin;
            stalls[way][i] = slowest(stall);
            if (way == NB) {
                committed[i] = slowest(end);
            } else {
                slowest(0);
            }
        }
    }
    for (Way way = NONE; way < WAYS; way++) {
        for (int i = 0; i < REPEATS; i++) {
            shmem_barrier_all();
            const double begin = now_ms();
            work(rounds);
            change(heap, bytes, percent, ++what);
            checkpoint(way);
            steps[way][i] = slowest(now_ms() - begin);
        }
        if (shmem_ft_checkpoint_wait() != SHMEM_FT_SUCCESS) {
            shmem_global_exit(2);
        }
    }
    if (shmem_my_pe() == 0) {
        print_rows(mib, percent, work_ms, copy_ms, stalls, committed, steps);
    }
    shmem_finalize();
    return 0;
}
