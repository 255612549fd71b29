/* Wrong calls, one per name, for SHMEM_FT_CHECK: `wrong_calls NAME...` makes them one after the other, and PE 1 is the
 * one who is wrong. With `wrong_calls --level LEVEL NAME...` the thread level is another one than FUNNELED. What each
 * of them must be told is in checking_test.py. Calls that go on under `warn` do no harm: they read too much, or write
 * into the padding of a block. */
#include <poll.h>
#include <pthread.h>
#include <shmem.h>
#include <shmem_ft.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 100, ODD_BYTES = 799 };

static long buffer[4 * WORDS];
static long flag;
static long unheld_lock, held_lock;
static long sync_array[SHMEM_SYNC_SIZE];
static uint64_t signal_words[2];

static long* words;  /* WORDS of them */
static long* others; /* as many again */
static char* odd;    /* ODD_BYTES */
static long* freed;  /* given back */
static long local[4 * WORDS] SHMEM_FT_PRIVATE;
static int me;

static bool is_wrong(void) { return me == 1; }
static void* address(const void* base, long bytes) { return (char*)base + bytes; }

/* ---- addresses ---- */

static void put_end(void) { shmem_putmem(odd, local, ODD_BYTES + 1, 0); }
static void get_end(void) { shmem_long_get(local, words, WORDS + 1, 0); }
static void source_end(void) { shmem_long_put(buffer, words + 50, 51, 0); }
static void iget_end(void) { shmem_long_iget(local, words, 1, 2, 51, 0); }
static void ibget_end(void) { shmem_long_ibget(local, words, 10, 31, 10, 4, 0); }
static void globals_end(void) {
    char here[8];
    shmem_getmem(here, buffer, (size_t)1 << 40, 0);
}
static void too_many(void) { shmem_long_get(local, words, SIZE_MAX / 2, 0); }
static void in_freed(void) { (void)shmem_long_g(freed, 0); }
static void atomic_in_freed(void) { (void)shmem_long_atomic_fetch(freed, 0); }
static void in_no_block(void) { (void)shmem_long_g(words + WORDS, 0); }
static void misaligned(void) { shmem_get64(local, address(words, 4), 2, 0); }
static void misaligned_local(void) { shmem_get64(address(local, 4), words, 2, 0); }
static void overlap(void) { shmem_long_put(words, words, 2, me); }
static void overlap_window(void) { shmem_long_get(shmem_ptr(words, 0), words, 2, 0); }
static void overlap_signal(void) {
    shmem_uint64_put_signal(signal_words, (uint64_t*)local, 2, &signal_words[1], 0, SHMEM_SIGNAL_SET, 0);
}
static void stride_zero(void) { shmem_long_iget(local, words, 0, 1, 2, 0); }
static void stride_negative(void) { shmem_long_iget(local, words + 5, 1, -1, 2, 0); }
static void stride_small(void) { shmem_long_ibget(local, words, 2, 4, 4, 2, 0); }
static void null_dest(void) { shmem_long_put(NULL, local, 3, 0); }
static void null_source(void) { shmem_int_put((int*)words, NULL, 3, 0); }
static void null_fetch(void) { shmem_long_atomic_fetch_nbi(NULL, words, 0); }
static void private_dest(void) {
    long here = 0;
    shmem_long_p(&here, 1, 0);
}
static void private_atomic(void) {
    long here = 0;
    shmem_long_atomic_add(&here, 1, 0);
}
static void window_dest(void) { shmem_long_p(shmem_ptr(words, 0), 1, 0); }
static void private_signal(void) {
    uint64_t here = 0;
    shmem_signal_set(&here, 1, 0);
}
static void signal_operation(void) {
    shmem_uint64_put_signal(signal_words, (uint64_t*)local, 1, &signal_words[1], 0, 7, 0);
}
static void bad_pe(void) { shmem_long_p(words, 1, 99); }
static void negative_pe(void) { (void)shmem_long_atomic_fetch(words, -1); }

/* ---- waits ---- */

