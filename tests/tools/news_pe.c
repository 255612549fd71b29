/* A job of STEPS checkpoints that does on its way what its arguments say:
 *
 *   pace=MS      naps in each step
 *   crash        ends by SIGSEGV where a PE's state is in another process than the one that began with it
 *   child=CMD    PE 0 runs the command in step 3 and says how that ended
 */
#include <poll.h>
#include <shmem.h>
#include <shmem_ft.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 20 };
static long sum;
static int step;
static pid_t owner;

static void work(int argc, char** argv) {
    shmem_long_atomic_add(&sum, step, 0);
    if (step == 2) {
        printf("PE %d is %d\n", shmem_my_pe(), (int)getpid());
        fflush(stdout);
    }
    for (int i = 1; i < argc; ++i) {
        if (strncmp(argv[i], "pace=", 5) == 0) {
            poll(NULL, 0, atoi(argv[i] + 5));
        } else if (strcmp(argv[i], "crash") == 0 && owner != getpid()) {
            raise(SIGSEGV);
        } else if (strncmp(argv[i], "child=", 6) == 0 && shmem_my_pe() == 0 && step == 3) {
            const int status = system(argv[i] + 6);
            printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
            fflush(stdout);
        }
    }
}

int main(int argc, char** argv) {
    shmem_init();
    if (shmem_ft_algo_init()) {
        owner = getpid();
    }
    do {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            int *pes, *status;
            size_t numpes;
            shmem_query_fault(&pes, &status, &numpes);
            shmem_restart_pes(pes, numpes);
            free(pes);
            free(status);
        } else if (++step <= STEPS) {
            work(argc, argv);
        }
    } while (step <= STEPS);
    if (shmem_my_pe() == 0) {
        printf("sum %ld\n", sum);
    }
    shmem_finalize();
    return 0;
}
