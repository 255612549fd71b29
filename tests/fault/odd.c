/* A program that misbehaves in a way of its choice, while the job is to stay right or to say what is wrong with it.
 *
 *     odd --mode plain|exit|early|mismatch|stop|linger [--steps N] [--pace MS]
 *
 *   plain     does not; it says, like the others, which list of failed PEs it was given
 *   exit      PE 1 calls exit() in step 3 and never comes to its end, because an exit handler sleeps for ever
 *   early     every process changes memory of its neighbour as the first thing after shmem_init, also a substitute,
 *             which has not joined the others then
 *   mismatch  PE 1 takes a checkpoint where the others call shmem_finalize
 *   stop      PE 1 stops itself after shmem_finalize
 *   linger    PE 1 works on for three times the pace after shmem_finalize */
#include <signal.h>

#include "apps/app_support.h"

static const char kProgram[] = "odd";

enum { FATAL_STEP = 3, ODD_PE = 1, PES_MAX = 16 };

/* Symmetric state. */
static unsigned long step;
static long added, put[PES_MAX];
static long seen[PES_MAX];
static uint64_t sum;

static bool is_stuck_at_exit SHMEM_FT_PRIVATE;

static void sleep_for_ever(void) {
    while (is_stuck_at_exit) {
        pause();
    }
}

/* The first changes of the job; those of a substitute must not be seen anywhere. */
static void change_neighbour(void) {
    const int me = shmem_my_pe(), next = (me + 1) % shmem_n_pes();
    const long word = 1000 + me;
    shmem_long_atomic_add(&added, 1, next);
    shmem_long_put(&put[me], &word, 1, next);
    shmem_long_p(&put[next], -word, next);
    shmem_quiet();
}

static void recover(void) {
    int* pes = NULL;
    int* status = NULL;
    size_t numpes = 0;
    shmem_query_fault(&pes, &status, &numpes);
    for (size_t i = 0; i < numpes; i++) {
        char text[80];
        fprintf(stderr, "list of PE %d: PE %d kind %d (%s)\n", shmem_my_pe(), pes[i], shmem_ft_status_kind(status[i]),
                shmem_ft_status_text(status[i], text, sizeof text));
    }
    shmem_restart_pes(pes, numpes);
    free(pes);
    free(status);
}

static void compute_step(const char* mode, unsigned long pace_ms, bool is_substitute) {
    const int me = shmem_my_pe(), next = (me + 1) % shmem_n_pes();
    if (strcmp(mode, "exit") == 0 && me == ODD_PE && step == FATAL_STEP && !is_substitute) {
        is_stuck_at_exit = true;
        exit(APP_PEER_EXIT_CODE);
    }
    shmem_long_p(&seen[me], (long)(app_mix3(step, (uint64_t)me, 3) >> 20), next);
    shmem_barrier_all();
    sum = app_hash_number(app_hash(sum, seen, sizeof seen), (uint64_t)added);
    sum = app_hash(sum, put, sizeof put);
    app_sleep_ms(pace_ms);
    shmem_barrier_all();
    step++;
}

int main(int argc, char** argv) {
    atexit(sleep_for_ever); /* before shmem_init: such handlers run when the library has seen the exit */
    app_install_exit_signals();
    shmem_init();
    unsigned long steps = 40, pace_ms = 0;
    const char* mode = "plain";
    const AppOption table[] = {
        {.name = "mode", .help = "plain, exit, early, mismatch, stop or linger", .text = &mode},
        {.name = "steps", .help = "steps", .number = &steps, .minimum = 1, .maximum = 1000000},
        {.name = "pace", .help = "milliseconds to idle per step", .number = &pace_ms, .maximum = 1000},
        {.name = NULL},
    };
    AppCommandLine line = app_parse(argc, argv, table);
    if (strcmp(mode, "early") == 0) {
        change_neighbour();
    }
    app_stop_on_error(kProgram, line.error);
    const bool is_substitute = !shmem_ft_algo_init();

    bool finished = false;
    do {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            recover();
        } else if (step < steps) {
            app_leave_if_asked();
            compute_step(mode, pace_ms, is_substitute);
        } else {
            finished = true;
        }
    } while (!finished);

    if (strcmp(mode, "mismatch") == 0 && shmem_my_pe() == ODD_PE) {
        shmem_checkpoint_all();
    }
    printf("result %d %016llx %ld\n", shmem_my_pe(), (unsigned long long)sum, added);
    fflush(stdout);
    const bool is_odd = shmem_my_pe() == ODD_PE;
    shmem_finalize();
    if (is_odd && strcmp(mode, "stop") == 0) {
        raise(SIGSTOP);
    } else if (is_odd && strcmp(mode, "linger") == 0) {
        app_sleep_ms(3 * pace_ms);
    }
    return 0;
}
