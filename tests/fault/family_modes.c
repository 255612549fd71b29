/* One mode for each family of calls in which a PE can wait for others, alone or in a loop. Every mode leaves its
 * results in symmetric memory that hash_of_results covers, and the same ones however often a turn of it was cut off
 * before. */
#include "tests/fault/families.h"

static long source[ELEMENTS], target[ELEMENTS];
static double real_source[ELEMENTS], real_target[ELEMENTS];
static long set_work[ELEMENTS];
static long
    set_sync[SHMEM_ALLTOALLS_SYNC_SIZE > SHMEM_COLLECT_SYNC_SIZE ? SHMEM_ALLTOALLS_SYNC_SIZE : SHMEM_COLLECT_SYNC_SIZE];
static long never;
static long variables[VARIABLES];
static uint64_t signal_word;
static long lock, word;
static long counter;
static long passed[PES_MAX];
static shmem_team_t row, column, reversed, alone;
static shmem_ctx_t context, row_context;

bool fault_seen(void) { return shmem_long_test(&never, SHMEM_CMP_EQ, 1) != 0; }

void create_handles(void) {
    const int n_pes = shmem_n_pes();
    int bad = shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, NULL, 0, &row, NULL, 0, &column);
    bad += shmem_team_split_strided(SHMEM_TEAM_WORLD, n_pes - 1, -1, n_pes, NULL, 0, &reversed);
    for (int pe = 0; pe < n_pes; pe++) {
        shmem_team_t one;
        bad += shmem_team_split_strided(SHMEM_TEAM_WORLD, pe, 1, 1, NULL, 0, &one);
        alone = one != SHMEM_TEAM_INVALID ? one : alone;
    }
    bad += shmem_ctx_create(0, &context);
    bad += shmem_team_create_ctx(row, SHMEM_CTX_SERIALIZED, &row_context);
    if (bad != 0) {
        wrong("a team or a context could not be created");
    }
    for (size_t i = 0; i < sizeof set_sync / sizeof set_sync[0]; i++) {
        set_sync[i] = SHMEM_SYNC_VALUE;
    }
}

void fill(const Mode* mode) {
    const uint64_t me = (uint64_t)shmem_my_pe(), number = (uint64_t)mode_number(mode);
    for (size_t i = 0; i < ELEMENTS; i++) {
        source[i] = (long)(app_mix3(number, me, i) >> 16);
        real_source[i] = 1.0 + (double)(app_mix3(number, me, i) >> 44) * 0x1p-24;
    }
    memset(target, 0, sizeof target);
    memset(real_target, 0, sizeof real_target);
    memset(variables, 0, sizeof variables);
    memset(passed, 0, sizeof passed);
    counter = lock = 0;
    signal_word = 0;
    word = 0;
}

uint64_t hash_of_results(void) {
    uint64_t hash = app_hash(app_hash(APP_HASH_START, target, sizeof target), real_target, sizeof real_target);
    hash = app_hash(app_hash(hash, variables, sizeof variables), passed, sizeof passed);
    return app_hash_number(app_hash_number(app_hash(hash, &lock, sizeof lock), (uint64_t)counter), signal_word);
}

/* ---- synchronisation ---- */
#define CALL(NAME, ...)                   \
    static int NAME(const Local* local) { \
        (void)local;                      \
        return __VA_ARGS__;               \
    }
#define CALL_VOID(NAME, ...)              \
    static int NAME(const Local* local) { \
        (void)local;                      \
        __VA_ARGS__;                      \
        return 0;                         \
    }

CALL(team_sync, shmem_team_sync(SHMEM_TEAM_WORLD))
CALL(team_sync_reversed, shmem_team_sync(reversed))
CALL(team_sync_rows, shmem_team_sync(row)) /* the other row goes on until it hears of the death */
CALL(team_sync_alone, shmem_team_sync(alone) + shmem_long_sum_reduce(alone, target, source, SMALL))
CALL_VOID(barrier_all, shmem_barrier_all())
CALL_VOID(sync_all, shmem_sync_all())
CALL_VOID(barrier_set, shmem_barrier(0, 0, local->n_pes, set_sync))
CALL_VOID(sync_set, shmem_sync(0, 0, local->n_pes, set_sync))
/* Even and odd PEs apart. */
CALL_VOID(barrier_halves, shmem_barrier(local->me % 2, 1, (local->n_pes + 1 - local->me % 2) / 2, set_sync))

/* ---- collectives of teams, and of active sets ---- */