static void private_wait(void) {
    long here = 0;
    shmem_long_wait_until(&here, SHMEM_CMP_EQ, 0);
}
static void test_freed(void) { (void)shmem_long_test(freed, SHMEM_CMP_GE, 0); }
static void comparison(void) { shmem_long_wait_until(&flag, 77, 0); }
static void null_indices(void) { (void)shmem_long_test_some(words, 2, NULL, NULL, SHMEM_CMP_EQ, 0); }
static void wait_end(void) { (void)shmem_long_test_any(words + 99, 2, NULL, SHMEM_CMP_GE, 0); }

/* ---- handles and locks ---- */

static shmem_ctx_t made_context(long options) {
    shmem_ctx_t context = SHMEM_CTX_INVALID;
    if (shmem_ctx_create(options, &context) != 0) {
        shmem_global_exit(2);
    }
    return context;
}
static shmem_ctx_t destroyed_context(void) {
    shmem_ctx_t context = made_context(0);
    shmem_ctx_destroy(context);
    return context;
}
static void dead_context(void) { shmem_ctx_long_p(destroyed_context(), words, 1, 0); }
static void quiet_dead_context(void) { shmem_ctx_quiet(destroyed_context()); }
static void destroy_default(void) { shmem_ctx_destroy(SHMEM_CTX_DEFAULT); }
static void* use_context(void* context) {
    shmem_ctx_long_p(*(shmem_ctx_t*)context, words, 1, 0);
    return NULL;
}
static void in_thread(void* (*work)(void*), void* argument) {
    pthread_t thread;
    pthread_create(&thread, NULL, work, argument);
    pthread_join(thread, NULL);
}
static void private_context(void) { /* level SERIALIZED */
    shmem_ctx_t context = made_context(SHMEM_CTX_PRIVATE);
    in_thread(use_context, &context);
    shmem_ctx_destroy(context);
}
static void left_context(void) { (void)made_context(SHMEM_CTX_PRIVATE); }
static void quiet_pe(void) {
    const int pes[2] = {0, 99};
    shmem_pe_quiet(pes, 2);
}
static void destroy_world(void) { shmem_team_destroy(SHMEM_TEAM_WORLD); }
static void clear_unheld(void) { shmem_clear_lock(&unheld_lock); }
static void set_twice(void) {
    shmem_set_lock(&held_lock);
    shmem_set_lock(&held_lock);
}
static void test_held(void) {
    shmem_set_lock(&held_lock);
    (void)shmem_test_lock(&held_lock);
    shmem_clear_lock(&held_lock);
}

/* ---- threads ---- */

static void* call_my_pe(void* unused) {
    (void)unused;
    (void)shmem_my_pe();
    return NULL;
}
static void* call_barrier(void* unused) {
    (void)unused;
    shmem_quiet();
    return NULL;
}
static void* call_put(void* unused) {
    (void)unused;
    shmem_long_p(words, 1, 0);
    return NULL;
}
static void thread_query(void) { in_thread(call_my_pe, NULL); }
static void thread_quiet(void) { in_thread(call_barrier, NULL); }
static void thread_put(void) { in_thread(call_put, NULL); }
static void* wait_for_flag(void* unused) {
    (void)unused;
    shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
    return NULL;
}
static void two_at_once(void) { /* level SERIALIZED */
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_flag, NULL);
    poll(NULL, 0, 300); /* nobody can tell when the other thread has come into its call */
    shmem_long_atomic_set(&flag, 1, me);
    pthread_join(thread, NULL);
}

/* ---- the heap: all PEs call ---- */

static void free_twice(void) { shmem_free(freed); }
static void free_middle(void) { shmem_free(words + 1); }
static void free_private(void) { shmem_free(local); }
static void free_differs(void) { shmem_free(is_wrong() ? (void*)words : (void*)odd); }
static void malloc_differs(void) { (void)shmem_malloc(is_wrong() ? 16 : 8); }
static void align_differs(void) { (void)shmem_align(is_wrong() ? 64 : 128, 8); }
static void align_odd(void) { (void)shmem_align(24, 8); }

