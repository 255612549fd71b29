/* Teams, contexts, locks and signals are the same after a recovery as before it, whoever has died and wherever the
 * handles are kept.
 *
 *     handles [--die STEP.PE.ROUND,...] [--action return|jump] [--pace MS]
 *
 * PE dies in STEP, after that has changed something and before the checkpoint, when the step is done for the ROUNDth
 * time (0: the first). There are three sets of handles: in globals, created by every process on its way to the first
 * checkpoint, also by a substitute, which is answered from the record; on the heap, created in the block that a
 * substitute passes by; and in an array of structs, created between two checkpoints. Steps destroy sets and create them
 * anew, so that numbers of handles are used twice; a death takes that back. All are used in every step, with values
 * that are checked. */
#include "apps/app_support.h"

static const char kProgram[] = "handles";

enum { PES_MAX = 8, DEATHS_MAX = 16, STEPS = 10, DELAY_MS = 30, TEAMS = 8, CONTEXTS = 8, NO_STEP = -1 };

typedef struct {
    shmem_team_t teams[TEAMS];
    shmem_ctx_t contexts[CONTEXTS];
} Handles;

typedef struct {
    long words[PES_MAX];
    long counter;
    uint64_t signal;
} Board; /* what members of a team write to each other */

/* Symmetric state. */
static unsigned long step;
static uint64_t sum;
static Handles in_globals;
static struct {
    int filler;
    Handles handles;
} in_structs[2];
static Handles* on_heap;
static Board board;
static long input, output[PES_MAX], rounds_in, rounds_out;
static long never;
static long kept_lock, lost_lock;
static uint64_t steps_signalled;
static long set_sync[SHMEM_REDUCE_SYNC_SIZE], set_work[SHMEM_REDUCE_MIN_WRKDATA_SIZE + 1];

typedef struct {
    unsigned long step;
    int pe;
    long round;
} DeathPlan;

typedef struct {
    DeathPlan deaths[DEATHS_MAX];
    int n_deaths;
    unsigned long pace_ms;
    long round; /* of the current step: how often it has been gone back to */
} Plan;

static bool fault_seen(void) { return shmem_long_test(&never, SHMEM_CMP_EQ, 1) != 0; }

/* What is computed while a fault is pending is nobody's business. */
static void expect(bool is_right, const char* what) {
    if (!is_right && !fault_seen()) {
        char text[APP_ERROR_LENGTH];
        snprintf(text, sizeof text, "step %lu: %s", step, what);
        app_fail(kProgram, text);
    }
}

/* ---- the sets of handles ---- */

/* What a team of a set has to be: every member can tell. */
typedef struct {
    int start, stride, size;
} Shape;

static Shape shape_of(int team, int me, int n_pes) {
    const int columns = 2, x = me % columns, y = me / columns;
    const int row_size = n_pes - y * columns < columns ? n_pes - y * columns : columns;
    const Shape shapes[TEAMS] = {
        {0, 2, (n_pes + 1) / 2},                           /* even PEs */
        {n_pes - 1, -1, n_pes},                            /* all, backwards */
        {y * columns, 1, row_size},                        /* row */
        {x, columns, (n_pes - x + columns - 1) / columns}, /* column */
        {n_pes - 1, -2, (n_pes + 1) / 2},                  /* every other one of those backwards */
        {n_pes - 1, 1, 1},                                 /* the last one, a part of the one before */
        {0, 1, n_pes},                                     /* all */
        {1, 1, n_pes - 1},                                 /* all but the first */
    };
    return shapes[team];
}

static int index_in(Shape shape, int pe) {
    for (int i = 0; i < shape.size; i++) {
        if (shape.start + i * shape.stride == pe) {
            return i;
        }
    }
    return -1;
}

static int split(shmem_team_t parent, Shape part, int n_contexts, shmem_team_t* team) {
    const shmem_team_config_t config = {.num_contexts = n_contexts};
    return shmem_team_split_strided(parent, part.start, part.stride, part.size, &config, SHMEM_TEAM_NUM_CONTEXTS, team);
}

