/* A PE dies while all others sit in a call that only it could end. They must come back from it soon, repair the
 * damage and reach the right result.
 *
 *     blocked --mode NAME --how NAME [--victim PE]
 *
 * In step 3 the victim sleeps a while, so that the others are surely inside the call, and then dies by its own hand.
 * Its substitute does its part of the step as if nothing had been. Some modes have no step to repeat (before the
 * first checkpoint, in finalize): there the job must end with an error, see cases.py. */
#include "apps/app_support.h"

static const char kProgram[] = "blocked";

enum { STEPS = 6, FATAL_STEP = 3, WORDS = 16, PES_MAX = 16, DELAY_MS = 100, RETURN_MS_MAX = 2000, LONG_PUT = 1 << 15 };

/* Symmetric state. */
static unsigned long step;
static long flags[PES_MAX];
static long lock;
static long counter;
static long source[PES_MAX * WORDS], target[PES_MAX * WORDS];
static long sync_words[SHMEM_SYNC_SIZE];
static long work[PES_MAX * WORDS + SHMEM_REDUCE_MIN_WRKDATA_SIZE];
static long* big;
static uint64_t sum;

typedef struct {
    int me;
    int n_pes;
    int victim;
    const char* how;
    bool is_substitute;
} Local;

static void barrier_all(const Local* local) {
    (void)local;
    shmem_barrier_all();
}
static void sync_all(const Local* local) {
    (void)local;
    shmem_sync_all();
}
static void barrier(const Local* local) { shmem_barrier(0, 0, local->n_pes, sync_words); }
static void broadcast(const Local* local) {
    shmem_broadcast64(target, source, WORDS, local->victim, 0, 0, local->n_pes, sync_words);
}
static void reduce(const Local* local) {
    shmem_long_sum_to_all(target, source, WORDS, 0, 0, local->n_pes, work, sync_words);
}
static void fcollect(const Local* local) { shmem_fcollect64(target, source, WORDS, 0, 0, local->n_pes, sync_words); }
static void alltoall(const Local* local) { shmem_alltoall64(target, source, WORDS, 0, 0, local->n_pes, sync_words); }

/* The victim sets everybody's flag. */
static void set_flags(const Local* local) {
    if (local->me == local->victim) {
        for (int pe = 0; pe < local->n_pes; pe++) {
            shmem_long_p(&flags[local->me], (long)step + 1, pe);
        }
        shmem_quiet();
    }
}
static void wait_until(const Local* local) {
    set_flags(local);
    shmem_long_wait_until(&flags[local->victim], SHMEM_CMP_EQ, (long)step + 1);
}
static void test(const Local* local) {
    set_flags(local);
    while (!shmem_long_test(&flags[local->victim], SHMEM_CMP_EQ, (long)step + 1)) {
    }
}

/* Lost updates would show if two PEs were in at once. The victim dies holding the lock, see die_in_step. */
static void set_lock(const Local* local) {
    (void)local;
    shmem_set_lock(&lock);
    const long value = shmem_long_g(&counter, 0);
    shmem_long_p(&counter, value + 1, 0);
    shmem_quiet();
    shmem_clear_lock(&lock);
    shmem_barrier_all();
}

/* Long puts to the victim and quiets, for longer than it takes the victim to die. */
static void quiet(const Local* local) {
    for (int turn = 0; local->me != local->victim && turn < 200; turn++) {
        shmem_long_put_nbi(big, big, LONG_PUT, local->victim);
        shmem_quiet();
        app_sleep_ms(1);
    }
    shmem_barrier_all();
}

static void allocate(const Local* local) {
    (void)local;
    long* block = shmem_malloc(4096);
    if (block == NULL) {
        app_fail(kProgram, "shmem_malloc gave nothing");
        return;
    }
    shmem_free(block);
}

/* The victim does not come to the checkpoint which follows the step. */
static void checkpoint(const Local* local) { (void)local; }

typedef struct {
    const char* name;
    void (*run)(const Local* local);
} Mode;

static const Mode kModes[] = {
    {"barrier_all", barrier_all},
    {"sync_all", sync_all},
    {"barrier", barrier},
    {"broadcast", broadcast},
    {"reduce", reduce},
    {"fcollect", fcollect},
    {"alltoall", alltoall},
    {"wait_until", wait_until},
    {"test", test},
    {"set_lock", set_lock},
    {"quiet", quiet},
    {"allocate", allocate},
    {"checkpoint", checkpoint},
    {"before_first_commit", NULL},
    {"finalize", NULL},
};

