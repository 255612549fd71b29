/* The first program of the README: every PE adds to its right neighbour's counter, once per step, and the job
 * survives the death of any of them. */
#include <shmem.h>
#include <shmem_ft.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 20 };
long counter; /* globals are symmetric memory: other PEs reach them, checkpoints save them */
int step;

int main(void) {
    shmem_init(); /* spares sleep in here until they are needed */
    do {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) { /* somebody died: replace it and roll back */
            int *pes, *status;
            size_t numpes;
            shmem_query_fault(&pes, &status, &numpes);
            shmem_restart_pes(pes, numpes);
            shmem_barrier_all();
            free(pes);
            free(status);
        } else if (++step <= STEPS) {
            shmem_long_atomic_add(&counter, step, (shmem_my_pe() + 1) % shmem_n_pes());
        }
    } while (step <= STEPS); /* one checkpoint more than steps: the last step is safe, too */
    printf("PE %d of %d counted to %ld\n", shmem_my_pe(), shmem_n_pes(), counter);
    shmem_finalize();
    return 0;
}
