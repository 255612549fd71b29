/* What does one operation between the PEs of a node cost?
 *
 *   node_operations [all|barrier] [BATCHES]
 *
 * Plain OpenSHMEM 1.4, so that the same source measures any library. Prints one JSON object a line: {"operation": ...,
 * "bytes": ..., "ns": ...}. ns is the time of one operation: the mean of a batch, and of several batches the least (a
 * batch that was interrupted is not what is asked for). `all` needs 2 PEs; `barrier` measures shmem_barrier_all alone,
 * with any number of them.
 *
 *   one-sided     PE 0 issues operations towards PE 1, which waits in a barrier; a quiet ends the batch
 *   collective    every call begins behind a barrier, which is not timed; the slower PE counts
 *   ping_pong     half of the way there and back: a put of one word, awaited by shmem_long_wait_until
 */
#include <shmem.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LARGEST = 4 * 1024 * 1024, LARGEST_COLLECTIVE = 1024 * 1024 };

static const size_t sizes[] = {8, 64, 512, 4096, 32768, 262144, 1048576, LARGEST};
static int batches = 11;
static long word;
static long lock;
static unsigned long bits;
static double slowest; /* of the other PE */
static long sync_words[2][SHMEM_COLLECT_SYNC_SIZE + SHMEM_REDUCE_SYNC_SIZE + SHMEM_BCAST_SYNC_SIZE +
                          SHMEM_ALLTOALL_SYNC_SIZE + SHMEM_BARRIER_SYNC_SIZE];

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

/* `remote` and `local` are what an operation works on, both symmetric; turn alternates between 0 and 1. */
typedef struct {
    char* remote;
    char* local;
    void* work;
    size_t bytes;
    int turn;
} Call;
typedef void (*Operation)(const Call* call);
typedef struct {
    const char* name;
    Operation operation;
} Row;

/* ---- one-sided ---- */

static void do_put(const Call* c) { shmem_putmem(c->remote, c->local, c->bytes, 1); }
static void do_get(const Call* c) { shmem_getmem(c->local, c->remote, c->bytes, 1); }
static void do_put_nbi(const Call* c) { shmem_putmem_nbi(c->remote, c->local, c->bytes, 1); }
static void do_get_nbi(const Call* c) { shmem_getmem_nbi(c->local, c->remote, c->bytes, 1); }
static const Row transfers[] = {{"put", do_put}, {"get", do_get}, {"put_nbi", do_put_nbi}, {"get_nbi", do_get_nbi}};

static void do_p(const Call* c) { shmem_long_p((long*)c->remote, 1, 1); }
static void do_g(const Call* c) { *(long*)c->local += shmem_long_g((long*)c->remote, 1); }
static void do_p_global(const Call* c) { shmem_long_p(&word, c->turn, 1); }
static void do_put_long(const Call* c) { shmem_long_put((long*)c->remote, (long*)c->local, 1, 1); }
static void do_get_long(const Call* c) { shmem_long_get((long*)c->local, (long*)c->remote, 1, 1); }
static void do_iput(const Call* c) { shmem_long_iput((long*)c->remote, (long*)c->local, 2, 1, 8, 1); }
static void do_iget(const Call* c) { shmem_long_iget((long*)c->local, (long*)c->remote, 1, 2, 8, 1); }
static void do_fetch(const Call* c) { *(long*)c->local += shmem_long_atomic_fetch((long*)c->remote, 1); }
static void do_set(const Call* c) { shmem_long_atomic_set((long*)c->remote, 1, 1); }
static void do_add(const Call* c) { shmem_long_atomic_add((long*)c->remote, 1, 1); }
static void do_inc(const Call* c) { shmem_long_atomic_inc((long*)c->remote, 1); }
static void do_fetch_add(const Call* c) { *(long*)c->local += shmem_long_atomic_fetch_add((long*)c->remote, 1, 1); }
static void do_fetch_inc(const Call* c) { *(long*)c->local += shmem_long_atomic_fetch_inc((long*)c->remote, 1); }
static void do_swap(const Call* c) { *(long*)c->local += shmem_long_atomic_swap((long*)c->remote, 1, 1); }
static void do_cswap(const Call* c) {
    *(long*)c->local += shmem_long_atomic_compare_swap((long*)c->remote, c->turn, 1, 1);
}
static void do_and(const Call* c) { (void)c, shmem_ulong_atomic_and(&bits, 7, 1); }
static void do_fetch_or(const Call* c) { *(unsigned long*)c->local += shmem_ulong_atomic_fetch_or(&bits, 3, 1); }
static void do_fetch_xor(const Call* c) { *(unsigned long*)c->local += shmem_ulong_atomic_fetch_xor(&bits, 5, 1); }
static void do_put_fence(const Call* c) {
    shmem_long_p((long*)c->remote, 1, 1);
    shmem_fence();
}
static void do_put_quiet(const Call* c) {
    shmem_long_p((long*)c->remote, 1, 1);
    shmem_quiet();
}
static void do_fence(const Call* c) { (void)c, shmem_fence(); }
static void do_quiet(const Call* c) { (void)c, shmem_quiet(); }
static void do_lock(const Call* c) {
    (void)c;
    shmem_set_lock(&lock);
    shmem_clear_lock(&lock);
}
static void do_test_lock(const Call* c) {
    (void)c;
    if (shmem_test_lock(&lock) == 0) {
        shmem_clear_lock(&lock);
    }
}
static const Row words[] = {
    {"p", do_p},
    {"g", do_g},
    {"p_global", do_p_global},
    {"put_long", do_put_long},
    {"get_long", do_get_long},
    {"iput_8_longs", do_iput},
    {"iget_8_longs", do_iget},
    {"atomic_fetch", do_fetch},
    {"atomic_set", do_set},
    {"atomic_add", do_add},
    {"atomic_inc", do_inc},
    {"atomic_fetch_add", do_fetch_add},
    {"atomic_fetch_inc", do_fetch_inc},
    {"atomic_swap", do_swap},
    {"atomic_cswap", do_cswap},
    {"atomic_and", do_and},
    {"atomic_fetch_or", do_fetch_or},
    {"atomic_fetch_xor", do_fetch_xor},
    {"p_fence", do_put_fence},
    {"p_quiet", do_put_quiet},
    {"fence", do_fence},
    {"quiet", do_quiet},
    {"lock_clear", do_lock},
    {"test_lock_clear", do_test_lock},
};