/* seed: nothing but the order, so that other teams get the numbers. */
static void create(Handles* set, int seed) {
    const int n_pes = shmem_n_pes();
    shmem_team_t* const teams = set->teams;
    int failed = 0;
    for (int i = 0; i < 2; i++) {
        if ((i + seed) % 2 == 0) {
            failed += split(SHMEM_TEAM_WORLD, (Shape){0, 2, (n_pes + 1) / 2}, 3, &teams[0]);
            failed += split(SHMEM_TEAM_WORLD, (Shape){n_pes - 1, -1, n_pes}, 1, &teams[1]);
        } else {
            failed += shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, NULL, 0, &teams[2], NULL, 0, &teams[3]);
        }
    }
    failed += split(teams[1], (Shape){0, 2, (n_pes + 1) / 2}, 0, &teams[4]);
    teams[5] = SHMEM_TEAM_INVALID;
    if (teams[4] != SHMEM_TEAM_INVALID) {
        failed += split(teams[4], (Shape){0, 1, 1}, 0, &teams[5]);
    }
    failed += split(SHMEM_TEAM_SHARED, (Shape){0, 1, n_pes}, 0, &teams[6]);
    failed += split(SHMEM_TEAM_WORLD, (Shape){1, 1, n_pes - 1}, 0, &teams[7]);
    static const long kOptions[] = {0, SHMEM_CTX_SERIALIZED, SHMEM_CTX_PRIVATE, SHMEM_CTX_NOSTORE};
    for (int i = 0; i < CONTEXTS; i++) { /* four of the world, and one each of others */
        const int of = i < 4 ? 6 : i - 3;
        set->contexts[i] = SHMEM_CTX_INVALID;
        if (i < 4) {
            failed += shmem_ctx_create(kOptions[i], &set->contexts[i]);
        } else if (teams[of] != SHMEM_TEAM_INVALID) {
            failed += shmem_team_create_ctx(teams[of], kOptions[i % 4], &set->contexts[i]);
        }
    }
    expect(failed == 0, "a team or a context could not be created");
}

static void destroy(Handles* set) {
    for (int i = 0; i < CONTEXTS; i += 2) { /* the others go with their teams, those of the world by hand */
        shmem_ctx_destroy(set->contexts[i]);
    }
    shmem_ctx_destroy(set->contexts[1]);
    shmem_ctx_destroy(set->contexts[3]);
    for (int i = TEAMS - 1; i >= 0; i--) {
        shmem_team_destroy(set->teams[i]);
    }
    memset(set, 0, sizeof *set);
}

/* Local: a substitute that has not joined does it as well. */
static void look_at(const Handles* set) {
    const int me = shmem_my_pe(), n_pes = shmem_n_pes();
    for (int i = 0; i < TEAMS; i++) {
        const Shape shape = shape_of(i, me, n_pes);
        const shmem_team_t team = set->teams[i];
        const int index = index_in(shape, me);
        bool is_right = (team != SHMEM_TEAM_INVALID) == (index >= 0) && shmem_team_my_pe(team) == index;
        for (int member = 0; index >= 0 && member < shape.size; member++) {
            const int pe = shape.start + member * shape.stride;
            is_right = is_right && shmem_team_translate_pe(team, member, SHMEM_TEAM_WORLD) == pe &&
                       shmem_team_translate_pe(SHMEM_TEAM_WORLD, pe, team) == member;
        }
        shmem_team_config_t config = {.num_contexts = -1};
        is_right = is_right && (index < 0 || (shmem_team_n_pes(team) == shape.size &&
                                              shmem_team_get_config(team, SHMEM_TEAM_NUM_CONTEXTS, &config) == 0 &&
                                              config.num_contexts == (i == 0   ? 3
                                                                      : i == 1 ? 1
                                                                               : 0)));
        if (!is_right) { /* also before joining, when a fault is pending all the time */
            app_fail(kProgram, "a team is another one than it was");
        }
    }
    for (int i = 0; i < CONTEXTS; i++) {
        shmem_team_t team = SHMEM_TEAM_INVALID;
        const shmem_team_t of = i < 4 ? SHMEM_TEAM_WORLD : set->teams[i - 3];
        const int failed = shmem_ctx_get_team(set->contexts[i], &team);
        if (team != of || (failed == 0) != (of != SHMEM_TEAM_INVALID)) {
            app_fail(kProgram, "a context belongs to another team than it did");
        }
    }
}

