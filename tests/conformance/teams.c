/* Teams and contexts: splitting, translation, invalid handles, team-relative PE numbers, sessions. */
#include <limits.h>

#include "tests/conformance/check.h"

static int me, npes;
static shmem_team_t kept_handle; /* handles may live in symmetric memory */

static void check_predefined(void) {
    CHECK(shmem_team_my_pe(SHMEM_TEAM_WORLD) == me && shmem_team_n_pes(SHMEM_TEAM_WORLD) == npes);
    /* Its members can load and store each other's memory, and they agree on who they are. */
    static int members;
    const int n = shmem_team_n_pes(SHMEM_TEAM_SHARED), place = shmem_team_my_pe(SHMEM_TEAM_SHARED);
    CHECK(place >= 0 && place < n && n <= npes);
    CHECK(shmem_team_translate_pe(SHMEM_TEAM_SHARED, place, SHMEM_TEAM_WORLD) == me);
    long* const cell = shmem_calloc(1, sizeof *cell);
    CHECK(cell != NULL);
    members = n;
    shmem_barrier_all();
    for (int i = 0; i < n; i++) {
        const int pe = shmem_team_translate_pe(SHMEM_TEAM_SHARED, i, SHMEM_TEAM_WORLD);
        CHECK(pe >= 0 && shmem_team_translate_pe(SHMEM_TEAM_WORLD, pe, SHMEM_TEAM_SHARED) == i);
        long* const theirs = shmem_team_ptr(SHMEM_TEAM_SHARED, cell, i);
        CHECK(theirs != NULL && theirs == shmem_ptr(cell, pe));
        CHECK(shmem_int_g(&members, pe) == n);
        __atomic_fetch_add(theirs, 1, __ATOMIC_SEQ_CST);
    }
    CHECK(shmem_team_sync(SHMEM_TEAM_SHARED) == 0);
    CHECK(*(volatile long*)cell == n);
    /* One for each node. */
    static int teams;
    const char* const nodes = getenv("CONFORMANCE_NODES");
    const int n_nodes = nodes == NULL ? 1 : atoi(nodes);
    if (place == 0) {
        shmem_int_atomic_inc(&teams, 0);
    }
    shmem_barrier_all();
    CHECK(shmem_int_g(&teams, 0) == (n_nodes < npes ? n_nodes : npes));
    shmem_free(cell);
}

static void check_strided(void) {
    shmem_team_config_t config = {.num_contexts = 2};
    const int half = (npes + 1) / 2;
    shmem_team_t even = SHMEM_TEAM_WORLD;
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, half, &config, SHMEM_TEAM_NUM_CONTEXTS, &even) == 0);
    CHECK((even == SHMEM_TEAM_INVALID) == (me % 2 == 1));
    if (even != SHMEM_TEAM_INVALID) {
        CHECK(shmem_team_my_pe(even) == me / 2 && shmem_team_n_pes(even) == half);
        shmem_team_config_t got = {.num_contexts = -1};
        CHECK(shmem_team_get_config(even, SHMEM_TEAM_NUM_CONTEXTS, &got) == 0 && got.num_contexts == 2);
        CHECK(shmem_team_get_config(even, 0, NULL) == 0);
        CHECK(shmem_team_translate_pe(even, half - 1, SHMEM_TEAM_WORLD) == 2 * (half - 1));
        CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, 1 % npes, even) == (npes == 1 ? 0 : -1));
        CHECK(shmem_team_sync(even) == 0); /* usable at once */
        shmem_team_t last = SHMEM_TEAM_WORLD;
        CHECK(shmem_team_split_strided(even, half - 1, 0, 1, NULL, 0, &last) == 0);
        CHECK((last != SHMEM_TEAM_INVALID) == (shmem_team_my_pe(even) == half - 1));
        if (last != SHMEM_TEAM_INVALID) {
            CHECK(shmem_team_my_pe(last) == 0 && shmem_team_n_pes(last) == 1);
            shmem_team_destroy(last);
        }
        shmem_team_destroy(even);
    }
    shmem_team_t reversed = SHMEM_TEAM_INVALID;
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, npes - 1, -1, npes, NULL, 0, &reversed) == 0);
    CHECK(shmem_team_my_pe(reversed) == npes - 1 - me);
    static long cell;
    cell = -1;
    shmem_barrier_all();
    CHECK(shmem_team_ptr(reversed, &cell, 0) == shmem_ptr(&cell, npes - 1));
    *(long*)shmem_team_ptr(reversed, &cell, shmem_team_my_pe(reversed)) = me;
    CHECK(cell == me);
    kept_handle = reversed;
    shmem_barrier_all();
    shmem_team_t theirs = SHMEM_TEAM_INVALID;
    shmem_getmem(&theirs, &kept_handle, sizeof theirs, (me + 1) % npes);
    CHECK(theirs == reversed);
    shmem_barrier_all();
    shmem_team_destroy(reversed);
}

