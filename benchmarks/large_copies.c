/* Do large puts and gets on a node run at the speed of memory?
 *
 *   large_copies [ROUNDS]
 *
 * Two PEs. For every size a round times shmem_putmem, memcpy to where shmem_ptr points, and the same the other way with
 * shmem_getmem: between the same mappings, in turn, the order changing from round to round. Prints one JSON object a
 * line: {"operation": ..., "bytes": ..., "ns": ..., "memcpy_ns": ..., "of_memcpy": ...}. The times are the least of the
 * rounds; of_memcpy is the speed as a share of memcpy's, the median over the rounds of memcpy's time by the operation's
 * (what disturbs the machine disturbs both). Plain OpenSHMEM 1.4, so that the same source measures any library.
 */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LARGEST = 16 * 1024 * 1024, SMALLEST = 32 * 1024, MOST_ROUNDS = 1001 };

typedef struct {
    char* here;        /* this PE's memory */
    char* theirs;      /* the other PE's, as this PE names it */
    char* theirs_here; /* the other PE's, as this PE's mapping shows it */
    size_t bytes;
} Pair;
typedef void (*Copy)(const Pair* pair);

static void put(const Pair* p) { shmem_putmem(p->theirs, p->here, p->bytes, 1); }
static void put_by_memcpy(const Pair* p) { memcpy(p->theirs_here, p->here, p->bytes); }
static void get(const Pair* p) { shmem_getmem(p->here, p->theirs, p->bytes, 1); }
static void get_by_memcpy(const Pair* p) { memcpy(p->here, p->theirs_here, p->bytes); }

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* The time of one call, over as many as move 32 MiB. */
static double time_of(Copy copy, const Pair* pair) {
    const int calls = (int)(LARGEST * 2 / pair->bytes);
    const double begin = now_ns();
    for (int i = 0; i < calls; i++) {
        copy(pair);
    }
    shmem_quiet();
    return (now_ns() - begin) / calls;
}

static int by_value(const void* a, const void* b) {
    const double first = *(const double*)a;
    const double second = *(const double*)b;
    return (first > second) - (first < second);
}

static void compare(const char* name, Copy operation, Copy plain, const Pair* pair, int rounds) {
    static double ratios[MOST_ROUNDS];
    double least = 1e18;
    double least_plain = 1e18;
    for (int round = 0; round < rounds; round++) {
        const int operation_first = round & 1;
        const double first = time_of(operation_first ? operation : plain, pair);
        const double second = time_of(operation_first ? plain : operation, pair);
        const double own = operation_first ? first : second;
        const double memcpys = operation_first ? second : first;
        ratios[round] = memcpys / own;
        least = own < least ? own : least;
        least_plain = memcpys < least_plain ? memcpys : least_plain;
    }
    qsort(ratios, (size_t)rounds, sizeof ratios[0], by_value);
    printf("{\"operation\": \"%s\", \"bytes\": %zu, \"ns\": %.0f, \"memcpy_ns\": %.0f, \"of_memcpy\": %.3f}\n", name,
           pair->bytes, least, least_plain, ratios[rounds / 2]);
    fflush(stdout);
}

int main(int argc, char** argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 101;
    shmem_init();
    char* const here = shmem_malloc(LARGEST);
    char* const theirs = shmem_malloc(LARGEST);
    char* const theirs_here = shmem_ptr(theirs, 1);
    if (shmem_n_pes() != 2 || rounds < 1 || rounds > MOST_ROUNDS || here == NULL || theirs == NULL ||
        theirs_here == NULL) {
        fprintf(stderr, "large_copies: two PEs of one node, 1 to %d rounds\n", MOST_ROUNDS);
        shmem_global_exit(2);
    }
    memset(here, 1, LARGEST);
    memset(theirs, 2, LARGEST);
    shmem_barrier_all();
    for (size_t bytes = SMALLEST; shmem_my_pe() == 0 && bytes <= LARGEST; bytes *= 2) {
        const Pair pair = {here, theirs, theirs_here, bytes};
        compare("put", put, put_by_memcpy, &pair, rounds);
        compare("get", get, get_by_memcpy, &pair, rounds);
    }
    shmem_barrier_all();
    shmem_free(theirs);
    shmem_free(here);
    shmem_finalize();
    return 0;
}
