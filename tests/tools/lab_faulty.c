/* A program with the mistakes that the fault laboratory must find: it counts in memory that no checkpoint holds, so
 * after a recovery its answer is wrong. With an argument it prints something that differs from run to run. */
#include <shmem.h>
#include <shmem_ft.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { STEPS = 10 };

static int step;
static long total; /* on PE 0 */

int main(int argc, char** argv) {
    (void)argv;
    long mine = 0; /* on the stack: a rollback does not bring it back, a substitute begins at 0 */
    shmem_init();
    do {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            int* pes = NULL;
            int* status = NULL;
            size_t count = 0;
            shmem_query_fault(&pes, &status, &count);
            shmem_restart_pes(pes, count);
            shmem_barrier_all();
            free(pes);
            free(status);
        } else if (++step <= STEPS) {
            mine += step;
            if (step == STEPS) {
                shmem_long_atomic_add(&total, mine, 0);
                shmem_barrier_all();
            }
        }
    } while (step <= STEPS);
    if (shmem_my_pe() == 0) {
        printf("total %ld\n", total);
        if (argc > 1) {
            printf("pid %d\n", (int)getpid());
        }
    }
    shmem_finalize();
    return 0;
}
