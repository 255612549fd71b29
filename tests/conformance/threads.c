/* SHMEM_THREAD_MULTIPLE: everything that several threads of a PE may do at the same time. */
#include <pthread.h>

#include "tests/conformance/check.h"

enum { THREADS = 4, ROUNDS = 40, CELLS = 64, PES_MAX = 8 };

static int me, npes, right;

/* Runs body(number of the thread) in all threads at once and waits for them; then for the other PEs. */
typedef void (*Body)(int thread);
typedef struct {
    Body body;
    int thread;
} Task;

static void* run_task(void* argument) {
    const Task* const task = argument;
    task->body(task->thread);
    return NULL;
}

static void in_threads(Body body) {
    pthread_t threads[THREADS];
    Task tasks[THREADS];
    for (int i = 0; i < THREADS; i++) {
        tasks[i] = (Task){body, i};
        CHECK(pthread_create(&threads[i], NULL, run_task, &tasks[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    shmem_barrier_all();
}

/* --- set-up and queries --- */

static void check_queries(int thread) {
    (void)thread;
    for (int round = 0; round < ROUNDS; round++) {
        int level = -1, initialized = 0, major = 0, minor = 0;
        shmem_query_thread(&level);
        shmem_query_initialized(&initialized);
        shmem_info_get_version(&major, &minor);
        CHECK(level == SHMEM_THREAD_MULTIPLE && initialized != 0 && major == 1);
        CHECK(shmem_my_pe() == me && shmem_n_pes() == npes && shmem_pe_accessible(right));
        CHECK(shmem_team_my_pe(SHMEM_TEAM_WORLD) == me && shmem_team_n_pes(SHMEM_TEAM_WORLD) == npes);
        const int place = shmem_team_translate_pe(SHMEM_TEAM_WORLD, me, SHMEM_TEAM_SHARED);
        CHECK(place >= 0 && place == shmem_team_my_pe(SHMEM_TEAM_SHARED));
        CHECK(place < shmem_team_n_pes(SHMEM_TEAM_SHARED));
    }
}

/* --- remote memory access --- */

static long slices[THREADS][CELLS];
static long counters[2], shared_total, xored;
static shmem_ctx_t shared_ctx;

/* Each thread has a slice of every array, and a context as its options say; the last one uses the default context. */
static void check_rma(int thread) {
    const long options[THREADS] = {0, SHMEM_CTX_SERIALIZED, SHMEM_CTX_PRIVATE, 0};
    shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;
    if (thread != THREADS - 1) {
        CHECK(shmem_ctx_create(options[thread], &ctx) == 0);
    }
    long* const slice = slices[thread];
    long source[CELLS], back[CELLS];
    for (int round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < CELLS; i++) {
            source[i] = ((round * THREADS + thread) * CELLS + i) * npes + me;
        }
        switch (round % 4) {
            case 0: shmem_ctx_long_put(ctx, slice, source, CELLS, right); break;
            case 1: shmem_ctx_long_put_nbi(ctx, slice, source, CELLS, right); break;
            case 2: shmem_ctx_long_iput(ctx, slice, source, 1, 1, CELLS, right); break;
            default:
                for (int i = 0; i < CELLS; i++) {
                    shmem_ctx_long_p(ctx, &slice[i], source[i], right);
                }
        }
        shmem_ctx_quiet(ctx);
        memset(back, 0, sizeof back);
        if (round % 2 == 0) {
            shmem_ctx_long_get(ctx, back, slice, CELLS, right);
        } else {
            shmem_ctx_long_get_nbi(ctx, back, slice, CELLS, right);
            shmem_ctx_quiet(ctx);
        }
        CHECK(memcmp(source, back, sizeof back) == 0);
        CHECK(shmem_ctx_long_g(ctx, &slice[round % CELLS], right) == source[round % CELLS]);
    }
    if (thread != THREADS - 1) {
        shmem_ctx_destroy(ctx);
    }
}

/* All threads of all PEs meet at the same words, on one context that they share and on the default one. */
static void check_amo(int thread) {
    for (int round = 0; round < ROUNDS; round++) {
        for (int pe = 0; pe < npes; pe++) {
            shmem_long_atomic_inc(&counters[0], pe);
            shmem_ctx_long_atomic_fetch_add(shared_ctx, &counters[1], thread + 1, pe);
        }
        long seen = shmem_ctx_long_atomic_fetch(shared_ctx, &shared_total, 0);
        while (1) {
            const long before = shmem_ctx_long_atomic_compare_swap(shared_ctx, &shared_total, seen, seen + 1, 0);
            if (before == seen) {
                break;
            }
            seen = before;
        }
        shmem_ulong_atomic_xor((unsigned long*)&xored, 1UL << ((me * THREADS + thread) % 61), right);
    }
}

static void check_amo_results(void) {
    CHECK(counters[0] == (long)ROUNDS * THREADS * npes);
    CHECK(counters[1] == (long)ROUNDS * npes * THREADS * (THREADS + 1) / 2);
    CHECK(shmem_long_g(&shared_total, 0) == (long)ROUNDS * THREADS * npes);
    CHECK(ROUNDS % 2 != 0 || xored == 0);
}

/* --- waiting --- */

static long pings[THREADS], many[THREADS][4];
static uint64_t signals[THREADS];
static long payload[THREADS];

/* A thread waits for a word of its own, which the same thread of the PE before sets. */
static void check_waits(int thread) {
    const int left = (me + npes - 1) % npes;
    for (long round = 1; round <= ROUNDS; round++) {
        shmem_long_atomic_set(&pings[thread], round, right);
        if (round % 2 == 0) {
            shmem_long_wait_until(&pings[thread], SHMEM_CMP_GE, round);
        } else {
            while (!shmem_long_test(&pings[thread], SHMEM_CMP_GE, round)) {
            }
        }
        const long value = round * 1000 + me * THREADS + thread;
        shmem_long_put_signal(&payload[thread], &value, 1, &signals[thread], (uint64_t)round, SHMEM_SIGNAL_SET, right);
        CHECK(shmem_signal_wait_until(&signals[thread], SHMEM_CMP_GE, (uint64_t)round) >= (uint64_t)round);
        CHECK(payload[thread] == round * 1000 + left * THREADS + thread);
        /* Nobody overwrites what the neighbour has not read yet. */
        for (int i = 0; i < 4; i++) {
            shmem_long_atomic_set(&many[thread][i], round, left);
        }
        size_t indices[4];
        CHECK(shmem_long_wait_until_any(many[thread], 4, NULL, SHMEM_CMP_GE, round) < 4);
        CHECK(shmem_long_wait_until_some(many[thread], 4, indices, NULL, SHMEM_CMP_GE, round) >= 1);
        while (shmem_long_test_any(many[thread], 4, NULL, SHMEM_CMP_GE, round) == SIZE_MAX) {
        }
        while (shmem_long_test_some(many[thread], 4, indices, NULL, SHMEM_CMP_GE, round) == 0) {
        }
        while (!shmem_long_test_all(many[thread], 4, NULL, SHMEM_CMP_GE, round)) {
        }
        shmem_long_wait_until_all(many[thread], 4, NULL, SHMEM_CMP_GE, round);
    }
}

/* Only the calling thread is blocked: another one of the same PE makes the condition true. */
static long gate[THREADS];
static void check_waits_for_own_thread(int thread) {
    for (long round = 1; round <= ROUNDS; round++) {
        if (thread % 2 == 0) {
            shmem_long_wait_until(&gate[thread], SHMEM_CMP_EQ, round);
            shmem_long_atomic_set(&gate[thread + 1], round, me);
        } else {
            shmem_long_atomic_set(&gate[thread - 1], round, me);
            shmem_long_wait_until(&gate[thread], SHMEM_CMP_EQ, round);
        }
    }
}

/* --- locks: one per thread, because they belong to PEs --- */

static long locks[THREADS], guarded[THREADS];

static void check_locks(int thread) {
    for (int turn = 0; turn < ROUNDS / 2; turn++) {
        if ((turn + thread) % 2 == 0) {
            shmem_set_lock(&locks[thread]);
        } else {
            while (shmem_test_lock(&locks[thread]) != 0) {
            }
        }
        const long next = shmem_long_g(&guarded[thread], 0) + 1;
        shmem_long_p(&guarded[thread], next, 0);
        shmem_clear_lock(&locks[thread]);
    }
}

/* --- collectives of different teams --- */

static shmem_team_t teams[THREADS];
static long sources[THREADS][PES_MAX * CELLS], dests[THREADS][PES_MAX * CELLS];

static long value_of(int thread, int member, int i, int round) {
    return ((thread * 131L + member) * 17 + i) * 1009 + round;
}

static void check_moves(shmem_team_t team, int thread, int round, int count) {
    const int mine = shmem_team_my_pe(team), size = shmem_team_n_pes(team);
    long* const source = sources[thread];
    long* const dest = dests[thread];
    for (int i = 0; i < size * count; i++) {
        source[i] = value_of(thread, mine, i, round);
    }
    const int root = round % size;
    CHECK(shmem_team_sync(team) == 0);
    CHECK(shmem_long_broadcast(team, dest, source, (size_t)count, root) == 0);
    for (int i = 0; i < count; i++) {
        CHECK(dest[i] == value_of(thread, root, i, round));
    }
    CHECK(shmem_team_sync(team) == 0);
    CHECK(shmem_long_fcollect(team, dest, source, (size_t)count) == 0);
    for (int i = 0; i < size * count; i++) {
        CHECK(dest[i] == value_of(thread, i / count, i % count, round));
    }
    CHECK(shmem_team_sync(team) == 0);
    CHECK(shmem_long_alltoall(team, dest, source, (size_t)count) == 0);
    for (int i = 0; i < size * count; i++) {
        CHECK(dest[i] == value_of(thread, i / count, mine * count + i % count, round));
    }
    CHECK(shmem_team_sync(team) == 0);
}

static void check_sums(shmem_team_t team, int thread, int round, int count) {
    const int mine = shmem_team_my_pe(team), size = shmem_team_n_pes(team);
    long* const source = sources[thread];
    long* const dest = dests[thread];
    for (int i = 0; i < count; i++) {
        source[i] = value_of(thread, mine, i, round);
    }
    CHECK(shmem_long_sum_reduce(team, dest, source, (size_t)count) == 0);
    for (int i = 0; i < count; i++) {
        long expected = 0;
        for (int member = 0; member < size; member++) {
            expected += value_of(thread, member, i, round);
        }
        CHECK(dest[i] == expected);
    }
    CHECK(shmem_long_sum_inscan(team, dest, source, (size_t)count) == 0);
    for (int i = 0; i < count; i++) {
        long expected = 0;
        for (int member = 0; member <= mine; member++) {
            expected += value_of(thread, member, i, round);
        }
        CHECK(dest[i] == expected);
    }
}

/* World, a reversed copy of it, and the row and column of a grid: a PE is in all four at once, in another place in
 * each, and its threads are never at the same point of their programs. */
static void check_collectives(int thread) {
    for (int round = 0; round < ROUNDS / 2; round++) {
        const int count = round % 3 == 0 ? CELLS : 1 + round % 5;
        check_moves(teams[thread], thread, round, count);
        check_sums(teams[thread], thread, round, count);
    }
}

static void make_teams(void) {
    teams[0] = SHMEM_TEAM_WORLD;
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, npes - 1, -1, npes, NULL, 0, &teams[1]) == 0);
    CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, NULL, 0, &teams[2], NULL, 0, &teams[3]) == 0);
}