#define SET_CALL(NAME, ROUTINE, ...)                                        \
    static int NAME(const Local* local) {                                   \
        ROUTINE(target, source, __VA_ARGS__, 0, 0, local->n_pes, set_sync); \
        return 0;                                                           \
    }
#define SET_REDUCTION(NAME, ROUTINE)                                            \
    static int NAME(const Local* local) {                                       \
        ROUTINE(target, source, SMALL, 0, 0, local->n_pes, set_work, set_sync); \
        return 0;                                                               \
    }

CALL(collect, shmem_long_collect(SHMEM_TEAM_WORLD, target, source, (size_t)(SMALL + local->me)))
CALL(collect_rows, shmem_long_collect(row, target, source, (size_t)(LARGE - local->me)))
CALL(fcollect, shmem_long_fcollect(SHMEM_TEAM_WORLD, target, source, SMALL))
CALL(fcollect_large, shmem_long_fcollect(reversed, target, source, LARGE))
CALL(alltoall, shmem_long_alltoall(SHMEM_TEAM_WORLD, target, source, SMALL))
CALL(alltoall_large, shmem_alltoallmem(SHMEM_TEAM_WORLD, target, source, LARGE * sizeof(long)))
CALL(alltoalls, shmem_long_alltoalls(SHMEM_TEAM_WORLD, target, source, 2, 3, LARGE / 8))
CALL(broadcast_from_dead, shmem_long_broadcast(SHMEM_TEAM_WORLD, target, source, SMALL, local->victim))
CALL(broadcast_to_dead,
     shmem_long_broadcast(SHMEM_TEAM_WORLD, target, source, LARGE, (local->victim + 1) % local->n_pes) +
         shmem_team_sync(SHMEM_TEAM_WORLD))
CALL(broadcast_columns, shmem_broadcastmem(column, target, source, LARGE * sizeof(long), 0))
CALL(and_reduce, shmem_ulong_and_reduce(SHMEM_TEAM_WORLD, (unsigned long*)target, (unsigned long*)source, SMALL))
CALL(or_reduce, shmem_ulong_or_reduce(SHMEM_TEAM_WORLD, (unsigned long*)target, (unsigned long*)source, LARGE))
CALL(xor_reduce, shmem_ulong_xor_reduce(reversed, (unsigned long*)target, (unsigned long*)source, SMALL))
CALL(max_reduce, shmem_long_max_reduce(SHMEM_TEAM_WORLD, target, source, SMALL))
CALL(min_reduce, shmem_long_min_reduce(row, target, source, LARGE))
CALL(sum_reduce, shmem_double_sum_reduce(SHMEM_TEAM_WORLD, real_target, real_source, LARGE))
CALL(prod_reduce, shmem_double_prod_reduce(SHMEM_TEAM_WORLD, real_target, real_source, SMALL))
CALL(sum_in_place, shmem_long_sum_reduce(SHMEM_TEAM_WORLD, source, source, LARGE))
CALL(inscan, shmem_long_sum_inscan(SHMEM_TEAM_WORLD, target, source, LARGE))
CALL(exscan, shmem_double_sum_exscan(reversed, real_target, real_source, SMALL))

SET_CALL(collect_set, shmem_collect64, (size_t)(SMALL + local->me))
SET_CALL(fcollect_set, shmem_fcollect32, LARGE)
SET_CALL(alltoall_set, shmem_alltoall64, LARGE)
SET_CALL(alltoalls_set, shmem_alltoalls32, 1, 2, SMALL)
SET_CALL(broadcast_set, shmem_broadcast64, LARGE, local->victim)
SET_REDUCTION(and_to_all, shmem_long_and_to_all)
SET_REDUCTION(or_to_all, shmem_long_or_to_all)
SET_REDUCTION(xor_to_all, shmem_long_xor_to_all)
SET_REDUCTION(max_to_all, shmem_long_max_to_all)
SET_REDUCTION(min_to_all, shmem_long_min_to_all)
SET_REDUCTION(sum_to_all, shmem_long_sum_to_all)
SET_REDUCTION(prod_to_all, shmem_long_prod_to_all)

/* ---- handles; what they are used for is not protected by looking at the results of their creation ---- */

