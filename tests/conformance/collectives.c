/* Barriers, syncs and collective data movement over teams: every type, several sizes, every root. */
#include "tests/conformance/check.h"

enum { MOST = 600 };
static const size_t counts[] = {0, 1, 6, 60, MOST};
enum { COUNTS = sizeof counts / sizeof counts[0] };

/* Values stay below 128, so that every type holds them. */
static int value_of(int pe, size_t i) { return (pe * 29 + (int)(i * 3)) % 120; }

/* One team: the world, or every other PE of it. */
static shmem_team_t team;
static int me, n;

#define DEFINE(NAME, TYPE)                                                                                    \
    static void check_##NAME(TYPE* dest, TYPE* source) {                                                      \
        const size_t members = (size_t)n;                                                                     \
        for (int c = 0; c < COUNTS; c++) {                                                                    \
            const size_t count = counts[c];                                                                   \
            for (size_t i = 0; i < count * members + 2; i++) {                                                \
                source[i] = (TYPE)value_of(me, i);                                                            \
            }                                                                                                 \
            for (int root = 0; root < n; root++) {                                                            \
                dest[count] = (TYPE)121;                                                                      \
                CHECK_FOR(NAME, shmem_team_sync(team) == 0);                                                  \
                CHECK_FOR(NAME, shmem_##NAME##_broadcast(team, dest, source, count, root) == 0);              \
                for (size_t i = 0; i < count; i++) {                                                          \
                    CHECK_FOR(NAME, dest[i] == (TYPE)value_of(root, i));                                      \
                }                                                                                             \
                CHECK_FOR(NAME, dest[count] == (TYPE)121);                                                    \
                CHECK_FOR(NAME, shmem_team_sync(team) == 0);                                                  \
            }                                                                                                 \
            CHECK_FOR(NAME, shmem_##NAME##_fcollect(team, dest, source, count) == 0);                         \
            for (size_t i = 0; i < count * members; i++) {                                                    \
                CHECK_FOR(NAME, dest[i] == (TYPE)value_of((int)(i / count), i % count));                      \
            }                                                                                                 \
            CHECK_FOR(NAME, shmem_team_sync(team) == 0);                                                      \
            CHECK_FOR(NAME, shmem_##NAME##_collect(team, dest, source, me % 2 == 0 ? count : 2) == 0);        \
            size_t at = 0;                                                                                    \
            for (int pe = 0; pe < n; pe++) {                                                                  \
                for (size_t i = 0; i < (pe % 2 == 0 ? count : 2); i++) {                                      \
                    CHECK_FOR(NAME, dest[at++] == (TYPE)value_of(pe, i));                                     \
                }                                                                                             \
            }                                                                                                 \
            CHECK_FOR(NAME, shmem_team_sync(team) == 0);                                                      \
            CHECK_FOR(NAME, shmem_##NAME##_alltoall(team, dest, source, count) == 0);                         \
            for (size_t i = 0; i < count * members; i++) {                                                    \
                CHECK_FOR(NAME, dest[i] == (TYPE)value_of((int)(i / count), (size_t)me * count + i % count)); \
            }                                                                                                 \
            CHECK_FOR(NAME, shmem_team_sync(team) == 0);                                                      \
            const size_t few = count < 60 ? count : 60;                                                       \
            for (size_t i = 0; i < few * members * 3; i++) {                                                  \
                dest[i] = (TYPE)121;                                                                          \
                source[i] = (TYPE)value_of(me, i);                                                            \
            }                                                                                                 \
            CHECK_FOR(NAME, shmem_team_sync(team) == 0);                                                      \
            CHECK_FOR(NAME, shmem_##NAME##_alltoalls(team, dest, source, 3, 2, few) == 0);                    \
            for (size_t i = 0; i < few * members * 3; i++) {                                                  \
                const size_t k = i / 3;                                                                       \
                const int sent =                                                                              \
                    value_of((int)(k / (few + (few == 0))), ((size_t)me * few + k % (few + (few == 0))) * 2); \
                CHECK_FOR(NAME, dest[i] == (TYPE)(i % 3 == 0 ? sent : 121));                                  \
            }                                                                                                 \
            CHECK_FOR(NAME, shmem_team_sync(team) == 0);                                                      \
        }                                                                                                     \
    }
RMA_TYPES(DEFINE)

/* The forms that count bytes are the same under another name. */
#define shmem_mem_broadcast shmem_broadcastmem
#define shmem_mem_fcollect shmem_fcollectmem
#define shmem_mem_collect shmem_collectmem
#define shmem_mem_alltoall shmem_alltoallmem
#define shmem_mem_alltoalls shmem_alltoallsmem
DEFINE(mem, unsigned char)

static void check_all(void* dest, void* source) {
#define RUN(NAME, TYPE) check_##NAME(dest, source);
    RMA_TYPES(RUN)
    RUN(mem, unsigned char)
}

static void check_syncs(void) {
    static long arrived;
    for (long turn = 1; turn <= 100; turn++) {
        shmem_long_atomic_inc(&arrived, 0);
        shmem_barrier_all();
        CHECK(shmem_long_atomic_fetch(&arrived, 0) == turn * n);
        shmem_sync_all();
    }
    /* A barrier completes puts, and plain stores are seen after a sync. */
    static long cell, stored;
    for (long turn = 1; turn <= 100; turn++) {
        const long value = turn * 100 + me;
        shmem_long_put_nbi(&cell, &value, 1, (me + 1) % n);
        stored = value;
        shmem_barrier_all();
        CHECK(cell == turn * 100 + (me + n - 1) % n);
        CHECK(*(volatile long*)shmem_ptr(&stored, (me + 1) % n) == turn * 100 + (me + 1) % n);
        shmem_sync_all();
    }
}

int main(void) {
    shmem_init();
    const size_t bytes = MOST * 16 * (size_t)shmem_n_pes() + 64;
    void* dest = shmem_malloc(bytes);
    void* source = shmem_malloc(bytes);
    CHECK(dest != NULL && source != NULL);

    team = SHMEM_TEAM_WORLD;
    me = shmem_my_pe();
    n = shmem_n_pes();
    check_syncs();
    check_all(dest, source);

    shmem_team_t every_other = SHMEM_TEAM_INVALID;
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (n + 1) / 2, NULL, 0, &every_other) == 0);
    if (every_other != SHMEM_TEAM_INVALID) {
        team = every_other;
        me = shmem_team_my_pe(team);
        n = shmem_team_n_pes(team);
        check_all(dest, source);
        shmem_team_destroy(every_other);
    }
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}