/* What names PEs outside of the parent, wraps around or is empty is refused on all PEs. */
static void check_bad_splits(void) {
    const int triplets[][3] = {{0, 1, npes + 1},
                               {npes, 1, 1},
                               {0, 0, 2},
                               {-1, 1, 1},
                               {0, 1, 0},
                               {0, 1, -1},
                               {0, -1, 2},
                               {npes - 1, 1, 2},
                               {npes - 1, -1, npes + 1},
                               {0, INT_MAX, 3},
                               {npes - 1, INT_MIN, 3},
                               {0, npes, 2}};
    for (size_t i = 0; i < sizeof triplets / sizeof triplets[0]; i++) {
        shmem_team_t team = SHMEM_TEAM_WORLD;
        CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, triplets[i][0], triplets[i][1], triplets[i][2], NULL, 0,
                                       &team) != 0);
        CHECK(team == SHMEM_TEAM_INVALID);
    }
    shmem_team_t team = SHMEM_TEAM_WORLD, other = SHMEM_TEAM_WORLD;
    CHECK(shmem_team_split_strided(SHMEM_TEAM_INVALID, 0, 1, 1, NULL, 0, &team) != 0 && team == SHMEM_TEAM_INVALID);
    team = SHMEM_TEAM_WORLD;
    CHECK(shmem_team_split_2d(SHMEM_TEAM_INVALID, 1, NULL, 0, &team, NULL, 0, &other) != 0);
    CHECK(team == SHMEM_TEAM_INVALID && other == SHMEM_TEAM_INVALID);
}

static void check_2d(void) {
    const int ranges[] = {1, 2, 3, npes, npes + 3};
    for (int i = 0; i < 5; i++) {
        const int xrange = ranges[i] < npes ? ranges[i] : npes;
        shmem_team_t x = SHMEM_TEAM_INVALID, y = SHMEM_TEAM_INVALID;
        CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, ranges[i], NULL, 0, &x, NULL, 0, &y) == 0);
        CHECK(shmem_team_my_pe(x) == me % xrange && shmem_team_my_pe(y) == me / xrange);
        const int row_first = me / xrange * xrange;
        CHECK(shmem_team_n_pes(x) == (npes - row_first < xrange ? npes - row_first : xrange));
        for (int pe = 0; pe < shmem_team_n_pes(x); pe++) {
            CHECK(shmem_team_translate_pe(x, pe, SHMEM_TEAM_WORLD) == row_first + pe);
        }
        for (int pe = 0; pe < shmem_team_n_pes(y); pe++) {
            CHECK(shmem_team_translate_pe(y, pe, SHMEM_TEAM_WORLD) == me % xrange + pe * xrange);
        }
        CHECK(shmem_team_sync(x) == 0 && shmem_team_sync(y) == 0);
        shmem_team_destroy(x);
        shmem_team_destroy(y);
    }
}

static void check_invalid_handles(void) {
    shmem_team_config_t config = {.num_contexts = 7};
    CHECK(shmem_team_my_pe(SHMEM_TEAM_INVALID) == -1 && shmem_team_n_pes(SHMEM_TEAM_INVALID) == -1);
    CHECK(shmem_team_translate_pe(SHMEM_TEAM_INVALID, 0, SHMEM_TEAM_WORLD) == -1);
    CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, 0, SHMEM_TEAM_INVALID) == -1);
    CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, npes, SHMEM_TEAM_WORLD) == -1);
    CHECK(shmem_team_get_config(SHMEM_TEAM_INVALID, SHMEM_TEAM_NUM_CONTEXTS, &config) != 0 && config.num_contexts == 7);
    shmem_team_destroy(SHMEM_TEAM_INVALID);
    shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;
    CHECK(shmem_team_create_ctx(SHMEM_TEAM_INVALID, 0, &ctx) != 0 && ctx == SHMEM_CTX_INVALID);
    shmem_team_t team = SHMEM_TEAM_WORLD;
    CHECK(shmem_ctx_get_team(SHMEM_CTX_INVALID, &team) != 0 && team == SHMEM_TEAM_INVALID);
    shmem_ctx_destroy(SHMEM_CTX_INVALID);
    shmem_ctx_fence(SHMEM_CTX_INVALID);
    shmem_ctx_quiet(SHMEM_CTX_INVALID);
    shmem_ctx_pe_quiet(SHMEM_CTX_INVALID, NULL, 0);
    shmem_ctx_session_start(SHMEM_CTX_INVALID, 0, NULL, 0);
    shmem_ctx_session_stop(SHMEM_CTX_INVALID);
}

