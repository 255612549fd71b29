/* The loop behind the start-ups of these programs: steps with checkpoints, in which a PE dies where it is told to. */
#ifndef STARTUP_LOOP_H
#define STARTUP_LOOP_H

#include <shmem.h>
#include <shmem_ft.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static int loop_step;
static int loop_known, loop_told;

/* STARTUP_VICTIM="PE TIMES": that PE is killed, and so are TIMES - 1 of its substitutes. */
static inline void run_loop(int steps, void (*do_step)(void), void (*after_recovery)(void)) {
    int victim = -1;
    int times = 0;
    const char* const text = getenv("STARTUP_VICTIM");
    if (text != NULL && sscanf(text, "%d %d", &victim, &times) != 2) {
        fprintf(stderr, "STARTUP_VICTIM is not PE TIMES\n");
        shmem_global_exit(2);
    }
    int deaths = 0; /* which a substitute hears from the others */
    do {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            int *pes, *status;
            size_t count;
            shmem_query_fault(&pes, &status, &count);
            shmem_restart_pes(pes, count);
            free(pes);
            free(status);
            loop_known = deaths + 1;
            shmem_int_max_reduce(SHMEM_TEAM_WORLD, &loop_told, &loop_known, 1);
            deaths = loop_told;
            after_recovery();
        } else if (loop_step < steps) {
            loop_step++;
            if (shmem_my_pe() == victim && deaths < times && loop_step == 2 + deaths) {
                raise(SIGKILL);
            }
            do_step();
        }
    } while (loop_step < steps);
    shmem_barrier_all(); /* behind the last step of all */
    if (victim >= 0 && deaths != times) {
        fprintf(stderr, "PE %d knows of %d deaths, not %d\n", shmem_my_pe(), deaths, times);
        shmem_global_exit(3);
    }
}

#endif
