/* Every PE has several threads, and each of them is in calls of its own kind: collectives of one team, collectives and
 * splits of another one, signals and waits on a context of its own, a lock. A PE dies in the middle of all that.
 *
 *     threaded [--kill] [--jump] [--steps N] [--pace MS]
 *
 * With --kill PE 1 dies in step 3, when each of its threads has come to a place where the others cannot go on without
 * it, holding the lock. All threads of the others must come back from their calls soon, whether they return or, with
 * --jump, go to the rollback point of their thread. While the main thread recovers, they wait outside of OpenSHMEM. */
#include <pthread.h>

#include "apps/app_support.h"

static const char kProgram[] = "threaded";

enum {
    THREADS = 4,
    ROUNDS = 6,
    FATAL_STEP = 3,
    FATAL_ROUND = 3,
    VICTIM = 1,
    DELAY_MS = 100,
    RETURN_MS_MAX = 5000,
    PES_MAX = 16,
    WORDS = 24
};

/* Symmetric state. The handles as well: they are the same numbers in a substitute. */
static unsigned long step;
static uint64_t sums[THREADS];
static uint64_t sum;
static shmem_team_t same_team, reversed_team;
static long source[2][PES_MAX * WORDS], target[2][PES_MAX * WORDS];
static long letter[WORDS], answered;
static uint64_t letters;
static long lock, counter, visits;

/* Of the process. */
static pthread_barrier_t begin SHMEM_FT_PRIVATE, end SHMEM_FT_PRIVATE;
static pthread_t workers[THREADS] SHMEM_FT_PRIVATE;
static int numbers[THREADS] SHMEM_FT_PRIVATE;
static long jumps[THREADS] SHMEM_FT_PRIVATE;
static bool is_over SHMEM_FT_PRIVATE, may_die SHMEM_FT_PRIVATE, jumps_at_fault SHMEM_FT_PRIVATE;
static int fault_calls SHMEM_FT_PRIVATE;

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000L + now.tv_nsec / 1000000;
}

static long number_of(int pe, int thread, int round) {
    return (long)(app_mix3(step * ROUNDS + (unsigned long)round, (uint64_t)pe, (uint64_t)thread) >> 24);
}

/* All threads of the victim come here and stay; one of them ends it. */
static void die_in(int round, int thread) {
    if (may_die && step == FATAL_STEP && round == FATAL_ROUND && shmem_my_pe() == VICTIM) {
        app_sleep_ms(DELAY_MS);
        if (thread == 0) {
            raise(SIGKILL);
        }
        app_sleep_ms(10 * RETURN_MS_MAX);
    }
}

/* ---- what the threads do in a step ---- */

static void reduce_in_same_team(int round) {
    const int me = shmem_team_my_pe(same_team);
    for (int i = 0; i < WORDS; i++) {
        source[0][i] = number_of(me, 0, round) + i;
    }
    die_in(round, 0);
    shmem_long_sum_reduce(same_team, target[0], source[0], round % 2 == 0 ? WORDS : 3);
    sums[0] = app_hash(sums[0], target[0], 3 * sizeof target[0][0]);
    shmem_long_sum_exscan(same_team, target[0], source[0], 5);
    sums[0] = app_hash(sums[0], target[0], 5 * sizeof target[0][0]);
}

static void split_and_collect(int round) {
    const int me = shmem_team_my_pe(reversed_team), n_pes = shmem_team_n_pes(reversed_team);
    source[1][0] = number_of(me, 1, round);
    die_in(round, 1);
    shmem_long_fcollect(reversed_team, target[1], source[1], 1);
    sums[1] = app_hash(sums[1], target[1], (size_t)n_pes * sizeof target[1][0]);
    shmem_team_t part = SHMEM_TEAM_INVALID;
    shmem_team_split_strided(reversed_team, 0, 1, 1 + round % n_pes, NULL, 0, &part);
    if (part != SHMEM_TEAM_INVALID) {
        shmem_long_broadcast(part, target[1], source[1], 1, 0);
        sums[1] = app_hash(sums[1], target[1], sizeof target[1][0]);
        shmem_team_destroy(part);
    }
}

/* A letter to the next PE, which is answered when it has been read. */
static void write_letter(int round) {
    const int me = shmem_my_pe(), n_pes = shmem_n_pes(), left = (me + n_pes - 1) % n_pes;
    const uint64_t count = step * ROUNDS + (unsigned long)round + 1;
    shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;
    shmem_ctx_create(SHMEM_CTX_PRIVATE, &ctx);
    long words[WORDS];
    for (int i = 0; i < WORDS; i++) {
        words[i] = number_of(me, 2, round) + i;
    }
    die_in(round, 2);
    shmem_ctx_long_put_signal(ctx, letter, words, WORDS, &letters, count, SHMEM_SIGNAL_SET, (me + 1) % n_pes);
    shmem_signal_wait_until(&letters, SHMEM_CMP_EQ, count);
    sums[2] = app_hash(sums[2], letter, sizeof letter);
    shmem_ctx_long_atomic_set(ctx, &answered, (long)count, left);
    shmem_long_wait_until(&answered, SHMEM_CMP_EQ, (long)count);
    shmem_ctx_destroy(ctx);
}

