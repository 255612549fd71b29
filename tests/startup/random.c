/* A program whose beginning is drawn from a seed: calls of all families of routines, in loops and branches that depend
 * on what they bring. Everything that a PE learns goes into private variables. Then it takes checkpoints in a loop,
 * dies where it is told to, and compares after each recovery: its private variables, in a substitute those that it has
 * got by running through the beginning again, must equal what the PE had stored in its symmetric memory before the
 * first checkpoint.
 *
 *     random SEED [PE [TIMES]]    PE is killed in the loop, and TIMES - 1 of its substitutes
 */
#include <shmem.h>
#include <shmem_ft.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = 64, STEPS = 9, BLOCK = 8 };

/* Symmetric. */
static long box[WORDS]; /* written by others */
static long own[WORDS]; /* read by others, never written by them */
static long gathered[WORDS * 8];
static int flags[WORDS]; /* counted up by others, never reset */
static long tickets;     /* fetched and added by all */
static long lock;
static long guarded; /* changed under the lock, on PE 0 */
static uint64_t signals[4];
static double reals[BLOCK], sums[BLOCK];
static long sync_words[SHMEM_REDUCE_SYNC_SIZE > SHMEM_BCAST_SYNC_SIZE ? SHMEM_REDUCE_SYNC_SIZE : SHMEM_BCAST_SYNC_SIZE];
static long work_words[SHMEM_REDUCE_MIN_WRKDATA_SIZE + BLOCK];
static uint64_t remembered; /* what `learnt` was at the first checkpoint */
static int deaths_known, deaths_told;
static int step;

/* Private: on the stack of main and in these. */
static uint64_t learnt SHMEM_FT_PRIVATE;
static uint64_t common SHMEM_FT_PRIVATE; /* the same on all PEs: decides about collective calls */
static int flags_seen SHMEM_FT_PRIVATE;
static uint64_t signals_seen SHMEM_FT_PRIVATE;

static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t h = (a ^ b) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ (h >> 29);
}
static void learn(const void* data, size_t bytes) {
    const unsigned char* at = data;
    for (size_t i = 0; i < bytes; i++) learnt = mix(learnt, at[i]);
}
static void learn_word(uint64_t word) { learn(&word, sizeof word); }
/* By all alike, and by each for itself. */
static unsigned draw(unsigned n) {
    common = mix(common, 17);
    return (unsigned)(common >> 33) % n;
}
static unsigned draw_alone(unsigned n) {
    learnt = mix(learnt, 23);
    return (unsigned)(learnt >> 33) % n;
}
static int me, n;
static int next(void) { return (me + 1) % n; }
static int any_pe(void) { return (int)draw_alone((unsigned)n); }

static void fill_own(void) {
    for (int i = 0; i < WORDS; i++) own[i] = (long)(learnt >> 8) + i * 3 + me;
}

static void puts_and_loads(void) {
    const unsigned how = draw(5);
    const unsigned at = draw(WORDS - BLOCK);
    long values[BLOCK];
    shmem_barrier_all(); /* the last readers are gone */
    for (int i = 0; i < BLOCK; i++) values[i] = (long)draw_alone(1000) + i;
    switch (how) {
        case 0: shmem_long_p(&box[at], values[0], next()); break;
        case 1: shmem_long_put(&box[at], values, BLOCK, next()); break;
        case 2: shmem_long_iput(&box[at], values, 2, 1, BLOCK / 2, next()); break;
        case 3: shmem_putmem_nbi(&box[at], values, sizeof values, next()); break;
        default: shmem_int64_atomic_xor((int64_t*)&box[at], values[0], next()); break;
    }
    if (draw(2))
        shmem_barrier_all();
    else {
        shmem_quiet();
        shmem_sync_all();
    }
    learn(box, sizeof box);
    shmem_barrier_all();
}

static void some_gets(void) {
    shmem_sync_all();
    const int turns = 1 + (int)draw_alone(3);
    for (int i = 0; i < turns; i++) {
        long values[BLOCK] = {0};
        const int pe = any_pe();
        const unsigned at = draw_alone(WORDS - 2 * BLOCK);
        switch (draw_alone(6)) {
            case 0: values[0] = shmem_long_g(&own[at], pe); break;
            case 1: shmem_long_get(values, &own[at], BLOCK, pe); break;
            case 2: shmem_long_iget(values, &own[at], 1, 2, BLOCK, pe); break;
            case 3:
                shmem_getmem_nbi(values, &own[at], sizeof values, pe);
                shmem_quiet();
                break;
            case 4: shmem_long_ibget(values, &own[at], 4, 5, 2, 2, pe); break;
            default: shmem_get32(values, &own[at], BLOCK, pe); break;
        }
        learn(values, sizeof values);
    }
    shmem_sync_all(); /* before anybody fills `own` anew */
}