static void measure_one_sided(const Row* row, Call call) {
    const long count = call.bytes <= 4096 ? 10000 : (long)(40000000UL / call.bytes) + 1;
    double least = 1e18;
    shmem_barrier_all();
    for (int batch = 0; batch < batches && shmem_my_pe() == 0; batch++) {
        const double begin = now_ns();
        for (long i = 0; i < count; i++) {
            call.turn = i & 1;
            row->operation(&call);
        }
        shmem_quiet();
        const double each = (now_ns() - begin) / (double)count;
        least = each < least ? each : least;
    }
    report(row->name, call.bytes, least);
    shmem_barrier_all();
}

/* ---- both PEs ---- */

static void do_broadcast(const Call* c) {
    shmem_broadcast64(c->remote, c->local, c->bytes / 8, 0, 0, 0, 2, sync_words[c->turn]);
}
static void do_collect(const Call* c) {
    shmem_collect64(c->remote, c->local, c->bytes / 8, 0, 0, 2, sync_words[c->turn]);
}
static void do_fcollect(const Call* c) {
    shmem_fcollect64(c->remote, c->local, c->bytes / 8, 0, 0, 2, sync_words[c->turn]);
}
static void do_alltoall(const Call* c) {
    shmem_alltoall64(c->remote, c->local, c->bytes / 8, 0, 0, 2, sync_words[c->turn]);
}
static void do_reduce_long(const Call* c) {
    shmem_long_sum_to_all((long*)c->remote, (long*)c->local, (int)(c->bytes / 8), 0, 0, 2, c->work,
                          sync_words[c->turn]);
}
static void do_reduce_double(const Call* c) {
    shmem_double_max_to_all((double*)c->remote, (double*)c->local, (int)(c->bytes / 8), 0, 0, 2, c->work,
                            sync_words[c->turn]);
}
static const Row collectives[] = {{"broadcast", do_broadcast},    {"collect", do_collect},
                                  {"fcollect", do_fcollect},      {"alltoall", do_alltoall},
                                  {"reduce_sum", do_reduce_long}, {"reduce_max", do_reduce_double}};

/* The slower one of the two PEs, on PE 0. */
static double slower(double own) {
    if (shmem_my_pe() == 1) {
        shmem_double_p(&slowest, own, 0);
    }
    shmem_barrier_all();
    return shmem_my_pe() == 0 && slowest > own ? slowest : own;
}

static void measure_collective(const Row* row, Call call) {
    const int count = call.bytes <= 4096 ? 300 : call.bytes <= 65536 ? 60 : 10;
    double least = 1e18;
    for (int batch = 0; batch < batches; batch++) {
        double total = 0;
        for (int i = 0; i < count; i++) {
            call.turn = i & 1;
            shmem_barrier_all();
            const double begin = now_ns();
            row->operation(&call);
            total += now_ns() - begin;
        }
        const double each = slower(total / count);
        least = each < least ? each : least;
        shmem_barrier_all();
    }
    report(row->name, call.bytes, least);
}