static int split_strided(const Local* local) {
    shmem_team_t team;
    const int failed = shmem_team_split_strided(reversed, 0, 1, local->n_pes, NULL, 0, &team);
    shmem_ctx_t of_team;
    shmem_team_create_ctx(team, 0, &of_team);
    const int next = (shmem_team_my_pe(team) + 1) % local->n_pes;
    shmem_ctx_long_put(of_team, target, source, SMALL, next);
    shmem_ctx_quiet(of_team);
    shmem_team_sync(team);
    shmem_long_p(&target[SMALL], source[0], shmem_team_translate_pe(team, next, SHMEM_TEAM_WORLD));
    shmem_team_sync(team);
    shmem_ctx_destroy(of_team);
    shmem_team_destroy(team);
    return failed;
}
static int split_2d(const Local* local) {
    (void)local;
    shmem_team_t x, y;
    const int failed = shmem_team_split_2d(SHMEM_TEAM_WORLD, 3, NULL, 0, &x, NULL, 0, &y);
    shmem_long_max_reduce(x, target, source, SMALL);
    shmem_long_fcollect(y, target + SMALL, source, SMALL);
    shmem_team_destroy(y);
    shmem_team_destroy(x);
    return failed;
}
/* No call of these waits for anybody. */
static int contexts(const Local* local) {
    static const long kOptions[] = {0, SHMEM_CTX_SERIALIZED, SHMEM_CTX_PRIVATE, SHMEM_CTX_NOSTORE};
    const int next = (local->me + 1) % local->n_pes;
    for (size_t i = 0; i < sizeof kOptions / sizeof kOptions[0]; i++) {
        shmem_ctx_t world, of_row;
        const int failed = shmem_ctx_create(kOptions[i], &world) + shmem_team_create_ctx(row, kOptions[i], &of_row);
        shmem_ctx_session_start(world, 0, NULL, 0);
        shmem_ctx_long_put_nbi(world, &target[i * SMALL], &source[i], SMALL, next);
        shmem_ctx_long_p(of_row, &target[(4 + i) * PES_MAX + (size_t)local->me], source[i], 0);
        shmem_ctx_session_stop(world);
        shmem_ctx_destroy(of_row);
        shmem_ctx_destroy(world);
        if (failed != 0) {
            wrong("a context could not be created");
        }
    }
    return 0;
}

/* ---- waiting for variables that the victim alone sets ---- */

static void set_variables(const Local* local) {
    if (local->me == local->victim) {
        long values[VARIABLES];
        for (int i = 0; i < VARIABLES; i++) {
            values[i] = local->turn;
        }
        for (int pe = 0; pe < local->n_pes; pe++) {
            shmem_long_put(variables, values, VARIABLES, pe);
        }
        shmem_quiet();
    }
}
static void look_at(size_t index) {
    if (index >= VARIABLES) {
        wrong("an index is outside the array");
    }
}

#define WAITING(NAME, ...)                                           \
    static int NAME(const Local* local) {                            \
        const int status[VARIABLES] = {0, 1, 0};                     \
        const long one = local->turn;                                \
        const long each[VARIABLES] = {one, one, one, one, one, one}; \
        size_t indices[VARIABLES];                                   \
        (void)status, (void)each, (void)indices, (void)one;          \
        set_variables(local);                                        \
        __VA_ARGS__;                                                 \
        return 0;                                                    \
    }
WAITING(wait_until, shmem_long_wait_until(&variables[2], SHMEM_CMP_GE, one))
WAITING(
    old_wait, if (!local->awaits_death) { shmem_long_wait(&variables[3], 0); } else {
        shmem_wait_until(&variables[3], SHMEM_CMP_GE, one);
    })
WAITING(wait_all, shmem_long_wait_until_all(variables, VARIABLES, status, SHMEM_CMP_GE, one))
WAITING(wait_any, look_at(shmem_long_wait_until_any(variables, VARIABLES, status, SHMEM_CMP_GE, one)))
WAITING(wait_some, look_at(shmem_long_wait_until_some(variables, VARIABLES, indices, status, SHMEM_CMP_GE, one) - 1))
WAITING(wait_all_vector, shmem_long_wait_until_all_vector(variables, VARIABLES, status, SHMEM_CMP_GE, each))
WAITING(wait_any_vector, look_at(shmem_long_wait_until_any_vector(variables, VARIABLES, status, SHMEM_CMP_GE, each)))
WAITING(wait_some_vector,
        look_at(shmem_long_wait_until_some_vector(variables, VARIABLES, indices, status, SHMEM_CMP_GE, each) - 1))