static void check_contexts(void) {
    const long options[] = {0, SHMEM_CTX_SERIALIZED, SHMEM_CTX_PRIVATE, SHMEM_CTX_NOSTORE,
                            SHMEM_CTX_SERIALIZED | SHMEM_CTX_PRIVATE | SHMEM_CTX_NOSTORE};
    static long cell;
    const int right = (me + 1) % npes, left = (me + npes - 1) % npes;
    for (int i = 0; i < 5; i++) {
        shmem_ctx_t ctx = SHMEM_CTX_INVALID;
        shmem_team_t team = SHMEM_TEAM_INVALID;
        CHECK(shmem_ctx_create(options[i], &ctx) == 0 && ctx != SHMEM_CTX_INVALID && ctx != SHMEM_CTX_DEFAULT);
        CHECK(shmem_ctx_get_team(ctx, &team) == 0 && team == SHMEM_TEAM_WORLD);
        const long value = me * 10 + i;
        shmem_ctx_long_put_nbi(ctx, &cell, &value, 1, right);
        shmem_ctx_destroy(ctx); /* completes what was done on it */
        shmem_sync_all();
        CHECK(cell == left * 10 + i);
        shmem_sync_all();
    }
    shmem_team_t team = SHMEM_TEAM_INVALID;
    CHECK(shmem_ctx_get_team(SHMEM_CTX_DEFAULT, &team) == 0 && team == SHMEM_TEAM_WORLD);
}

/* In a team that counts backwards, PE 0 of the context is the last of the world. */
static void check_team_context(void) {
    static long cell, count;
    shmem_team_t reversed = SHMEM_TEAM_INVALID, team = SHMEM_TEAM_INVALID;
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;
    const shmem_team_config_t config = {.num_contexts = 1};
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, npes - 1, -1, npes, &config, SHMEM_TEAM_NUM_CONTEXTS, &reversed) ==
          0);
    CHECK(shmem_team_create_ctx(reversed, 0, &ctx) == 0);
    CHECK(shmem_ctx_get_team(ctx, &team) == 0 && team == reversed);
    const shmem_ctx_session_config_t session = {.total_ops = 100};
    shmem_ctx_session_start(ctx, SHMEM_CTX_SESSION_BATCH, &session, SHMEM_CTX_SESSION_TOTAL_OPS);
    shmem_ctx_session_start(ctx, 0, NULL, 0);
    if (me == 0) {
        shmem_ctx_long_p(ctx, &cell, 99, 0);
        shmem_ctx_quiet(ctx);
    }
    shmem_ctx_long_atomic_inc(ctx, &count, 0);
    const int target = 0;
    shmem_ctx_pe_quiet(ctx, &target, 1);
    shmem_ctx_session_stop(ctx);
    shmem_ctx_session_stop(ctx);
    CHECK(shmem_team_sync(reversed) == 0);
    CHECK(cell == (me == npes - 1 ? 99 : 0));
    CHECK(count == (me == npes - 1 ? npes : 0));
    CHECK(shmem_ctx_long_g(ctx, &cell, 0) == 99);
    shmem_team_destroy(reversed); /* and the context with it */
}