/* ---- collective calls: all PEs call ---- */

static void count_differs(void) { shmem_long_fcollect(SHMEM_TEAM_WORLD, buffer, words, is_wrong() ? 2 : 1); }
static void dest_differs(void) { shmem_long_broadcast(SHMEM_TEAM_WORLD, is_wrong() ? words + 8 : words, buffer, 1, 0); }
static void source_differs(void) { shmem_long_sum_reduce(SHMEM_TEAM_WORLD, buffer, is_wrong() ? words + 8 : words, 1); }
static void root_differs(void) { shmem_long_broadcast(SHMEM_TEAM_WORLD, words, buffer, 1, is_wrong() ? 1 : 0); }
static void stride_differs(void) { shmem_long_alltoalls(SHMEM_TEAM_WORLD, buffer, words, is_wrong() ? 2 : 1, 1, 2); }
static void bad_root(void) { shmem_long_broadcast(SHMEM_TEAM_WORLD, words, buffer, 1, 5); }
static void type_differs(void) {
    if (is_wrong()) {
        shmem_int_fcollect(SHMEM_TEAM_WORLD, (int*)buffer, (int*)words, 1);
    } else {
        shmem_long_fcollect(SHMEM_TEAM_WORLD, buffer, words, 1);
    }
}
static void routine_differs(void) {
    if (is_wrong()) {
        shmem_sync_all();
    } else {
        shmem_barrier_all();
    }
}
static void finalize_differs(void) {
    if (is_wrong()) {
        shmem_barrier_all();
    }
}
static void checkpoint_differs(void) {
    if (is_wrong()) {
        (void)shmem_checkpoint_all();
    } else {
        shmem_barrier_all();
    }
}
static void team_differs(void) {
    shmem_team_t both = SHMEM_TEAM_INVALID;
    shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 2, NULL, 0, &both);
    if (me < 2) {
        shmem_team_sync(is_wrong() ? SHMEM_TEAM_WORLD : both);
    }
}
static void split_differs(void) {
    shmem_team_t team = SHMEM_TEAM_INVALID;
    shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, is_wrong() ? 1 : 2, NULL, 0, &team);
}
static void dead_team(void) {
    shmem_team_t team = SHMEM_TEAM_INVALID;
    shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, shmem_n_pes(), NULL, 0, &team);
    shmem_team_destroy(team);
    if (is_wrong()) {
        (void)shmem_team_my_pe(team);
    }
}
static void team_with_context(void) {
    shmem_team_t team = SHMEM_TEAM_INVALID;
    shmem_ctx_t context = SHMEM_CTX_INVALID;
    shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, shmem_n_pes(), NULL, 0, &team);
    if (is_wrong()) {
        shmem_team_create_ctx(team, SHMEM_CTX_PRIVATE, &context);
    }
    shmem_team_destroy(team);
}
static void gather_end(void) { shmem_long_fcollect(SHMEM_TEAM_WORLD, others, words, WORDS); }
static void gather_overlap(void) { shmem_long_fcollect(SHMEM_TEAM_WORLD, words, words, 2); }
static void reduce_overlap(void) { shmem_long_sum_reduce(SHMEM_TEAM_WORLD, words + 1, words, 2); }
static void reduce_private(void) {
    const long here[2] = {0, 0};
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, buffer, here, 2);
}
static void sync_unset(void) {
    sync_array[3] = is_wrong() ? 5 : SHMEM_SYNC_VALUE;
    shmem_barrier(0, 0, shmem_n_pes(), sync_array);
    sync_array[3] = SHMEM_SYNC_VALUE;
}
static void outside_set(void) { shmem_barrier(0, 1, 2, sync_array); }
static void outside_set_sum(void) { shmem_long_sum_to_all(buffer, words, 1, 0, 1, 2, others, sync_array); }
static void sync_private(void) {
    long here[SHMEM_BCAST_SYNC_SIZE] = {0};
    shmem_broadcast64(buffer, words, 1, 0, 0, 0, shmem_n_pes(), here);
}

