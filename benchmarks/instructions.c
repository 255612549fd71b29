/* How many instructions does one operation take? A measure that a busy machine does not change.
 *
 * One PE that works on itself, which is the same path as to another PE of the node. Each operation runs in a loop of
 * its own; instructions.py runs this program under callgrind, which writes the count of every loop under its name.
 */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <valgrind/callgrind.h>

enum { COUNT = 1000 };

static long word;
static uint64_t signal_word;

/* The body sees i. An empty loop is the first row; what it takes is subtracted from the others. */
#define MEASURE(NAME, ...)                     \
    do {                                       \
        CALLGRIND_TOGGLE_COLLECT;              \
        for (int i = 0; i < COUNT; i++) {      \
            __asm__ volatile("" ::: "memory"); \
            __VA_ARGS__;                       \
        }                                      \
        CALLGRIND_TOGGLE_COLLECT;              \
        CALLGRIND_DUMP_STATS_AT(NAME);         \
    } while (0)

static void measure(long* heap, long* local, shmem_ctx_t ctx) {
    volatile long sink = 0;
    MEASURE("empty", (void)0);
    MEASURE("my_pe", sink += shmem_my_pe());
    MEASURE("p", shmem_long_p(heap, i, 0));
    MEASURE("p_global", shmem_long_p(&word, i, 0));
    MEASURE("ctx_p", shmem_ctx_long_p(ctx, heap, i, 0));
    MEASURE("g", sink += shmem_long_g(heap, 0));
    MEASURE("put_1", shmem_long_put(heap, local, 1, 0));
    MEASURE("get_1", shmem_long_get(local, heap, 1, 0));
    MEASURE("put_nbi_1", shmem_long_put_nbi(heap, local, 1, 0));
    MEASURE("ctx_put_1", shmem_ctx_long_put(ctx, heap, local, 1, 0));
    MEASURE("putmem_64", shmem_putmem(heap, local, 64, 0));
    MEASURE("getmem_64", shmem_getmem(local, heap, 64, 0));
    MEASURE("iput_8", shmem_long_iput(heap, local, 2, 1, 8, 0));
    MEASURE("put_signal_1", shmem_long_put_signal(heap, local, 1, &signal_word, 1, SHMEM_SIGNAL_SET, 0));
    MEASURE("atomic_fetch", sink += shmem_long_atomic_fetch(heap, 0));
    MEASURE("atomic_set", shmem_long_atomic_set(heap, i, 0));
    MEASURE("atomic_inc", shmem_long_atomic_inc(heap, 0));
    MEASURE("atomic_fetch_add", sink += shmem_long_atomic_fetch_add(heap, i, 0));
    MEASURE("atomic_cswap", sink += shmem_long_atomic_compare_swap(heap, i, i, 0));
    MEASURE("atomic_fetch_nbi", shmem_long_atomic_fetch_nbi(local, heap, 0));
    MEASURE("wait_until", shmem_long_wait_until(&word, SHMEM_CMP_GE, 0));
    MEASURE("test", sink += shmem_long_test(&word, SHMEM_CMP_GE, 0));
    MEASURE("fence", shmem_fence());
    MEASURE("quiet", shmem_quiet());
    MEASURE("barrier_all", shmem_barrier_all());
    MEASURE("sync_all", shmem_sync_all());
    MEASURE("ptr", sink += shmem_ptr(heap, 0) != NULL);
}

int main(void) {
    shmem_init();
    long* const heap = shmem_malloc(4096);
    long* const local = calloc(512, sizeof(long));
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;
    if (shmem_n_pes() != 1 || heap == NULL || local == NULL || shmem_ctx_create(0, &ctx) != 0) {
        fprintf(stderr, "instructions: error: needs 1 PE and some memory\n");
        shmem_global_exit(2);
    }
    measure(heap, local, ctx); /* the linker resolves the routines in the first round */
    CALLGRIND_ZERO_STATS;
    measure(heap, local, ctx);
    shmem_ctx_destroy(ctx);
    free(local);
    shmem_free(heap);
    shmem_finalize();
    return 0;
}