/* ---- their use ---- */

static void use_collectives(shmem_team_t team, Shape shape, int me) {
    long expected = 0;
    for (int member = 0; member < shape.size; member++) {
        expected += 1000 * (shape.start + member * shape.stride) + (long)step;
    }
    input = 1000 * me + (long)step;
    int failed = shmem_long_sum_reduce(team, &output[0], &input, 1);
    expect(failed == 0 && output[0] == expected, "a sum over a team is wrong");
    failed = shmem_long_fcollect(team, output, &input, 1);
    for (int member = 0; member < shape.size; member++) {
        expect(output[member] == 1000 * (shape.start + member * shape.stride) + (long)step, "a collection is wrong");
    }
    expect(failed == 0, "a collection over a team fails");
    sum = app_hash(app_hash_number(sum, (uint64_t)expected), output, (size_t)shape.size * sizeof output[0]);
    expect(shmem_team_sync(team) == 0, "a sync of a team fails");
}

/* A put, an atomic, a signal and a store to the next member. */
static void use_context(shmem_ctx_t ctx, shmem_team_t team, Shape shape, int me) {
    const int index = index_in(shape, me), next = (index + 1) % shape.size;
    const int left = (index + shape.size - 1) % shape.size;
    memset(&board, 0, sizeof board);
    expect(shmem_team_sync(team) == 0, "a sync before the use of a context fails");
    const long number = 7000 + 10 * me + (long)step;
    shmem_ctx_long_p(ctx, &board.words[0], number, next);
    shmem_ctx_long_put_nbi(ctx, &board.words[1], &number, 1, next);
    shmem_ctx_long_atomic_add(ctx, &board.counter, number, next);
    long* const direct = shmem_team_ptr(team, &board.words[2], next);
    if (direct != NULL) {
        *direct = number;
    }
    shmem_ctx_fence(ctx);
    shmem_ctx_long_put_signal(ctx, &board.words[3], &number, 1, &board.signal, step + 1, SHMEM_SIGNAL_SET, next);
    shmem_ctx_quiet(ctx);
    const uint64_t seen = shmem_signal_wait_until(&board.signal, SHMEM_CMP_NE, 0);
    const long theirs = 7000 + 10 * (shape.start + left * shape.stride) + (long)step;
    bool is_right = seen == step + 1 && board.counter == theirs;
    for (int i = 0; i < 4; i++) {
        is_right = is_right && board.words[i] == theirs;
    }
    expect(is_right, "what went through a context has not arrived");
    expect(shmem_ctx_long_g(ctx, &board.counter, index) == theirs, "a get through a context is wrong");
    expect(shmem_team_sync(team) == 0, "a sync behind the use of a context fails");
}

static void use(const Handles* set) {
    const int me = shmem_my_pe(), n_pes = shmem_n_pes();
    look_at(set);
    for (int i = 0; i < TEAMS; i++) {
        if (set->teams[i] != SHMEM_TEAM_INVALID) {
            use_collectives(set->teams[i], shape_of(i, me, n_pes), me);
        }
    }
    for (int i = 0; i < CONTEXTS; i++) {
        const int of = i < 4 ? 6 : i - 3;
        if (set->contexts[i] != SHMEM_CTX_INVALID) {
            use_context(set->contexts[i], set->teams[of], shape_of(of, me, n_pes), me);
        }
    }
}

/* ---- who dies ---- */

/* pe < 0: anybody. */
static bool is_due(const Plan* plan, int pe) {
    for (int i = 0; i < plan->n_deaths; i++) {
        const DeathPlan* const death = &plan->deaths[i];
        if (death->step == step && death->round == plan->round && (pe < 0 || death->pe == pe)) {
            return true;
        }
    }
    return false;
}