/* PEs that are not members may go through the same calls with the handles that they have got. */
static void check_non_members(void) {
    const shmem_team_config_t config = {.num_contexts = 1};
    shmem_team_t team = SHMEM_TEAM_WORLD;
    shmem_ctx_t team_ctx = SHMEM_CTX_DEFAULT;
    static long cell;
    cell = 0;
    shmem_barrier_all();
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 1, &config, SHMEM_TEAM_NUM_CONTEXTS, &team) == 0);
    const int created = shmem_team_create_ctx(team, SHMEM_CTX_SERIALIZED, &team_ctx) == 0;
    CHECK(created == (me == 0) && (team_ctx != SHMEM_CTX_INVALID) == created);
    if (created) {
        shmem_ctx_long_p(team_ctx, &cell, 5, 0);
    }
    shmem_ctx_fence(team_ctx);
    shmem_ctx_quiet(team_ctx);
    CHECK(cell == (me == 0 ? 5 : 0));
    CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, me, team) == (me == 0 ? 0 : -1));
    CHECK((shmem_team_ptr(team, &cell, 0) != NULL) == (me == 0));
    shmem_ctx_destroy(team_ctx);
    shmem_team_destroy(team);
}

/* A part of a part: numbers on its contexts, pointers and translations all go by the way it was made. */
static void check_part_of_part(void) {
    static long cells[2];
    cells[0] = cells[1] = -1;
    shmem_team_t row, column, part = SHMEM_TEAM_INVALID;
    CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, 4, NULL, 0, &row, NULL, 0, &column) == 0);
    const int width = shmem_team_n_pes(row), in_row = shmem_team_my_pe(row), row_first = me - in_row;
    CHECK(shmem_team_split_strided(row, width - 1, width == 1 ? 0 : -2, (width + 1) / 2, NULL, 0, &part) == 0);
    CHECK((part != SHMEM_TEAM_INVALID) == ((width - 1 - in_row) % 2 == 0));
    if (part != SHMEM_TEAM_INVALID) {
        const int n = shmem_team_n_pes(part), place = shmem_team_my_pe(part), next = (place + 1) % n;
        CHECK(n == (width + 1) / 2 && place == (width - 1 - in_row) / 2);
        const int world_next = shmem_team_translate_pe(part, next, SHMEM_TEAM_WORLD);
        CHECK(world_next == row_first + width - 1 - 2 * next);
        CHECK(shmem_team_translate_pe(part, next, row) == width - 1 - 2 * next);
        const int shared_next = shmem_team_translate_pe(SHMEM_TEAM_WORLD, world_next, SHMEM_TEAM_SHARED);
        CHECK(shared_next == -1 || shmem_team_translate_pe(SHMEM_TEAM_SHARED, shared_next, part) == next);
        CHECK(shmem_team_translate_pe(part, n, row) == -1 && shmem_team_translate_pe(part, -1, row) == -1);
        CHECK(shmem_team_ptr(part, cells, next) == shmem_ptr(cells, world_next));
        CHECK(shmem_team_sync(part) == 0);
        shmem_ctx_t ctx;
        CHECK(shmem_team_create_ctx(part, 0, &ctx) == 0);
        const long values[2] = {place, me};
        shmem_ctx_long_put_nbi(ctx, cells, values, 2, next);
        shmem_ctx_quiet(ctx);
        CHECK(shmem_team_sync(part) == 0);
        const int before = (place + n - 1) % n;
        CHECK(cells[0] == before && cells[1] == shmem_team_translate_pe(part, before, SHMEM_TEAM_WORLD));
        CHECK(shmem_ctx_long_atomic_fetch(ctx, &cells[0], next) == place);
        shmem_ctx_destroy(ctx);
        /* The part runs backwards; the first two of it do so as well, and all of it the other way runs forwards. */
        shmem_team_t first, forwards;
        CHECK(shmem_team_split_strided(part, 0, 1, n > 1 ? 2 : 1, NULL, 0, &first) == 0);
        CHECK((first != SHMEM_TEAM_INVALID) == (place < 2));
        for (int pe = 0; pe < shmem_team_n_pes(first); pe++) {
            CHECK(shmem_team_translate_pe(first, pe, row) == width - 1 - 2 * pe);
        }
        CHECK(shmem_team_split_strided(part, n - 1, -1, n, NULL, 0, &forwards) == 0);
        for (int pe = 0; pe < n; pe++) {
            CHECK(shmem_team_translate_pe(forwards, pe, part) == n - 1 - pe);
            CHECK(shmem_team_translate_pe(forwards, pe, row) == (width - 1) % 2 + 2 * pe);
        }
        CHECK(shmem_team_sync(forwards) == 0);
        shmem_team_destroy(forwards);
        shmem_team_destroy(first);
    }
    shmem_team_destroy(part);
    shmem_team_destroy(column);
    shmem_team_destroy(row);
    shmem_barrier_all();
}