static void do_barrier_all(const Call* c) { (void)c, shmem_barrier_all(); }
static void do_sync_all(const Call* c) { (void)c, shmem_sync_all(); }
static void do_barrier(const Call* c) { shmem_barrier(0, 0, 2, sync_words[c->turn]); }
static void do_ping_pong(const Call* c) {
    const int me = shmem_my_pe();
    long* const flag = (long*)c->remote;
    const long wanted = *(long*)c->local + 1;
    if (me == 0) {
        shmem_long_p(flag, wanted, 1);
    }
    shmem_long_wait_until(flag, SHMEM_CMP_GE, wanted);
    if (me == 1) {
        shmem_long_p(flag, wanted, 0);
    }
    *(long*)c->local = wanted;
}
static void do_contended_lock(const Call* c) {
    (void)c;
    shmem_set_lock(&lock);
    ++word;
    shmem_clear_lock(&lock);
}
static const Row meetings[] = {{"barrier_all", do_barrier_all},
                               {"sync_all", do_sync_all},
                               {"barrier_set", do_barrier},
                               {"ping_pong", do_ping_pong},
                               {"lock_contended", do_contended_lock}};

/* Calls that follow each other without anything between them. */
static void measure_meeting(const Row* row, Call call, int count) {
    double least = 1e18;
    for (int batch = 0; batch < batches; batch++) {
        memset(call.local, 0, sizeof(long));
        memset(call.remote, 0, sizeof(long));
        shmem_barrier_all();
        const double begin = now_ns();
        for (int i = 0; i < count; i++) {
            call.turn = i & 1;
            row->operation(&call);
        }
        const double each = (now_ns() - begin) / count;
        least = each < least ? each : least;
        shmem_barrier_all();
    }
    report(row->name, call.bytes, row->operation == do_ping_pong ? least / 2 : least);
}

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

static void measure_all(Call call) {
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        call.bytes = 8;
        measure_one_sided(&words[i], call);
    }
    for (size_t i = 0; i < COUNT_OF(meetings); i++) {
        call.bytes = 0;
        measure_meeting(&meetings[i], call, 3000);
    }
    for (size_t i = 0; i < COUNT_OF(transfers); i++) {
        for (size_t s = 0; s < COUNT_OF(sizes); s++) {
            call.bytes = sizes[s];
            measure_one_sided(&transfers[i], call);
        }
    }
    for (size_t i = 0; i < COUNT_OF(collectives); i++) {
        for (size_t s = 0; s < COUNT_OF(sizes) && sizes[s] <= LARGEST_COLLECTIVE; s++) {
            call.bytes = sizes[s];
            measure_collective(&collectives[i], call);
        }
    }
}

int main(int argc, char** argv) {
    shmem_init();
    const char* const what = argc > 1 ? argv[1] : "all";
    batches = argc > 2 ? atoi(argv[2]) : batches;
    const bool is_all = strcmp(what, "all") == 0;
    if ((!is_all && strcmp(what, "barrier") != 0) || batches < 1 || (is_all && shmem_n_pes() != 2)) {
        fprintf(stderr, "node_operations: error: expected `all` (with 2 PEs) or `barrier`, and at least 1 batch\n");
        shmem_global_exit(2);
    }
    Call call = {.bytes = 0};
    call.remote = shmem_malloc(LARGEST);
    call.local = shmem_malloc(LARGEST);
    call.work = shmem_malloc(LARGEST_COLLECTIVE + SHMEM_REDUCE_MIN_WRKDATA_SIZE * sizeof(long));
    if (call.remote == NULL || call.local == NULL || call.work == NULL) {
        fprintf(stderr, "node_operations: error: the symmetric heap has no room for %d MiB\n", 3 * LARGEST >> 20);
        shmem_global_exit(2);
    }
    memset(call.remote, 0, LARGEST);
    memset(call.local, 0, LARGEST);
    for (size_t i = 0; i < sizeof sync_words / sizeof(long); i++) {
        (&sync_words[0][0])[i] = SHMEM_SYNC_VALUE;
    }
    shmem_barrier_all();
    if (is_all) {
        measure_all(call);
    } else {
        measure_meeting(&meetings[0], call, 200);
    }
    shmem_barrier_all();
    shmem_free(call.work);
    shmem_free(call.local);
    shmem_free(call.remote);
    shmem_finalize();
    return 0;
}