WAITING(test, while (!shmem_long_test(&variables[1], SHMEM_CMP_GE, one)){})
WAITING(test_all, while (!shmem_long_test_all(variables, VARIABLES, status, SHMEM_CMP_GE, one)){})
WAITING(test_any, while (shmem_long_test_any(variables, VARIABLES, status, SHMEM_CMP_GE, one) == SIZE_MAX){})
WAITING(test_some, while (shmem_long_test_some(variables, VARIABLES, indices, status, SHMEM_CMP_GE, one) == 0){})
WAITING(test_all_vector, while (!shmem_long_test_all_vector(variables, VARIABLES, status, SHMEM_CMP_GE, each)){})
WAITING(test_any_vector,
        while (shmem_long_test_any_vector(variables, VARIABLES, status, SHMEM_CMP_GE, each) == SIZE_MAX){})
WAITING(test_some_vector,
        while (shmem_long_test_some_vector(variables, VARIABLES, indices, status, SHMEM_CMP_GE, each) == 0){})

static void send_signals(const Local* local) {
    for (int pe = 0; local->me == local->victim && pe < local->n_pes; pe++) {
        shmem_long_put_signal_nbi(target, source, LARGE, &signal_word, (uint64_t)local->turn, SHMEM_SIGNAL_SET, pe);
    }
}
static int signal_wait(const Local* local) {
    send_signals(local);
    shmem_signal_wait_until(&signal_word, SHMEM_CMP_GE, (uint64_t)local->turn);
    return 0;
}
static int signal_loop(const Local* local) {
    send_signals(local);
    while (shmem_signal_fetch(&signal_word) < (uint64_t)local->turn && !was_called()) {
    }
    return 0;
}

/* ---- locks; lost updates would show if two PEs were in at once ---- */

void take_lock(void) {
    shmem_set_lock(&lock);
    while (shmem_long_atomic_compare_swap(&word, 0, -1, (shmem_my_pe() + 1) % shmem_n_pes()) != 0) {
    }
}
static void add_one(void) {
    const long value = shmem_long_g(&counter, 1);
    shmem_long_p(&counter, value + 1, 1);
    shmem_quiet();
}
static int set_lock(const Local* local) {
    (void)local;
    shmem_set_lock(&lock);
    add_one();
    shmem_clear_lock(&lock);
    return 0;
}
static int test_lock(const Local* local) {
    (void)local;
    while (shmem_test_lock(&lock) != 0) {
    }
    add_one();
    shmem_clear_lock(&lock);
    return 0;
}
/* The victim waits for the lock, and others behind it, while its neighbour has it. */
static int wait_for_lock(const Local* local) {
    const bool is_holder = local->me == (local->victim + 1) % local->n_pes;
    if (local->awaits_death && !is_holder) {
        app_sleep_ms(local->me == local->victim ? 15 : 30);
    }
    shmem_set_lock(&lock);
    while (local->awaits_death && is_holder && !fault_seen()) {
        app_sleep_ms(1);
    }
    add_one();
    shmem_clear_lock(&lock);
    return 0;
}
/* A lock that the program has made itself of atomics: only who jumps or has a handler gets out of it, and then lets
 * others in who have not heard of the death yet. */
static int own_lock(const Local* local) {
    const int home = (local->victim + 1) % local->n_pes;
    while (shmem_long_atomic_compare_swap(&word, 0, local->me + 1, home) != 0 && !was_called()) {
    }
    add_one();
    shmem_long_atomic_set(&word, 0, home);
    return 0;
}
static int atomic_loop(const Local* local) {
    const int home = (local->victim + 1) % local->n_pes;
    if (local->me == local->victim) {
        shmem_long_atomic_set(&variables[0], local->turn, home);
    }
    while (shmem_long_atomic_fetch(&variables[0], home) < local->turn && !was_called()) {
    }
    return 0;
}

/* ---- ordering, with operations outstanding; each PE has a place of its own ---- */