/* A session is a hint: whatever it says, what is done in it is done. */
static void check_sessions(void) {
    static long cells[100];
    const int right = (me + 1) % npes, left = (me + npes - 1) % npes;
    shmem_ctx_t ctx;
    CHECK(shmem_ctx_create(0, &ctx) == 0);
    const shmem_ctx_t contexts[] = {ctx, SHMEM_CTX_DEFAULT};
    for (int c = 0; c < 2; c++) {
        const shmem_ctx_session_config_t too_few = {.total_ops = 3}, no_limit = {.total_ops = SIZE_MAX};
        for (int form = 0; form < 4; form++) {
            switch (form) {
                case 0: shmem_ctx_session_start(contexts[c], 0, NULL, 0); break;
                case 1: shmem_ctx_session_start(contexts[c], SHMEM_CTX_SESSION_BATCH, NULL, 0); break;
                case 2: shmem_ctx_session_start(contexts[c], 0, &too_few, SHMEM_CTX_SESSION_TOTAL_OPS); break;
                default:
                    shmem_ctx_session_start(contexts[c], SHMEM_CTX_SESSION_BATCH, &too_few, 0);
                    shmem_ctx_session_start(contexts[c], 0, &no_limit, SHMEM_CTX_SESSION_TOTAL_OPS);
            }
            for (int i = 0; i < 100; i++) {
                shmem_ctx_long_p(contexts[c], &cells[i], me * 1000 + i + form, right);
            }
            shmem_ctx_session_stop(contexts[c]);
            shmem_ctx_quiet(contexts[c]);
            shmem_sync_all();
            for (int i = 0; i < 100; i++) {
                CHECK(cells[i] == left * 1000 + i + form);
            }
            shmem_sync_all();
        }
        shmem_ctx_session_stop(contexts[c]);
    }
    shmem_ctx_destroy(ctx);
}

/* Many more than fit in the tables at once, made and destroyed again. */
static void check_turnover(void) {
    for (int i = 0; i < 600; i++) {
        shmem_team_t team = SHMEM_TEAM_INVALID;
        shmem_ctx_t ctx = SHMEM_CTX_INVALID;
        CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, npes, NULL, 0, &team) == 0);
        CHECK(shmem_team_create_ctx(team, 0, &ctx) == 0);
        if (i % 2 == 0) {
            shmem_ctx_destroy(ctx);
        }
        shmem_team_destroy(team);
    }
}

/* When there are no more, the call says so and the library goes on; what is given back can be had again. */
static void check_running_out(void) {
    enum { MOST = 20000 };
    static shmem_ctx_t contexts[MOST];
    static shmem_team_t teams[MOST];
    int n_contexts = 0, n_teams = 0;
    while (n_contexts < MOST && shmem_ctx_create(0, &contexts[n_contexts]) == 0) {
        n_contexts++;
    }
    CHECK(n_contexts > 16 && (n_contexts == MOST || contexts[n_contexts] == SHMEM_CTX_INVALID));
    for (int i = 0; i < n_contexts; i++) {
        shmem_ctx_destroy(contexts[i]);
    }
    CHECK(shmem_ctx_create(0, &contexts[0]) == 0);
    shmem_ctx_destroy(contexts[0]);
    while (n_teams < MOST && shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, npes, NULL, 0, &teams[n_teams]) == 0) {
        n_teams++;
    }
    CHECK(n_teams > 16 && (n_teams == MOST || teams[n_teams] == SHMEM_TEAM_INVALID));
    for (int i = 0; i < n_teams; i++) {
        CHECK(shmem_team_n_pes(teams[i]) == npes);
        shmem_team_destroy(teams[i]);
    }
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, npes, NULL, 0, &teams[0]) == 0);
    shmem_team_destroy(teams[0]);
}

int main(void) {
    shmem_init();
    me = shmem_my_pe();
    npes = shmem_n_pes();
    check_predefined();
    check_strided();
    check_bad_splits();
    check_2d();
    check_invalid_handles();
    check_contexts();
    check_team_context();
    check_non_members();
    check_part_of_part();
    check_sessions();
    check_turnover();
    check_running_out();
    shmem_finalize();
    return 0;
}
