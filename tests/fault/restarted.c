/* A program that looks at what its calls return, in a job that goes on from a stored version: what it is told there. */
#include <poll.h>
#include <shmem.h>
#include <shmem_ft.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 60, PAUSE_MS = 20 };

static long step;
static unsigned long long restored SHMEM_FT_PRIVATE;
static int n_restarted SHMEM_FT_PRIVATE;

static int hear(int event, unsigned long long version, void* context) {
    (void)context;
    if (event == SHMEM_FT_AFTER_RESTORE) {
        restored = version;
    }
    return 0;
}

static void recover(void) {
    int* pes;
    int* status;
    size_t count;
    shmem_query_fault(&pes, &status, &count);
    for (size_t i = 0; i < count; i++) {
        n_restarted += pes[i] == (int)i && shmem_ft_status_kind(status[i]) == SHMEM_FT_RESTARTED;
    }
    shmem_restart_pes(pes, count - 1); /* another list: refused, and nothing has changed */
    shmem_restart_pes(pes, count);
    free(pes);
    free(status);
}

int main(void) {
    shmem_init();
    shmem_ft_on_fault(SHMEM_FT_ON_FAULT_RETURN, NULL, NULL);
    shmem_ft_on_version(hear, NULL);
    while (step < STEPS) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            recover();
            continue;
        }
        step++;
        poll(NULL, 0, PAUSE_MS);
    }
    printf("result PE %d step %ld restored %llu of %d\n", shmem_my_pe(), step, restored, n_restarted);
    shmem_finalize();
    return 0;
}