/* World's barriers and the heap belong to one thread, while the others go on. */
static void check_heap_beside(int thread) {
    if (thread != 0) {
        check_rma(thread);
        check_collectives(thread);
        return;
    }
    for (int round = 1; round <= ROUNDS / 2; round++) {
        long* const block = shmem_malloc((size_t)round * sizeof *block);
        CHECK(block != NULL);
        shmem_long_p(&block[round - 1], round, right);
        shmem_barrier_all();
        CHECK(block[round - 1] == round);
        shmem_free(block);
    }
}

/* --- creation and destruction --- */

/* Each thread splits the team of its own, so several splits are under way at once, on the same PEs. */
static void check_splits(int thread) {
    for (int round = 0; round < ROUNDS / 4; round++) {
        const int size = shmem_team_n_pes(teams[thread]), part = 1 + (round + thread) % size;
        shmem_team_t team = SHMEM_TEAM_INVALID;
        CHECK(shmem_team_split_strided(teams[thread], 0, 1, part, NULL, 0, &team) == 0);
        CHECK((team != SHMEM_TEAM_INVALID) == (shmem_team_my_pe(teams[thread]) < part));
        if (team == SHMEM_TEAM_INVALID) {
            continue;
        }
        for (int other = 0; other < THREADS; other++) {
            CHECK(team != teams[other]);
        }
        shmem_ctx_t ctx;
        CHECK(shmem_team_create_ctx(team, thread % 2 == 0 ? SHMEM_CTX_PRIVATE : 0, &ctx) == 0);
        check_sums(team, thread, round, 3);
        shmem_ctx_long_p(ctx, &slices[thread][me], me, part - 1);
        if (thread % 2 == 0) {
            shmem_ctx_destroy(ctx); /* the others go with the team */
        }
        check_moves(team, thread, round, 2);
        shmem_team_destroy(team);
    }
}