static void atomics(void) {
    for (int i = 0; i < 3; i++) {
        switch (draw_alone(5)) {
            case 0: learn_word((uint64_t)shmem_long_atomic_fetch_add(&tickets, 1, 0)); break;
            case 1: learn_word((uint64_t)shmem_long_atomic_fetch_inc(&tickets, any_pe())); break;
            case 2: learn_word((uint64_t)shmem_long_atomic_swap(&tickets, me, any_pe())); break;
            case 3: learn_word((uint64_t)shmem_long_atomic_compare_swap(&tickets, 3, 4, me)); break;
            default: {
                long got = 0;
                shmem_long_atomic_fetch_nbi(&got, &tickets, any_pe());
                shmem_quiet();
                learn_word((uint64_t)got);
            }
        }
    }
    if (draw_alone(2)) { /* by a plain load, behind a call that shows what it has found */
        learn_word((uint64_t)shmem_long_atomic_fetch(&tickets, me));
    }
}

static void waits(void) {
    const unsigned how = draw(7);
    const int turns = 1 + (int)draw(3);
    for (int i = 0; i < turns; i++) {
        flags_seen++;
        if (draw_alone(2)) usleep(50);
        for (int f = 0; f < 3; f++) shmem_int_p(&flags[f], flags_seen, next());
        switch (how) {
            case 0: shmem_int_wait_until(&flags[0], SHMEM_CMP_GE, flags_seen); break;
            case 1:
                while (!shmem_int_test(&flags[0], SHMEM_CMP_GE, flags_seen)) {
                    learn_word(1);
                }
                break;
            case 2: shmem_int_wait_until_all(flags, 3, NULL, SHMEM_CMP_GE, flags_seen); break;
            case 3: learn_word(shmem_int_wait_until_any(flags, 3, NULL, SHMEM_CMP_GE, flags_seen)); break;
            case 4: {
                size_t which[3];
                const size_t found = shmem_int_wait_until_some(flags, 3, which, NULL, SHMEM_CMP_GE, flags_seen);
                learn(which, found * sizeof *which);
                break;
            }
            case 5:
                while (shmem_int_atomic_fetch(&flags[0], me) < flags_seen) {
                    learn_word(2);
                }
                break;
            default:
                while (shmem_int_g(&flags[0], me) < flags_seen) {
                    shmem_fence();
                }
                break;
        }
        if (how != 3 && how != 4) learn(&flags[0], sizeof flags[0]);
        shmem_barrier_all();
        learn(flags, 3 * sizeof *flags);
        shmem_barrier_all(); /* before they are counted up again */
    }
}

static void with_signals(void) {
    long values[BLOCK];
    for (int i = 0; i < BLOCK; i++) values[i] = (long)draw_alone(100);
    signals_seen++;
    shmem_barrier_all();
    if (draw(2)) {
        shmem_long_put_signal(box, values, BLOCK, &signals[0], 1, SHMEM_SIGNAL_ADD, next());
    } else {
        shmem_long_put_signal_nbi(box, values, BLOCK, &signals[0], signals_seen, SHMEM_SIGNAL_SET, next());
    }
    if (draw(2)) {
        learn_word(shmem_signal_wait_until(&signals[0], SHMEM_CMP_GE, signals_seen));
    } else {
        while (shmem_signal_fetch(&signals[0]) < signals_seen) {
            learn_word(3);
        }
    }
    learn(box, BLOCK * sizeof *box);
    shmem_barrier_all();
    learn_word(signals[0]);
    shmem_barrier_all();
}

static void collectives_of(shmem_team_t team, int members, int rank) {
    fill_own();
    const unsigned how = draw(8);
    shmem_team_sync(team);
    switch (how) {
        case 0: shmem_long_broadcast(team, gathered, own, BLOCK, (int)draw((unsigned)members)); break;
        case 1: shmem_long_fcollect(team, gathered, own, 3); break;
        case 2: shmem_long_collect(team, gathered, own, 1 + (size_t)(rank % 3)); break;
        case 3: shmem_long_alltoall(team, gathered, own, 2); break;
        case 4: shmem_long_alltoalls(team, gathered, own, 2, 1, 2); break;
        case 5: shmem_long_max_reduce(team, gathered, own, BLOCK); break;
        case 6: shmem_long_sum_inscan(team, gathered, own, 4); break;
        default:
            for (int i = 0; i < BLOCK; i++) reals[i] = (double)draw_alone(100) / 7;
            shmem_double_sum_reduce(team, sums, reals, BLOCK);
            learn(sums, sizeof sums);
    }
    learn(gathered, sizeof gathered);
    shmem_team_sync(team);
}

/* What all PEs know alike decides what comes next. */
static void agree(void) {
    static long mine, result;
    mine = (long)(learnt & 0xff);
    shmem_barrier_all();
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &result, &mine, 1);
    common = mix(4711, (uint64_t)result);
    shmem_barrier_all();
}

static void active_sets(void) {
    fill_own();
    for (size_t i = 0; i < sizeof sync_words / sizeof *sync_words; i++) sync_words[i] = SHMEM_SYNC_VALUE;
    shmem_barrier_all();
    if (draw(2)) {
        shmem_broadcast64(gathered, own, BLOCK, (int)draw((unsigned)n), 0, 0, n, sync_words);
    } else {
        shmem_long_min_to_all(gathered, own, BLOCK, 0, 0, n, work_words, sync_words);
    }
    learn(gathered, BLOCK * sizeof *gathered);
    shmem_barrier_all();
}

