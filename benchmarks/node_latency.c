/* What does one operation between two PEs of a node cost?
 *
 * Plain OpenSHMEM 1.4, so that the same source measures any library. PE 0 issues the operations towards PE 1, which
 * waits in a barrier. Prints one JSON object a line: {"operation": ..., "bytes": ..., "ns": ...}, ns being the time of
 * one operation, the least of several batches (a batch that was interrupted is not what is asked for).
 *
 *   node_latency [BATCHES]
 */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LARGEST = 4 * 1024 * 1024 };

static int batches = 7;
static long word;

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void report(const char* operation, size_t bytes, double ns) {
    if (shmem_my_pe() == 0) {
        printf("{\"operation\": \"%s\", \"bytes\": %zu, \"ns\": %.2f}\n", operation, bytes, ns);
        fflush(stdout);
    }
}

typedef void (*Operation)(char* remote, char* local, size_t bytes);

static void do_put(char* remote, char* local, size_t bytes) { shmem_putmem(remote, local, bytes, 1); }
static void do_get(char* remote, char* local, size_t bytes) { shmem_getmem(local, remote, bytes, 1); }
static void do_put_nbi(char* remote, char* local, size_t bytes) { shmem_putmem_nbi(remote, local, bytes, 1); }
static void do_p_static(char* remote, char* local, size_t bytes) {
    (void)remote, (void)local, (void)bytes;
    shmem_long_p(&word, 1, 1);
}
static void do_put_long(char* remote, char* local, size_t bytes) {
    (void)bytes;
    shmem_long_put((long*)remote, (long*)local, 1, 1);
}
static void do_get_long(char* remote, char* local, size_t bytes) {
    (void)bytes;
    shmem_long_get((long*)local, (long*)remote, 1, 1);
}
static void do_fetch_add(char* remote, char* local, size_t bytes) {
    (void)local, (void)bytes;
    shmem_long_atomic_fetch_add((long*)remote, 1, 1);
}

/* Only PE 0 works; the other one sleeps in the barrier. */
static void measure(const char* name, Operation operation, char* remote, char* local, size_t bytes) {
    const long count = bytes <= 4096 ? 200000 : (long)(400000000UL / bytes);
    double least = 1e18;
    shmem_barrier_all();
    for (int batch = 0; batch < batches && shmem_my_pe() == 0; batch++) {
        const double begin = now_ns();
        for (long i = 0; i < count; i++) {
            operation(remote, local, bytes);
        }
        shmem_quiet();
        const double each = (now_ns() - begin) / (double)count;
        least = each < least ? each : least;
    }
    report(name, bytes, least);
    shmem_barrier_all();
}

static void measure_barrier(void) {
    enum { COUNT = 20000 };
    double least = 1e18;
    for (int batch = 0; batch < batches; batch++) {
        shmem_barrier_all();
        const double begin = now_ns();
        for (int i = 0; i < COUNT; i++) {
            shmem_barrier_all();
        }
        const double each = (now_ns() - begin) / COUNT;
        least = each < least ? each : least;
    }
    report("barrier_all", 0, least);
}

int main(int argc, char** argv) {
    shmem_init();
    if (argc > 1) {
        batches = atoi(argv[1]);
    }
    if (shmem_n_pes() != 2 || batches < 1) {
        fprintf(stderr, "node_latency: error: needs 2 PEs and at least 1 batch\n");
        shmem_global_exit(2);
    }
    char* const remote = shmem_malloc(LARGEST);
    char* const local = malloc(LARGEST);
    if (remote == NULL || local == NULL) {
        fprintf(stderr, "node_latency: error: no memory\n");
        shmem_global_exit(2);
    }
    memset(remote, 1, LARGEST);
    memset(local, 2, LARGEST);
    measure("put_long", do_put_long, remote, local, sizeof(long));
    measure("get_long", do_get_long, remote, local, sizeof(long));
    measure("p_long_static", do_p_static, remote, local, sizeof(long));
    measure("fetch_add", do_fetch_add, remote, local, sizeof(long));
    measure_barrier();
    for (size_t bytes = 64; bytes <= LARGEST; bytes *= 4) {
        measure("put", do_put, remote, local, bytes);
        measure("get", do_get, remote, local, bytes);
        measure("put_nbi", do_put_nbi, remote, local, bytes);
    }
    free(local);
    shmem_free(remote);
    shmem_finalize();
    return 0;
}