static void start_many(shmem_ctx_t ctx, const Local* local) {
    const size_t at = (size_t)local->me * LARGE;
    for (int pe = 0; pe < local->n_pes; pe++) {
        shmem_ctx_long_put_nbi(ctx, &target[at], &source[at], LARGE / 2, pe);
        shmem_ctx_long_get_nbi(ctx, &set_work[0], &source[0], SMALL, pe);
        shmem_ctx_long_iput(ctx, &target[at + LARGE / 2], source, 2, 1, SMALL, pe);
        shmem_ctx_long_atomic_add(ctx, &passed[local->me], 1, pe);
        shmem_ctx_long_atomic_fetch_inc_nbi(ctx, &set_work[1], &passed[local->me], pe);
    }
}
static int quiet(const Local* local) {
    start_many(SHMEM_CTX_DEFAULT, local);
    shmem_fence();
    shmem_quiet();
    return 0;
}
static int ctx_quiet(const Local* local) {
    start_many(context, local);
    shmem_ctx_fence(context);
    shmem_ctx_quiet(context);
    shmem_ctx_long_p(row_context, &target[(size_t)local->me * LARGE + LARGE - 1], 1, 0);
    shmem_ctx_quiet(row_context);
    return 0;
}
static int pe_quiet(const Local* local) {
    const int pes[2] = {local->victim, (local->victim + 1) % local->n_pes};
    start_many(context, local);
    shmem_ctx_pe_quiet(context, pes, 2);
    shmem_pe_quiet(pes, 1);
    return 0;
}

/* ---- memory ---- */

static void keep(const long* block, size_t at) {
    if (block == NULL) {
        wrong("no symmetric memory");
    } else {
        memcpy(&target[at], block, SMALL * sizeof target[0]);
    }
}
static int allocate(const Local* local) {
    (void)local;
    long* block = shmem_malloc(LARGE * sizeof *block);
    memcpy(block, source, LARGE * sizeof *block);
    block = shmem_realloc(block, 20 * LARGE * sizeof *block);
    keep(block, 0);
    shmem_free(block);
    return 0;
}
static int allocate_otherwise(const Local* local) {
    (void)local;
    long* const zeros = shmem_calloc(LARGE, sizeof *zeros);
    long* const aligned = shmem_align(4096, LARGE * sizeof *aligned);
    long* const hinted = shmem_malloc_with_hints(4096, SHMEM_MALLOC_ATOMICS_REMOTE);
    keep(zeros, 0);
    aligned[1] = hinted[1] = source[1];
    target[SMALL] = aligned[1];
    keep(zeros, 0);
    shmem_free(aligned);
    shmem_free(zeros);
    shmem_free(hinted);
    return 0;
}