static void teams_and_contexts(void) {
    shmem_team_t team = SHMEM_TEAM_INVALID;
    const int size = 1 + (int)draw((unsigned)n);
    learn_word((uint64_t)shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, size, NULL, 0, &team));
    if (team != SHMEM_TEAM_INVALID) {
        collectives_of(team, size, shmem_team_my_pe(team));
        shmem_ctx_t context;
        if (shmem_team_create_ctx(team, 0, &context) == 0) {
            learn_word((uint64_t)shmem_ctx_long_g(context, &own[1], (int)draw_alone((unsigned)size)));
            shmem_ctx_quiet(context);
            shmem_ctx_destroy(context);
        }
        learn_word((uint64_t)shmem_team_translate_pe(team, 0, SHMEM_TEAM_WORLD));
        shmem_team_sync(team);
        shmem_team_destroy(team);
    }
    agree(); /* who is no member has drawn less */
}

static void locks(void) {
    if (draw_alone(2)) {
        shmem_set_lock(&lock);
    } else {
        while (shmem_test_lock(&lock) != 0) {
            learn_word(4);
        }
    }
    const long before = shmem_long_g(&guarded, 0);
    learn_word((uint64_t)before);
    shmem_long_p(&guarded, before + 1 + me, 0);
    shmem_quiet();
    shmem_clear_lock(&lock);
}

static void heap(void) {
    const size_t bytes = 64 + draw(4000);
    long* block = draw(2) ? shmem_malloc(bytes) : shmem_calloc(bytes / 8, 8);
    if (draw(2)) block = shmem_realloc(block, bytes * 2);
    block[0] = me + 5;
    shmem_barrier_all();
    learn_word((uint64_t)shmem_long_g(&block[0], any_pe()));
    long* const there = shmem_ptr(block, next());
    learn_word(there != NULL);
    if (there != NULL)
        there[1] = 77 + me;
    else
        shmem_long_p(&block[1], 77 + me, next());
    shmem_barrier_all();
    learn_word((uint64_t)block[1]);
    shmem_barrier_all();
    shmem_free(block);
}

/* A substitute leaves the block out. Nothing that is needed behind it may be private. */
static void block_of_initialisation(void) {
    const unsigned turns = 1 + draw(3);
    const unsigned fetches = draw(2);
    if (shmem_ft_algo_init()) {
        for (unsigned i = 0; i < turns; i++) shmem_barrier_all();
        shmem_long_p(&box[3], 5 + me, next());
        shmem_barrier_all();
        if (fetches) {
            work_words[0] = shmem_long_g(&own[2], 0);
            shmem_sync_all();
        }
    }
}

int main(int argc, char** argv) {
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    const int victim = argc > 2 ? atoi(argv[2]) : -1;
    const int times = argc > 3 ? atoi(argv[3]) : 1;
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    learnt = mix(seed, (uint64_t)me);
    common = mix(seed, 1000);
    fill_own();
    shmem_barrier_all();
    const unsigned calls = 5 + draw(20);
    for (unsigned i = 0; i < calls; i++) {
        switch (draw(11)) {
            case 0: puts_and_loads(); break;
            case 1: some_gets(); break;
            case 2: atomics(); break;
            case 3: waits(); break;
            case 4: with_signals(); break;
            case 5: collectives_of(SHMEM_TEAM_WORLD, n, me); break;
            case 6: active_sets(); break;
            case 7: teams_and_contexts(); break;
            case 8: locks(); break;
            case 9: block_of_initialisation(); break;
            default: heap(); break;
        }
        if (draw(3) == 0) agree();
    }
    remembered = learnt;
    int deaths = 0; /* of PEs, which a substitute hears from the others */
    do {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            int *pes, *status;
            size_t count;
            shmem_query_fault(&pes, &status, &count);
            shmem_restart_pes(pes, count);
            free(pes);
            free(status);
            deaths_known = deaths + 1;
            shmem_int_max_reduce(SHMEM_TEAM_WORLD, &deaths_told, &deaths_known, 1);
            deaths = deaths_told;
            if (remembered != learnt) {
                printf("PE %d learnt %016llx before, and %016llx again\n", me, (unsigned long long)remembered,
                       (unsigned long long)learnt);
                fflush(stdout);
                shmem_global_exit(9);
            }
        } else if (step < STEPS) {
            step++;
            if (me == victim && deaths < times && step == 3 + deaths) raise(SIGKILL);
            shmem_long_atomic_add(&guarded, 1, next());
        }
    } while (step < STEPS);
    if (victim >= 0 && deaths != times) {
        printf("PE %d has met %d faults\n", me, deaths);
        shmem_global_exit(8);
    }
    if (me == 0) printf("the same again\n");
    shmem_finalize();
    return 0;
}
