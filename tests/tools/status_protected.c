/* Says what shmem_ft_protected() returns, phase by phase, and stays in each phase until the test lets it go on: after
 * "protected N" it waits for a file with the name of the phase in the folder that is its argument. Phase 0 is before
 * the first checkpoint; a phase that a PE has died in is followed by the recovery. */
#include <poll.h>
#include <shmem.h>
#include <shmem_ft.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static long phase;

static void stay(const char* folder) {
    char path[4096];
    printf("PE %d phase %ld protected %d\n", shmem_my_pe(), phase, shmem_ft_protected());
    fflush(stdout);
    snprintf(path, sizeof path, "%s/%ld", folder, phase);
    while (access(path, F_OK) != 0) {
        poll(NULL, 0, 10);
    }
}

int main(int argc, char** argv) {
    enum { PHASES = 4 };
    if (argc != 2) {
        return 2;
    }
    shmem_init();
    if (shmem_ft_algo_init()) {
        stay(argv[1]);
        phase = 1;
    }
    while (phase < PHASES) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            int *pes, *status;
            size_t numpes;
            shmem_query_fault(&pes, &status, &numpes);
            shmem_restart_pes(pes, numpes);
            free(pes);
            free(status);
        } else {
            stay(argv[1]);
            phase++;
        }
    }
    shmem_checkpoint_all();
    shmem_finalize();
    return 0;
}