/* A part of the program that brings its own initialisation. */
static int nested(const Local* local) {
    (void)local;
    int provided = 0;
    shmem_init();
    if (shmem_init_thread(SHMEM_THREAD_SINGLE, &provided) != 0) {
        wrong("a nested initialisation failed");
    }
    shmem_finalize();
    shmem_finalize();
    return 0;
}
CALL_VOID(nothing, ) /* the victim does not come to the checkpoint that follows */
#define WORLD(NAME, ROUTINE) \
    { #NAME, ROUTINE, MODE_TELLS, NAME }
#define PLAIN(NAME, ROUTINE) \
    { #NAME, ROUTINE, MODE_PLAIN, NAME }
#define LEAVE(NAME, ROUTINE) \
    { #NAME, ROUTINE, MODE_NEEDS_LEAVE, NAME }
static const Mode kModes[] = {
    WORLD(team_sync, "shmem_team_sync"),
    WORLD(team_sync_reversed, "shmem_team_sync"),
    PLAIN(team_sync_rows, NULL),
    PLAIN(team_sync_alone, NULL),
    PLAIN(barrier_all, "shmem_barrier_all"),
    PLAIN(sync_all, "shmem_sync_all"),
    PLAIN(barrier_set, "shmem_barrier"),
    PLAIN(sync_set, "shmem_sync"),
    PLAIN(barrier_halves, NULL),
    WORLD(collect, "shmem_long_collect"),
    PLAIN(collect_rows, NULL),
    WORLD(fcollect, "shmem_long_fcollect"),
    WORLD(fcollect_large, "shmem_long_fcollect"),
    WORLD(alltoall, "shmem_long_alltoall"),
    WORLD(alltoall_large, "shmem_alltoallmem"),
    WORLD(alltoalls, "shmem_long_alltoalls"),
    WORLD(broadcast_from_dead, "shmem_long_broadcast"),
    WORLD(broadcast_to_dead, NULL),
    PLAIN(broadcast_columns, NULL),
    WORLD(and_reduce, "shmem_ulong_and_reduce"),
    WORLD(or_reduce, "shmem_ulong_or_reduce"),
    WORLD(xor_reduce, "shmem_ulong_xor_reduce"),
    WORLD(max_reduce, "shmem_long_max_reduce"),
    PLAIN(min_reduce, NULL),
    WORLD(sum_reduce, "shmem_double_sum_reduce"),
    WORLD(prod_reduce, "shmem_double_prod_reduce"),
    WORLD(sum_in_place, "shmem_long_sum_reduce"),
    WORLD(inscan, "shmem_long_sum_inscan"),
    PLAIN(exscan, NULL),
    PLAIN(collect_set, "shmem_collect64"),
    PLAIN(fcollect_set, "shmem_fcollect32"),
    PLAIN(alltoall_set, "shmem_alltoall64"),
    PLAIN(alltoalls_set, "shmem_alltoalls32"),
    PLAIN(broadcast_set, "shmem_broadcast64"),
    PLAIN(and_to_all, "shmem_long_and_to_all"),
    PLAIN(or_to_all, "shmem_long_or_to_all"),
    PLAIN(xor_to_all, "shmem_long_xor_to_all"),
    PLAIN(max_to_all, "shmem_long_max_to_all"),
    PLAIN(min_to_all, "shmem_long_min_to_all"),
    PLAIN(sum_to_all, "shmem_long_sum_to_all"),
    PLAIN(prod_to_all, "shmem_long_prod_to_all"),
    WORLD(split_strided, "shmem_team_split_strided"),
    WORLD(split_2d, "shmem_team_split_2d"),
    PLAIN(contexts, NULL),
    PLAIN(wait_until, "shmem_long_wait_until"),
    PLAIN(old_wait, "shmem_long_wait_until"),
    PLAIN(wait_all, "shmem_long_wait_until_all"),
    PLAIN(wait_any, "shmem_long_wait_until_any"),
    PLAIN(wait_some, "shmem_long_wait_until_some"),
    PLAIN(wait_all_vector, "shmem_long_wait_until_all_vector"),
    PLAIN(wait_any_vector, "shmem_long_wait_until_any_vector"),
    PLAIN(wait_some_vector, "shmem_long_wait_until_some_vector"),
    PLAIN(test, "shmem_long_test"),
    PLAIN(test_all, "shmem_long_test_all"),
    PLAIN(test_any, "shmem_long_test_any"),
    PLAIN(test_some, "shmem_long_test_some"),
    PLAIN(test_all_vector, "shmem_long_test_all_vector"),
    PLAIN(test_any_vector, "shmem_long_test_any_vector"),
    PLAIN(test_some_vector, "shmem_long_test_some_vector"),
    PLAIN(signal_wait, "shmem_signal_wait_until"),
    LEAVE(signal_loop, "shmem_signal_fetch"),
    {"set_lock", "shmem_set_lock", MODE_HOLDS_LOCK, set_lock},
    {"test_lock", "shmem_test_lock", MODE_HOLDS_LOCK, test_lock},
    {"wait_for_lock", NULL, MODE_INSIDE, wait_for_lock},
    {"own_lock", NULL, MODE_HOLDS_LOCK | MODE_NEEDS_LEAVE, own_lock},
    LEAVE(atomic_loop, "shmem_long_atomic_fetch"),
    LEAVE(get_dead, "shmem_long_get"),
    LEAVE(get_one_dead, "shmem_get64"),
    LEAVE(getmem_dead, "shmem_getmem"),
    LEAVE(ctx_get_dead, "shmem_ctx_long_get"),
    LEAVE(g_dead, "shmem_long_g"),
    LEAVE(iget_dead, "shmem_long_iget"),
    LEAVE(ibget_dead, "shmem_long_ibget"),
    LEAVE(get_nbi_dead, "shmem_quiet"),
    PLAIN(quiet, NULL),
    PLAIN(ctx_quiet, NULL),
    PLAIN(pe_quiet, NULL),
    PLAIN(allocate, "shmem_malloc"),
    PLAIN(allocate_otherwise, "shmem_calloc"),
    PLAIN(nested, "shmem_finalize"),
    PLAIN(nothing, NULL),
};

int mode_number(const Mode* mode) { return (int)(mode - kModes); }

const Mode* mode_named(const char* name) {
    for (size_t i = 0; i < sizeof kModes / sizeof kModes[0]; i++) {
        if (strcmp(kModes[i].name, name) == 0) {
            return &kModes[i];
        }
    }
    return NULL;
}

void print_modes(void) {
    for (size_t i = 0; i < sizeof kModes / sizeof kModes[0]; i++) {
        printf("%s%s\n", kModes[i].name, (kModes[i].flags & MODE_NEEDS_LEAVE) != 0 ? " leave" : "");
    }
}