/* The kernel shall end the process; UBSan would do it first, and say that it has found an error. */
__attribute__((no_sanitize("undefined"))) static void store_to_nowhere(void) {
    volatile int* volatile nowhere = NULL;
    *nowhere = 1;
}

static void die(const char* how) {
    if (strcmp(how, "none") == 0) { /* for the result to compare with */
        return;
    }
    app_sleep_ms(DELAY_MS);
    if (strcmp(how, "kill") == 0) {
        raise(SIGKILL);
    } else if (strcmp(how, "segv") == 0) {
        store_to_nowhere();
    } else if (strcmp(how, "abort") == 0) {
        abort();
    } else if (strcmp(how, "exit") == 0) {
        exit(APP_PEER_EXIT_CODE);
    } else if (strcmp(how, "exit0") == 0) {
        exit(0); /* not a good end either: shmem_finalize was not called */
    } else if (strcmp(how, "_exit") == 0) {
        _exit(APP_PEER_EXIT_CODE);
    }
    app_fail(kProgram, "--how: expected none, kill, segv, abort, exit, exit0 or _exit");
}

static long milliseconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void compute_step(const Mode* mode, const Local* local) {
    if (mode->run != NULL && step == FATAL_STEP && local->me == local->victim && !local->is_substitute) {
        const bool holds_lock = mode->run == set_lock && strcmp(local->how, "none") != 0;
        if (holds_lock) {
            shmem_set_lock(&lock);
        }
        die(local->how);
    }
    for (int i = 0; i < PES_MAX * WORDS; i++) {
        source[i] = (long)app_mix3(step, (uint64_t)local->me, (uint64_t)i) >> 16;
    }
    const long began = milliseconds_now();
    if (mode->run != NULL) {
        mode->run(local);
    }
    if (milliseconds_now() - began > DELAY_MS + RETURN_MS_MAX) {
        app_fail(kProgram, "the call did not return soon after the death");
    }
    sum = app_hash_number(app_hash(sum, target, sizeof target), step);
    sum = app_hash_number(sum, (uint64_t)flags[local->victim]);
    step++;
}

static void allocate_big(void) {
    big = shmem_calloc(LONG_PUT, sizeof *big);
    if (big == NULL) {
        app_fail(kProgram, "no symmetric memory");
    }
    for (int i = 0; i < SHMEM_SYNC_SIZE; i++) {
        sync_words[i] = SHMEM_SYNC_VALUE;
    }
}

static void run(const Mode* mode, const Local* local) {
    const bool dies_here = local->me == local->victim && !local->is_substitute;
    if (strcmp(mode->name, "before_first_commit") == 0 && dies_here) {
        die(local->how);
    }
    bool finished = false;
    do {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            app_recover();
        } else if (step < STEPS) {
            compute_step(mode, local);
        } else {
            finished = true;
        }
    } while (!finished);
    if (strcmp(mode->name, "finalize") == 0 && dies_here) {
        die(local->how);
    }
}

int main(int argc, char** argv) {
    shmem_init();
    const char* mode_name = "barrier_all";
    const char* how = "kill";
    unsigned long victim = 1;
    const AppOption table[] = {
        {.name = "mode", .help = "the call to be in", .text = &mode_name},
        {.name = "how", .help = "none, kill, segv, abort, exit, exit0, _exit", .text = &how},
        {.name = "victim", .help = "PE that dies", .number = &victim, .maximum = PES_MAX - 1},
        {.name = NULL},
    };
    AppCommandLine line = app_parse(argc, argv, table);
    const Mode* mode = NULL;
    for (size_t i = 0; i < sizeof kModes / sizeof kModes[0]; i++) {
        if (strcmp(kModes[i].name, mode_name) == 0) {
            mode = &kModes[i];
        }
    }
    if (mode == NULL || shmem_n_pes() > PES_MAX) {
        snprintf(line.error, sizeof line.error, "--mode %s with %d PEs: no such mode, or too many", mode_name,
                 shmem_n_pes());
    }
    app_stop_on_error(kProgram, line.error);

    Local local = {.me = shmem_my_pe(), .n_pes = shmem_n_pes(), .victim = (int)victim, .how = how};
    if (shmem_ft_algo_init()) {
        allocate_big();
    } else {
        local.is_substitute = true;
    }
    run(mode, &local);
    printf("result %d %016llx %ld\n", local.me, (unsigned long long)sum, counter);
    fflush(stdout);
    shmem_finalize();
    return 0;
}