/* The order in which the PEs get the lock is another one in each run, the sum is not. Nobody is a round ahead. */
static void add_behind_lock(int round) {
    shmem_long_wait_until(&visits, SHMEM_CMP_GE, (long)(step * ROUNDS + (unsigned long)round) * shmem_n_pes());
    shmem_set_lock(&lock);
    const long next = shmem_long_g(&counter, 0) + number_of(shmem_my_pe(), 3, round);
    die_in(round, 3);
    shmem_long_p(&counter, next, 0);
    shmem_clear_lock(&lock);
    if (round % 2 == 0) {
        while (shmem_test_lock(&lock) != 0) {
        }
        shmem_clear_lock(&lock);
    }
    for (int pe = 0; pe < shmem_n_pes(); pe++) {
        shmem_long_atomic_inc(&visits, pe);
    }
}

/* Any thread may ask. */
static void ask(void) {
    int* pes = NULL;
    int* status = NULL;
    size_t numpes = 0;
    shmem_query_fault(&pes, &status, &numpes);
    if ((numpes == 0) != (pes == NULL) || numpes > (size_t)shmem_n_pes() || shmem_ft_protected() < 0) {
        app_fail(kProgram, "an impossible list of failed PEs");
    }
    free(pes);
    free(status);
}

static void work(int thread) {
    static void (*const kWork[THREADS])(int) = {reduce_in_same_team, split_and_collect, write_letter, add_behind_lock};
    const long began_ms = now_ms();
    for (int round = 0; round < ROUNDS; round++) {
        kWork[thread](round);
    }
    ask();
    if (now_ms() - began_ms > RETURN_MS_MAX) {
        app_fail(kProgram, "a thread came back late");
    }
}

static void* run_worker(void* argument) {
    const int thread = *(int*)argument;
    for (;;) {
        pthread_barrier_wait(&begin);
        if (is_over) {
            return NULL;
        }
        if (jumps_at_fault && SHMEM_FT_ROLLBACK_POINT()) {
            jumps[thread]++;
        } else {
            work(thread);
        }
        pthread_barrier_wait(&end);
    }
}

/* ---- the main thread ---- */

static void on_fault(const char* routine, void* context) {
    (void)routine;
    __atomic_add_fetch((int*)context, 1, __ATOMIC_RELAXED);
}

static void start_workers(void) {
    pthread_barrier_init(&begin, NULL, THREADS + 1);
    pthread_barrier_init(&end, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        if (pthread_create(&workers[i], NULL, run_worker, &numbers[i]) != 0) {
            app_fail(kProgram, "no thread to be had");
        }
    }
}

static void end_workers(void) {
    is_over = true;
    pthread_barrier_wait(&begin);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i], NULL);
    }
}

static void compute_step(unsigned long pace_ms) {
    pthread_barrier_wait(&begin);
    pthread_barrier_wait(&end);
    shmem_barrier_all();
    for (int i = 0; i < THREADS; i++) {
        sum = app_hash_number(sum, sums[i]);
    }
    sum = app_hash_number(sum, (uint64_t)shmem_long_g(&counter, 0));
    app_sleep_ms(pace_ms);
    step++;
    shmem_barrier_all();
}

/* Each thread of the survivors has been where the others could not go on without the victim. */
static void check_reaction(bool was_killed) {
    for (int i = 0; i < THREADS && was_killed; i++) {
        if (jumps_at_fault && jumps[i] != 1) {
            app_fail(kProgram, "a thread has not jumped once");
        }
    }
    if (was_killed && !jumps_at_fault && fault_calls < THREADS) {
        app_fail(kProgram, "not all threads called the handler");
    }
}

int main(int argc, char** argv) {
    app_install_exit_signals();
    int provided = 0;
    if (shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) != 0 || provided != SHMEM_THREAD_MULTIPLE) {
        app_fail(kProgram, "no SHMEM_THREAD_MULTIPLE");
    }
    unsigned long steps = 8, pace_ms = 0;
    bool is_killed = false, has_jumps = false;
    const AppOption table[] = {
        {.name = "kill", .help = "PE 1 dies in step 3", .flag = &is_killed},
        {.name = "jump", .help = "to rollback points, instead of a handler", .flag = &has_jumps},
        {.name = "steps", .help = "steps", .number = &steps, .minimum = 1, .maximum = 1000000},
        {.name = "pace", .help = "milliseconds to idle per step", .number = &pace_ms, .maximum = 1000},
        {.name = NULL},
    };
    const AppCommandLine line = app_parse(argc, argv, table);
    app_stop_on_error(kProgram, line.error);
    jumps_at_fault = has_jumps;
    shmem_ft_on_fault(has_jumps ? SHMEM_FT_ON_FAULT_JUMP : SHMEM_FT_ON_FAULT_CALL, on_fault, &fault_calls);
    shmem_team_t same = SHMEM_TEAM_INVALID, reversed = SHMEM_TEAM_INVALID;
    shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, shmem_n_pes(), NULL, 0, &same);
    shmem_team_split_strided(SHMEM_TEAM_WORLD, shmem_n_pes() - 1, -1, shmem_n_pes(), NULL, 0, &reversed);
    const bool is_substitute = !shmem_ft_algo_init();
    if (!is_substitute) {
        same_team = same;
        reversed_team = reversed;
    }
    may_die = is_killed && !is_substitute;
    start_workers();

    bool finished = false;
    do {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            app_recover();
        } else if (step < steps) {
            app_leave_if_asked();
            compute_step(pace_ms);
        } else {
            finished = true;
        }
    } while (!finished);

    end_workers();
    check_reaction(may_die);
    printf("result %d %016llx %ld\n", shmem_my_pe(), (unsigned long long)sum, counter);
    fflush(stdout);
    shmem_finalize();
    return 0;
}