/* ---- what else keeps state in symmetric memory ---- */

/* A lock is tried by one PE that does not have it. */
static bool is_free(long* lock) {
    if (shmem_test_lock(lock) != 0) {
        return false;
    }
    shmem_clear_lock(lock);
    return true;
}

/* Steps 3 to 5: PE 1 has one lock and the last PE the other, across checkpoints and deaths. */
static void use_locks(const Plan* plan, bool somebody_dies) {
    const int me = shmem_my_pe(), last = shmem_n_pes() - 1;
    if (step == 3 && me == 1) {
        shmem_set_lock(&kept_lock);
    } else if (step == 3 && me == last) {
        shmem_set_lock(&lost_lock);
    }
    shmem_barrier_all();
    if (me == 0) {
        const bool should_be_free = step < 3 || step > 5;
        expect(is_free(&kept_lock) == should_be_free && is_free(&lost_lock) == should_be_free,
               "a lock is not as it was");
    }
    shmem_barrier_all();
    if (step == 5 && me == 1) {
        shmem_clear_lock(&kept_lock);
    } else if (step == 5 && me == last) {
        shmem_clear_lock(&lost_lock);
    }
    if (step == 4 && me == 2 && somebody_dies && !is_due(plan, me)) {
        shmem_set_lock(&kept_lock); /* a ticket that nobody will serve: the rollback takes it back */
    }
}

static void use_sets_of_pes(void) {
    /* A pointer that was asked for once leads to whoever is the neighbour now. */
    static long* neighbour SHMEM_FT_PRIVATE = NULL;
    static long from_neighbour;
    if (neighbour == NULL) {
        neighbour = shmem_ptr(&from_neighbour, (shmem_my_pe() + 1) % shmem_n_pes());
    }
    *neighbour = (long)step + 40;
    expect(steps_signalled == step * (uint64_t)shmem_n_pes(), "a signal is not as it was");
    for (size_t i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++) {
        expect(set_sync[i] == SHMEM_SYNC_VALUE, "a pSync array is not as it was");
    }
    input = 1 + shmem_my_pe();
    shmem_long_sum_to_all(output, &input, 1, 0, 0, shmem_n_pes(), set_work, set_sync);
    expect(output[0] == (long)shmem_n_pes() * (shmem_n_pes() + 1) / 2, "a sum over an active set is wrong");
    expect(from_neighbour == (long)step + 40, "a store through a pointer of shmem_ptr has not arrived");
    for (int pe = 0; pe < shmem_n_pes(); pe++) {
        shmem_signal_add(&steps_signalled, 1, pe);
    }
    shmem_barrier_all();
}

/* ---- steps ---- */

static void change_handles(void) {
    if (step == 0) {
        create(&in_structs[1].handles, 1);
    } else if (step == 3) {
        shmem_init(); /* a part of the program with an initialisation of its own, until step 6 */
    } else if (step == 6) {
        shmem_finalize();
    } else if (step == 2) {
        destroy(on_heap);
        destroy(&in_globals);
        create(on_heap, 1);
        create(&in_globals, 0);
    } else if (step == 7) {
        destroy(&in_structs[1].handles);
        in_structs[0].handles = *on_heap; /* a copy is as good */
        create(on_heap, 0);
    } else if (step == 8) {
        destroy(&in_structs[0].handles);
    }
}

static void compute_step(const Plan* plan) {
    const int me = shmem_my_pe();
    use(&in_globals);
    use(on_heap);
    if (in_structs[1].handles.teams[1] != SHMEM_TEAM_INVALID) {
        use(&in_structs[1].handles);
    }
    use_sets_of_pes();
    change_handles();
    use(&in_globals);
    use_locks(plan, is_due(plan, -1));
    if (is_due(plan, me)) {
        /* In the middle of everything: operations outstanding, a pSync array in use, a signal on its way. */
        shmem_long_put_nbi(output, &input, 1, (me + 1) % shmem_n_pes());
        shmem_signal_add(&steps_signalled, 100, (me + 1) % shmem_n_pes());
        shmem_long_p(&set_sync[0], 77, (me + 1) % shmem_n_pes());
        app_sleep_ms(DELAY_MS);
        raise(SIGKILL);
    }
    app_sleep_ms(plan->pace_ms);
    shmem_barrier_all();
    step++;
}

