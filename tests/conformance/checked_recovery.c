/* PE 1 dies after its heap, and who holds a lock, are no longer those of the last checkpoint. Afterwards right calls
 * are made to what has come back, which must get no line, and two wrong ones, which must get theirs on every PE. */
#include <shmem.h>
#include <shmem_ft.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { BEFORE = 100, AFTER = 10 };

static bool has_failed SHMEM_FT_PRIVATE;
static long lock, early_lock, value;
static long *first, *second;
static long local[BEFORE] SHMEM_FT_PRIVATE;

static void recover(void) {
    int* pes = NULL;
    int* status = NULL;
    size_t numpes = 0;
    shmem_query_fault(&pes, &status, &numpes);
    shmem_restart_pes(pes, numpes);
    free(pes);
    free(status);
    has_failed = true;
}

/* What a failed split leaves behind, while the fault is pending: it is dropped, and said nothing about. */
static void use_nothing(int me) {
    shmem_team_t team = SHMEM_TEAM_INVALID;
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;
    if (shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, shmem_n_pes(), NULL, 0, &team) == 0) {
        printf("PE %d has not seen the fault\n", me);
    }
    shmem_team_create_ctx(team, 0, &ctx);
    shmem_ctx_long_p(ctx, &value, 1, 0);
    shmem_ctx_long_atomic_add(ctx, &value, 1, 0);
    shmem_long_p(&value, 1, shmem_team_translate_pe(SHMEM_TEAM_WORLD, me, team));
    shmem_long_iput(&value, &value, 0, 0, 2, me);
}

int main(void) {
    int level = 0;
    shmem_init_thread(SHMEM_THREAD_SINGLE, &level);
    const int me = shmem_my_pe();
    /* The second time in a substitute, whose predecessor held the lock at the checkpoint. */
    if (me == 1) {
        shmem_set_lock(&early_lock);
    }
    first = shmem_calloc(AFTER, sizeof *first);
    second = shmem_calloc(BEFORE, sizeof *second);
    bool is_over = false;
    while (!is_over) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            recover();
            printf("PE %d went back\n", me);
        }
        if (has_failed) {
            /* The level is that of the checkpoint on all PEs; how calls for a team are compared depends on it. */
            shmem_query_thread(&level);
            if (level != SHMEM_THREAD_SINGLE || shmem_team_sync(SHMEM_TEAM_SHARED) != 0) {
                printf("PE %d has level %d\n", me, level);
            }
            shmem_long_get(local, second, BEFORE, (me + 1) % shmem_n_pes());   /* has come back */
            shmem_long_get(local, first, AFTER + 1, (me + 1) % shmem_n_pes()); /* one too many */
            shmem_clear_lock(&lock);                                           /* was set after the checkpoint */
            if (me == 1) {
                shmem_clear_lock(&early_lock);
            }
            is_over = true;
        } else {
            shmem_init_thread(SHMEM_THREAD_MULTIPLE, &level);
            shmem_free(second);
            second = shmem_malloc(AFTER * sizeof *second);
            if (me == 0) {
                shmem_set_lock(&lock);
            }
            shmem_barrier_all();
            if (me == 1) {
                raise(SIGKILL);
            }
            shmem_barrier_all();
            use_nothing(me);
        }
    }
    shmem_finalize();
    return 0;
}
