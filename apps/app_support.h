/* What the fault-tolerant programs share beside app_common.h: two signals that make a process end the way a faulty
 * program would, and the repair. Plain C11, everything static inline. */
#ifndef APPS_APP_SUPPORT_H
#define APPS_APP_SUPPORT_H

#include <shmem_ft.h>
#include <signal.h>
#include <unistd.h>

#include "apps/app_common.h"

enum { APP_PEER_EXIT_CODE = 3 };

/* How a program can be made to fail by "plain exit", for the tests: SIGUSR1 ends the process where it stands,
 * SIGUSR2 lets it leave through exit() at its next step. Private, because a request that was saved by a checkpoint
 * would kill every substitute of the PE once more. */
static volatile sig_atomic_t app_exit_requested SHMEM_FT_PRIVATE = 0;

static inline void app_on_exit_signal(int signal_number) {
    if (signal_number == SIGUSR1) {
        _exit(APP_PEER_EXIT_CODE);
    }
    app_exit_requested = 1;
}

static inline void app_install_exit_signals(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = app_on_exit_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
}

static inline void app_leave_if_asked(void) {
    if (app_exit_requested) {
        exit(APP_PEER_EXIT_CODE);
    }
}

/* The branch of the main loop in which a failure is repaired: ask who failed, replace them, roll back. */
static inline void app_recover(void) {
    int *pes = NULL;
    int *status = NULL;
    size_t numpes = 0;
    shmem_query_fault(&pes, &status, &numpes);
    if (numpes == 0) {
        app_fail("checkpoint", "not enough memory for the copies");
    }
    shmem_restart_pes(pes, numpes);
    shmem_barrier_all();
    free(pes);
    free(status);
}

#endif