/* Everybody counts how often the step has been begun, also who was not there. */
static long recover(long round) {
    app_recover();
    rounds_in = round + 1;
    shmem_long_max_reduce(SHMEM_TEAM_WORLD, &rounds_out, &rounds_in, 1);
    return rounds_out;
}

static void run(Plan* plan) {
    static volatile long reached SHMEM_FT_PRIVATE = NO_STEP; /* the step that rounds are counted for */
    static volatile long round SHMEM_FT_PRIVATE = 0;
    if (SHMEM_FT_ROLLBACK_POINT()) {
        round = recover(reached == (long)step ? round : 0);
        reached = (long)step;
    }
    bool finished = false;
    do {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            round = recover(round);
            reached = (long)step;
        } else if (step < STEPS) {
            round = reached == (long)step ? round : 0;
            reached = (long)step;
            plan->round = round;
            compute_step(plan);
        } else {
            finished = true;
        }
    } while (!finished);
}

/* Handles that do not live until the first checkpoint, with the numbers of others that do. */
static void begin(void) {
    const int me = shmem_my_pe(), n_pes = shmem_n_pes();
    Handles early;
    create(&early, 1);
    look_at(&early);
    shmem_team_sync(early.teams[1]);
    shmem_ctx_long_p(early.contexts[0], &never, 0, (me + 1) % n_pes);
    shmem_ctx_quiet(early.contexts[0]);
    shmem_barrier_all();
    destroy(&early);
    create(&in_globals, 0);
    look_at(&in_globals);
}

static void read_deaths(Plan* plan, const char* text, char* error) {
    while (*text != '\0') {
        int length = 0;
        DeathPlan* const death = &plan->deaths[plan->n_deaths];
        if (plan->n_deaths == DEATHS_MAX ||
            sscanf(text, "%lu.%d.%ld%n", &death->step, &death->pe, &death->round, &length) != 3) {
            snprintf(error, APP_ERROR_LENGTH, "--die %.40s: expected STEP.PE.ROUND,...", text);
            return;
        }
        plan->n_deaths++;
        text += length;
        text += *text == ',';
    }
}

int main(int argc, char** argv) {
    shmem_init();
    Plan plan = {.n_deaths = 0};
    const char *die = "", *action = "return";
    const AppOption table[] = {
        {.name = "die", .help = "STEP.PE.ROUND,...", .text = &die},
        {.name = "action", .help = "return or jump", .text = &action},
        {.name = "pace", .help = "milliseconds to idle per step", .number = &plan.pace_ms, .maximum = 1000},
        {.name = NULL},
    };
    AppCommandLine line = app_parse(argc, argv, table);
    read_deaths(&plan, die, line.error);
    if (shmem_n_pes() < 3 || shmem_n_pes() > PES_MAX) {
        snprintf(line.error, sizeof line.error, "%d PEs: 3 to %d are right", shmem_n_pes(), (int)PES_MAX);
    }
    app_stop_on_error(kProgram, line.error);
    on_heap = shmem_calloc(1, sizeof *on_heap);
    begin();
    if (shmem_ft_algo_init()) {
        create(on_heap, 0);
        for (size_t i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++) {
            set_sync[i] = SHMEM_SYNC_VALUE;
        }
    }
    if (strcmp(action, "jump") == 0) {
        shmem_ft_on_fault(SHMEM_FT_ON_FAULT_JUMP, NULL, NULL);
    }
    run(&plan);
    destroy(&in_globals);
    destroy(on_heap);
    const bool all_free = shmem_my_pe() != 0 || (is_free(&kept_lock) && is_free(&lost_lock));
    printf("result %d %016llx %d\n", shmem_my_pe(), (unsigned long long)sum, (int)all_free);
    fflush(stdout);
    shmem_finalize();
    return 0;
}
