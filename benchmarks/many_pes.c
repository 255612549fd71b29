/* A job of many PEs that do next to nothing, for many_pes.py: each writes a page of its heap; with KILL that PE kills
 * itself behind the second checkpoint, and how long the recovery takes is printed.
 *
 *     many_pes [KILL] */
#include <shmem.h>
#include <shmem_ft.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int step;
static double begin_ms SHMEM_FT_PRIVATE; /* of the last checkpoint; 0 in a substitute */

static double now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

int main(int argc, char** argv) {
    shmem_init();
    const int victim = argc > 1 ? atoi(argv[1]) : -1;
    long* const page = shmem_malloc(4096);
    if (page == NULL) {
        fprintf(stderr, "many_pes: error: there is no page of heap\n");
        shmem_global_exit(2);
    }
    *page = shmem_my_pe();
    shmem_barrier_all();
    if (victim >= 0) {
        if (SHMEM_FT_ROLLBACK_POINT()) {
            shmem_ft_recover();
            if (shmem_my_pe() == 0 && begin_ms > 0) {
                printf("%.3f\n", now_ms() - begin_ms);
            }
            step = 4;
        }
        while (step < 4) {
            step++;
            shmem_barrier_all();
            begin_ms = now_ms();
            if (step == 3 && shmem_my_pe() == victim) {
                kill(getpid(), SIGKILL);
            }
            shmem_checkpoint_all();
        }
    }
    shmem_finalize();
    return 0;
}