typedef struct {
    const char* name;
    void (*run)(void);
    bool is_collective;
} Case;

#define ALONE(name) \
    { #name, name, false }
#define TOGETHER(name) \
    { #name, name, true }
static const Case kCases[] = {
    ALONE(put_end),
    ALONE(get_end),
    ALONE(source_end),
    ALONE(iget_end),
    ALONE(ibget_end),
    ALONE(globals_end),
    ALONE(too_many),
    ALONE(in_freed),
    ALONE(atomic_in_freed),
    ALONE(in_no_block),
    ALONE(misaligned),
    ALONE(misaligned_local),
    ALONE(overlap),
    ALONE(overlap_window),
    ALONE(overlap_signal),
    ALONE(stride_zero),
    ALONE(stride_negative),
    ALONE(stride_small),
    ALONE(null_dest),
    ALONE(null_source),
    ALONE(null_fetch),
    ALONE(private_dest),
    ALONE(private_atomic),
    ALONE(window_dest),
    ALONE(private_signal),
    ALONE(signal_operation),
    ALONE(bad_pe),
    ALONE(negative_pe),
    ALONE(private_wait),
    ALONE(test_freed),
    ALONE(comparison),
    ALONE(null_indices),
    ALONE(wait_end),
    ALONE(dead_context),
    ALONE(quiet_dead_context),
    ALONE(destroy_default),
    ALONE(private_context),
    ALONE(left_context),
    ALONE(quiet_pe),
    ALONE(destroy_world),
    ALONE(clear_unheld),
    ALONE(set_twice),
    ALONE(test_held),
    ALONE(thread_query),
    ALONE(thread_quiet),
    ALONE(thread_put),
    ALONE(two_at_once),
    ALONE(outside_set),
    ALONE(outside_set_sum),
    TOGETHER(free_twice),
    TOGETHER(free_middle),
    TOGETHER(free_private),
    TOGETHER(free_differs),
    TOGETHER(malloc_differs),
    TOGETHER(align_differs),
    TOGETHER(align_odd),
    TOGETHER(count_differs),
    TOGETHER(dest_differs),
    TOGETHER(source_differs),
    TOGETHER(root_differs),
    TOGETHER(stride_differs),
    TOGETHER(bad_root),
    TOGETHER(type_differs),
    TOGETHER(routine_differs),
    TOGETHER(finalize_differs),
    TOGETHER(checkpoint_differs),
    TOGETHER(team_differs),
    TOGETHER(split_differs),
    TOGETHER(dead_team),
    TOGETHER(team_with_context),
    TOGETHER(gather_end),
    TOGETHER(gather_overlap),
    TOGETHER(reduce_overlap),
    TOGETHER(reduce_private),
    TOGETHER(sync_unset),
    TOGETHER(sync_private),
};

static void run(const char* name) {
    for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
        if (strcmp(kCases[i].name, name) == 0) {
            if (kCases[i].is_collective || is_wrong()) {
                kCases[i].run();
            }
            return;
        }
    }
    fprintf(stderr, "wrong_calls: no such name: %s\n", name);
    shmem_global_exit(2);
}

int main(int argc, char** argv) {
    int first = 1;
    int level = SHMEM_THREAD_FUNNELED;
    if (argc > 2 && strcmp(argv[1], "--level") == 0) {
        level = atoi(argv[2]);
        first = 3;
    }
    int provided = -1;
    if (shmem_init_thread(level, &provided) != 0) {
        return 2;
    }
    me = shmem_my_pe();
    words = shmem_calloc(WORDS, sizeof *words);
    others = shmem_calloc(WORDS, sizeof *others);
    odd = shmem_malloc(ODD_BYTES);
    freed = shmem_calloc(WORDS, sizeof *freed);
    shmem_free(freed);
    for (int i = first; i < argc; i++) {
        run(argv[i]);
        if (strcmp(argv[i], "finalize_differs") != 0) {
            shmem_barrier_all();
        }
    }
    shmem_finalize();
    return 0;
}
