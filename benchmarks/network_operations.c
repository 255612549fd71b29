/* What do put, get and atomics between two nodes cost? PE 0 measures against PE 1, which waits in a barrier, or
 * computes all the time without calling the library.
 *
 * Prints one JSON object a line: the operation, bytes, and either us per operation (median and mean of all of them) or
 * MB/s (median of rounds).
 *
 *   network_operations [busy]
 */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 9, SINGLES = 20000, LARGEST = 16 << 20, STREAM = 256 << 20 };

static long counter;
static volatile long is_over;

static double now_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static int by_value(const void* a, const void* b) {
    const double difference = *(const double*)a - *(const double*)b;
    return difference < 0 ? -1 : difference > 0;
}

enum Operation { PUT_QUIET, GET, FETCH_ADD, PUT_STREAM, GET_STREAM, BOTH_STREAM, N_OPERATIONS };
static const char* const names[N_OPERATIONS] = {"put+quiet",     "get",           "fetch_add",
                                                "put_bandwidth", "get_bandwidth", "put_bandwidth_both_ways"};

static void run(enum Operation operation, char* remote, char* local, size_t bytes, int count) {
    switch (operation) {
        case PUT_QUIET:
            for (int i = 0; i < count; ++i) {
                shmem_putmem(remote, local, bytes, 1);
                shmem_quiet();
            }
            break;
        case GET:
            for (int i = 0; i < count; ++i) {
                shmem_getmem(local, remote, bytes, 1);
            }
            break;
        case FETCH_ADD:
            for (int i = 0; i < count; ++i) {
                (void)shmem_long_atomic_fetch_add(&counter, 1, 1);
            }
            break;
        case PUT_STREAM:
        case BOTH_STREAM:
            for (int i = 0; i < count; ++i) {
                shmem_putmem_nbi(remote, local, bytes, 1 - shmem_my_pe());
            }
            shmem_quiet();
            break;
        case GET_STREAM:
            for (int i = 0; i < count; ++i) {
                shmem_getmem_nbi(local, remote, bytes, 1);
            }
            shmem_quiet();
            break;
        default: break;
    }
}

/* One after another, each with its own time: what the tools of the transports do as well. */
static void measure_singles(enum Operation operation, char* remote, char* local, size_t bytes) {
    static double samples[SINGLES];
    run(operation, remote, local, bytes, SINGLES / 4);
    double sum = 0;
    for (int i = 0; i < SINGLES; ++i) {
        const double begin = now_us();
        run(operation, remote, local, bytes, 1);
        samples[i] = now_us() - begin;
        sum += samples[i];
    }
    qsort(samples, SINGLES, sizeof *samples, by_value);
    printf("{\"operation\": \"%s\", \"bytes\": %zu, \"us\": %.3f, \"mean_us\": %.3f}\n", names[operation], bytes,
           samples[SINGLES / 2], sum / SINGLES);
    fflush(stdout);
}

static void measure_stream(enum Operation operation, char* remote, char* local, size_t bytes, int count) {
    double samples[ROUNDS];
    run(operation, remote, local, bytes, count / 4 + 1);
    for (int i = 0; i < ROUNDS; ++i) {
        const double begin = now_us();
        run(operation, remote, local, bytes, count);
        samples[i] = (now_us() - begin) / count;
    }
    qsort(samples, ROUNDS, sizeof *samples, by_value);
    printf("{\"operation\": \"%s\", \"bytes\": %zu, \"mb_per_s\": %.1f}\n", names[operation], bytes,
           (double)bytes / samples[ROUNDS / 2]);
    fflush(stdout);
}

/* Both PEs put to each other at the same time: what they send together, by the time of the slower one. */
static void measure_both(char* remote, char* local, size_t bytes, int count) {
    double samples[ROUNDS];
    for (int i = 0; i < ROUNDS; ++i) {
        shmem_barrier_all();
        const double begin = now_us();
        run(BOTH_STREAM, remote, local, bytes, count);
        shmem_barrier_all();
        samples[i] = (now_us() - begin) / count;
    }
    if (shmem_my_pe() == 0) {
        qsort(samples, ROUNDS, sizeof *samples, by_value);
        printf("{\"operation\": \"%s\", \"bytes\": %zu, \"mb_per_s\": %.1f}\n", names[BOTH_STREAM], bytes,
               2 * (double)bytes / samples[ROUNDS / 2]);
    }
}

int main(int argc, char** argv) {
    const int is_busy = argc > 1 && strcmp(argv[1], "busy") == 0;
    shmem_init();
    if (shmem_n_pes() != 2) {
        fprintf(stderr, "network_operations: needs 2 PEs\n");
        shmem_global_exit(2);
    }
    char* remote = shmem_malloc(LARGEST);
    char* local = malloc(LARGEST);
    memset(remote, 1, LARGEST);
    memset(local, 2, LARGEST);
    shmem_barrier_all();
    if (shmem_my_pe() == 0) {
        measure_singles(PUT_QUIET, remote, local, 8);
        measure_singles(GET, remote, local, 8);
        measure_singles(FETCH_ADD, remote, local, 8);
        for (size_t bytes = 64 << 10; bytes <= (is_busy ? (1 << 20) : (4 << 20)); bytes *= 4) {
            const int count = (int)(STREAM / bytes);
            measure_stream(PUT_STREAM, remote, local, bytes, count);
            measure_stream(GET_STREAM, remote, local, bytes, count);
        }
        shmem_long_p((long*)&is_over, 1, 1);
    } else if (is_busy) {
        while (!is_over) {
        }
    }
    shmem_barrier_all();
    if (!is_busy) {
        measure_both(remote, local, 1 << 20, STREAM >> 20);
    }
    shmem_barrier_all();
    shmem_free(remote);
    free(local);
    shmem_finalize();
    return 0;
}
