/* A fault that is pending for longer than ten seconds: PE 1 dies, and PE 0 spins in a loop around an atomic, which
 * nothing ends because calls return, while the others wait for it. */
#include "apps/app_support.h"

static const char kProgram[] = "pending";

enum { VICTIM = 1, SPIN_S = 11 };

static long step;
static long word; /* nobody sets it */

static void spin(void) {
    const time_t end = time(NULL) + SPIN_S + 1;
    while (shmem_long_atomic_fetch(&word, shmem_n_pes() - 1) == 0 && time(NULL) < end) {
    }
}

int main(void) {
    shmem_init();
    shmem_ft_on_fault(SHMEM_FT_ON_FAULT_RETURN, NULL, NULL);
    const bool is_substitute = !shmem_ft_algo_init();
    bool has_spun = is_substitute;
    while (step < 3) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            app_recover();
        } else {
            if (shmem_my_pe() == VICTIM && step == 1 && !is_substitute) {
                raise(SIGKILL);
            }
            shmem_barrier_all();
            if (shmem_my_pe() == 0 && step == 1 && !has_spun) {
                has_spun = true;
                spin();
            }
            step++;
        }
    }
    shmem_checkpoint_all();
    printf("result %s %d %ld\n", kProgram, shmem_my_pe(), step);
    fflush(stdout);
    shmem_finalize();
    return 0;
}
