/* Barriers and syncs, and collectives one behind the other without anything in between: on one team and on several that
 * overlap, with PEs that arrive at different times. */
#include "tests/conformance/check.h"

enum { ROUNDS = 40, COUNT = 40, MOST_PES = 16, KINDS = 7, SMALL = 3 };
static int me, npes;

static void check_syncs(void) {
    static long arrived;
    for (long turn = 1; turn <= 100; turn++) {
        shmem_long_atomic_inc(&arrived, 0);
        if (turn % 10 == 0) {
            delay_below(300, (unsigned)turn);
        }
        shmem_barrier_all();
        CHECK(shmem_long_atomic_fetch(&arrived, 0) == turn * npes);
        shmem_sync_all();
    }
    /* A barrier completes puts, and plain stores are seen after a sync. */
    static long cell, stored;
    const int right = (me + 1) % npes, left = (me + npes - 1) % npes;
    const int place = shmem_team_my_pe(SHMEM_TEAM_SHARED), n_shared = shmem_team_n_pes(SHMEM_TEAM_SHARED);
    const int neighbour =
        shmem_team_translate_pe(SHMEM_TEAM_SHARED, (place + 1) % n_shared, SHMEM_TEAM_WORLD); /* on this node */
    for (long turn = 1; turn <= 100; turn++) {
        const long value = turn * 100 + me;
        shmem_long_put_nbi(&cell, &value, 1, right);
        stored = value;
        shmem_barrier_all();
        CHECK(cell == turn * 100 + left);
        CHECK(*(volatile long*)shmem_ptr(&stored, neighbour) == turn * 100 + neighbour);
        CHECK(shmem_long_g(&stored, right) == turn * 100 + right);
        shmem_sync_all();
        stored = -turn;
        switch (turn % 3) {
            case 0: shmem_sync_all(); break;
            case 1: CHECK(shmem_team_sync(SHMEM_TEAM_WORLD) == 0); break;
            default: CHECK(shmem_team_sync(SHMEM_TEAM_SHARED) == 0);
        }
        CHECK(*(volatile long*)shmem_ptr(&stored, neighbour) == -turn);
        CHECK(turn % 3 == 2 || shmem_long_g(&stored, right) == -turn); /* the shared team has met alone */
        shmem_sync_all();
    }
}

/* A sync of one team must not wait for PEs outside of it. */
static void check_sync_of_part(void) {
    static long done;
    shmem_team_t rest = SHMEM_TEAM_INVALID;
    if (npes == 1) {
        return;
    }
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 1, 1, npes - 1, NULL, 0, &rest) == 0);
    if (me == 0) {
        shmem_long_wait_until(&done, SHMEM_CMP_EQ, npes - 1);
    } else {
        for (int turn = 0; turn < 10; turn++) {
            CHECK(shmem_team_sync(rest) == 0);
        }
        shmem_long_atomic_inc(&done, 0);
    }
    shmem_barrier_all();
    shmem_team_destroy(rest);
}

/* Every call has its own source and destination, so that none waits for what the interface does not ask for. */
struct buffers {
    long source[COUNT * MOST_PES], dest[COUNT * MOST_PES];
};
static struct buffers* memory;

static long value_of(int pe, int call, size_t i) { return pe * 100000L + call * 1000L + (long)i; }

static void check_call(shmem_team_t team, int call, size_t count) {
    struct buffers* const here = &memory[call];
    const int n = shmem_team_n_pes(team), mine = shmem_team_my_pe(team), root = call % n;
    const size_t members = (size_t)n;
    switch (call % KINDS) {
        case 0:
            CHECK(shmem_long_broadcast(team, here->dest, here->source, count, root) == 0);
            for (size_t i = 0; i < count; i++) {
                CHECK_FOR(broadcast,
                          here->dest[i] == value_of(shmem_team_translate_pe(team, root, SHMEM_TEAM_WORLD), call, i));
            }
            break;
        case 1:
        case 2:
            if (call % KINDS == 1) {
                CHECK(shmem_long_fcollect(team, here->dest, here->source, count) == 0);
            } else {
                CHECK(shmem_long_collect(team, here->dest, here->source, count) == 0);
            }
            for (size_t i = 0; i < count * members; i++) {
                const int from = shmem_team_translate_pe(team, (int)(i / count), SHMEM_TEAM_WORLD);
                CHECK_FOR(collect, here->dest[i] == value_of(from, call, i % count));
            }
            break;
        case 3:
            CHECK(shmem_long_alltoall(team, here->dest, here->source, count) == 0);
            for (size_t i = 0; i < count * members; i++) {
                const int from = shmem_team_translate_pe(team, (int)(i / count), SHMEM_TEAM_WORLD);
                CHECK_FOR(alltoall, here->dest[i] == value_of(from, call, (size_t)mine * count + i % count));
            }
            break;
        default: {
            long* const result = call % 2 == 0 ? here->dest : here->source;
            const int is_scan = call % KINDS == 6, last = is_scan ? mine : n - 1;
            if (is_scan) {
                CHECK(shmem_long_sum_inscan(team, result, here->source, count) == 0);
            } else {
                CHECK(shmem_long_sum_reduce(team, result, here->source, count) == 0);
            }
            for (size_t i = 0; i < count; i++) {
                long expected = 0;
                for (int pe = 0; pe <= last; pe++) {
                    expected += value_of(shmem_team_translate_pe(team, pe, SHMEM_TEAM_WORLD), call, i);
                }
                CHECK_FOR(reduction, result[i] == expected);
            }
        }
    }
}

static void check_back_to_back(void) {
    shmem_team_t row, column, reversed;
    CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, NULL, 0, &row, NULL, 0, &column) == 0);
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, npes - 1, -1, npes, NULL, 0, &reversed) == 0);
    const shmem_team_t teams[] = {SHMEM_TEAM_WORLD, row, column, reversed, SHMEM_TEAM_SHARED};
    for (int mixed = 0; mixed < 2; mixed++) {
        for (int call = 0; call < ROUNDS * KINDS; call++) {
            for (size_t i = 0; i < COUNT * MOST_PES; i++) {
                memory[call].source[i] = value_of(me, call, i);
                memory[call].dest[i] = -1;
            }
        }
        shmem_barrier_all();
        for (int call = 0; call < ROUNDS * KINDS; call++) {
            if (call % 16 < 2) {
                delay_below(400, (unsigned)call);
            }
            check_call(teams[mixed ? call % 5 : 0], call, call % 4 == 0 ? COUNT : SMALL);
        }
        shmem_barrier_all();
    }
    shmem_team_destroy(reversed);
    shmem_team_destroy(column);
    shmem_team_destroy(row);
}

int main(void) {
    shmem_init();
    me = shmem_my_pe();
    npes = shmem_n_pes();
    CHECK(npes <= MOST_PES);
    memory = shmem_malloc(ROUNDS * KINDS * sizeof *memory);
    CHECK(memory != NULL);
    check_syncs();
    check_sync_of_part();
    check_back_to_back();
    shmem_finalize();
    return 0;
}