static void check_contexts(int thread) {
    for (int round = 0; round < ROUNDS * 4; round++) {
        shmem_ctx_t contexts[3];
        for (int i = 0; i < 3; i++) {
            CHECK(shmem_ctx_create(i == 0 ? SHMEM_CTX_PRIVATE : 0, &contexts[i]) == 0);
            shmem_team_t team = SHMEM_TEAM_INVALID;
            CHECK(shmem_ctx_get_team(contexts[i], &team) == 0 && team == SHMEM_TEAM_WORLD);
        }
        CHECK(contexts[0] != contexts[1] && contexts[1] != contexts[2] && contexts[0] != contexts[2]);
        for (int i = 0; i < 3; i++) {
            shmem_ctx_long_p(contexts[i], &slices[thread][i], round * 3 + i, me);
            shmem_ctx_fence(contexts[i]);
            CHECK(shmem_ctx_long_g(contexts[i], &slices[thread][i], me) == round * 3 + i);
            shmem_ctx_destroy(contexts[i]);
        }
    }
}

int main(void) {
    int provided = -1;
    if (shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) != 0) {
        fprintf(stderr, "shmem_init_thread failed\n");
        return 1;
    }
    CHECK(provided == SHMEM_THREAD_MULTIPLE);
    me = shmem_my_pe();
    npes = shmem_n_pes();
    right = (me + 1) % npes;
    CHECK(npes <= PES_MAX);
    CHECK(shmem_ctx_create(0, &shared_ctx) == 0);
    make_teams();
    shmem_barrier_all();
    in_threads(check_queries);
    in_threads(check_rma);
    in_threads(check_amo);
    check_amo_results();
    in_threads(check_waits);
    in_threads(check_waits_for_own_thread);
    in_threads(check_locks);
    for (int thread = 0; thread < THREADS; thread++) {
        CHECK(shmem_long_g(&guarded[thread], 0) == (long)npes * (ROUNDS / 2));
    }
    shmem_barrier_all();
    in_threads(check_collectives);
    in_threads(check_heap_beside);
    in_threads(check_splits);
    in_threads(check_contexts);
    shmem_ctx_destroy(shared_ctx);
    shmem_finalize();
    return 0;
}
