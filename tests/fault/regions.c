/* A fault that is met inside a team of threads, of which only the first one has a rollback point: a parallel region of
 * OpenMP, or with -DWITH_PTHREADS threads of the program's own. Nothing may jump out of there; the jump comes behind
 * it.
 *
 *     regions [--kill] [--threads N] [--steps N]
 *
 * In each step every thread waits for a number from PE 1, which with --kill dies in step 3 while all others wait. */
#include "apps/app_support.h"
#ifdef WITH_PTHREADS
#include <pthread.h>
#else
#include <omp.h>
#endif

static const char kProgram[] = "regions";

enum { FATAL_STEP = 3, DELAY_MS = 100, VICTIM = 1, THREADS_MAX = 8 };

/* Symmetric state. */
static long step;
static long numbers[THREADS_MAX]; /* from the victim, one for each thread */
static uint64_t sums[THREADS_MAX];

/* Of this process. */
static int n_threads SHMEM_FT_PRIVATE = 3;
static bool may_die SHMEM_FT_PRIVATE;
static bool is_inside SHMEM_FT_PRIVATE; /* the first thread is in the region */
static int n_left SHMEM_FT_PRIVATE;     /* threads that have come to the end of it */

static void work(int thread) {
    if (shmem_my_pe() == VICTIM) {
        if (may_die && step == FATAL_STEP) {
            app_sleep_ms(DELAY_MS);
            raise(SIGKILL);
        }
        for (int pe = 0; pe < shmem_n_pes(); pe++) {
            shmem_long_p(&numbers[thread], step + 1, pe);
        }
    }
    shmem_long_wait_until(&numbers[thread], SHMEM_CMP_GE, step + 1);
    sums[thread] = app_hash_number(sums[thread], (uint64_t)(numbers[thread] * (thread + 1)));
    __atomic_add_fetch(&n_left, 1, __ATOMIC_RELAXED);
}

#ifdef WITH_PTHREADS
static void* run_thread(void* number) {
    work((int)(intptr_t)number);
    return NULL;
}

static void run_team(void) {
    pthread_t threads[THREADS_MAX];
    for (int i = 0; i < n_threads; i++) {
        if (pthread_create(&threads[i], NULL, run_thread, (void*)(intptr_t)i) != 0) {
            app_fail(kProgram, "no thread to be had");
        }
    }
    for (int i = 0; i < n_threads; i++) {
        pthread_join(threads[i], NULL);
    }
}
#else
static void run_team(void) {
#pragma omp parallel num_threads(n_threads)
    {
        if (omp_get_level() != 1 || omp_get_num_threads() != n_threads) {
            app_fail(kProgram, "the region is another one than it should be");
        }
        work(omp_get_thread_num());
    }
}
#endif

static void compute_step(void) {
    n_left = 0;
    is_inside = true;
    run_team();
    is_inside = false;
    if (n_left != n_threads) {
        app_fail(kProgram, "threads are missing at the end of the region");
    }
    shmem_barrier_all(); /* the jump comes here */
    step++;
}

int main(int argc, char** argv) {
    int provided = 0;
    if (shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) != 0 || provided != SHMEM_THREAD_MULTIPLE) {
        app_fail(kProgram, "no SHMEM_THREAD_MULTIPLE");
    }
    bool is_killed = false;
    unsigned long threads = 3, steps = 8;
    const AppOption table[] = {
        {.name = "kill", .help = "PE 1 dies in step 3", .flag = &is_killed},
        {.name = "threads", .help = "of the region", .number = &threads, .minimum = 1, .maximum = THREADS_MAX},
        {.name = "steps", .help = "steps", .number = &steps, .minimum = 1, .maximum = 1000000},
        {.name = NULL},
    };
    const AppCommandLine line = app_parse(argc, argv, table);
    app_stop_on_error(kProgram, line.error);
    n_threads = (int)threads;
    const bool is_substitute = !shmem_ft_algo_init();
    may_die = is_killed && !is_substitute;
    volatile int jumps = 0;

    shmem_ft_on_fault(SHMEM_FT_ON_FAULT_JUMP, NULL, NULL);
    if (SHMEM_FT_ROLLBACK_POINT()) {
        jumps = jumps + 1;
        if (is_inside) {
            app_fail(kProgram, "a call has jumped out of the region");
        }
        app_recover();
    }
    while (step < (long)steps) {
        shmem_checkpoint_all();
        compute_step();
    }
    shmem_checkpoint_all();
    if (may_die && jumps != 1) {
        app_fail(kProgram, "has not jumped once");
    }
    uint64_t sum = APP_HASH_START;
    for (int i = 0; i < n_threads; i++) {
        sum = app_hash_number(sum, sums[i]);
    }
    printf("result %d %016llx\n", shmem_my_pe(), (unsigned long long)sum);
    fflush(stdout);
    shmem_finalize();
    return 0;
}
