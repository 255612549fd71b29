/* Collective data movement over teams of every shape: every type, several sizes, every root. */
#include "tests/conformance/each_team.h"

enum { MOST = 600, FILLER = 121 };
static const size_t counts_of_world[] = {0, 1, 6, 60, MOST};
static const size_t counts_of_part[] = {1, 60};

/* Values stay below FILLER, so that every type holds them. */
static int value_of(int pe, size_t i) { return (pe * 29 + (int)(i * 3)) % 120; }

/* The team that is checked, and how many elements are moved. */
static shmem_team_t team;
static int me, n;
static const size_t* counts;
static int n_counts;

/* Nobody is in the collective before, and what it wrote is gone. */
#define PREPARE(NAME, TYPE, dest, length)                                                  \
    CHECK_FOR(NAME, shmem_team_sync(team) == 0); /* all have read what was there before */ \
    for (size_t i = 0; i < (length); i++) {                                                \
        (dest)[i] = (TYPE)FILLER;                                                          \
    }                                                                                      \
    CHECK_FOR(NAME, shmem_team_sync(team) == 0)

/* The elements from `from` on that were not to be written. */
#define EXPECT_FILLER(NAME, TYPE, dest, from, to)         \
    for (size_t i = (from); i < (to); i++) {              \
        CHECK_FOR(NAME guard, (dest)[i] == (TYPE)FILLER); \
    }

#define DEFINE_BROADCAST(NAME, TYPE)                                                         \
    static void broadcast_##NAME(TYPE* dest, const TYPE* source, size_t count) {             \
        for (int root = 0; root < n; root++) {                                               \
            PREPARE(NAME, TYPE, dest, count + 2);                                            \
            CHECK_FOR(NAME, shmem_##NAME##_broadcast(team, dest, source, count, root) == 0); \
            for (size_t i = 0; i < count; i++) {                                             \
                CHECK_FOR(NAME broadcast, dest[i] == (TYPE)value_of(root, i));               \
            }                                                                                \
            EXPECT_FILLER(NAME, TYPE, dest, count, count + 2)                                \
        }                                                                                    \
    }

/* The counts of collect differ, and some are 0. */
static size_t part_of_collect(int pe, size_t count) { return pe % 3 == 0 ? count : (size_t)(pe % 3 - 1) * 2; }

#define DEFINE_COLLECT(NAME, TYPE)                                                                    \
    static void collect_##NAME(TYPE* dest, const TYPE* source, size_t count) {                        \
        const size_t all = count * (size_t)n;                                                         \
        PREPARE(NAME, TYPE, dest, all + 2);                                                           \
        CHECK_FOR(NAME, shmem_##NAME##_fcollect(team, dest, source, count) == 0);                     \
        for (size_t i = 0; i < all; i++) {                                                            \
            CHECK_FOR(NAME fcollect, dest[i] == (TYPE)value_of((int)(i / count), i % count));         \
        }                                                                                             \
        EXPECT_FILLER(NAME, TYPE, dest, all, all + 2)                                                 \
        const size_t room = all + 2 * (size_t)n + 2;                                                  \
        PREPARE(NAME, TYPE, dest, room);                                                              \
        CHECK_FOR(NAME, shmem_##NAME##_collect(team, dest, source, part_of_collect(me, count)) == 0); \
        size_t at = 0;                                                                                \
        for (int pe = 0; pe < n; pe++) {                                                              \
            for (size_t i = 0; i < part_of_collect(pe, count); i++) {                                 \
                CHECK_FOR(NAME collect, dest[at++] == (TYPE)value_of(pe, i));                         \
            }                                                                                         \
        }                                                                                             \
        EXPECT_FILLER(NAME, TYPE, dest, at, room)                                                     \
    }

#define DEFINE_ALLTOALL(NAME, TYPE)                                                                                  \
    static void alltoall_##NAME(TYPE* dest, const TYPE* source, size_t count) {                                      \
        const size_t all = count * (size_t)n;                                                                        \
        PREPARE(NAME, TYPE, dest, all + 2);                                                                          \
        CHECK_FOR(NAME, shmem_##NAME##_alltoall(team, dest, source, count) == 0);                                    \
        for (size_t i = 0; i < all; i++) {                                                                           \
            const int sent = value_of((int)(i / count), (size_t)me * count + i % count);                             \
            CHECK_FOR(NAME alltoall, dest[i] == (TYPE)sent);                                                         \
        }                                                                                                            \
        EXPECT_FILLER(NAME, TYPE, dest, all, all + 2)                                                                \
        static const int strides[][2] = {{3, 2}, {1, 1}, {2, 1}, {1, 3}};                                            \
        for (int s = 0; s < 4 && count <= 60; s++) {                                                                 \
            const size_t dst = (size_t)strides[s][0], sst = (size_t)strides[s][1];                                   \
            PREPARE(NAME, TYPE, dest, all* dst);                                                                     \
            CHECK_FOR(NAME, shmem_##NAME##_alltoalls(team, dest, source, strides[s][0], strides[s][1], count) == 0); \
            for (size_t i = 0; i < all * dst; i++) {                                                                 \
                const size_t k = i / dst;                                                                            \
                const int sent = value_of((int)(k / count), ((size_t)me * count + k % count) * sst);                 \
                CHECK_FOR(NAME alltoalls, dest[i] == (TYPE)(i % dst == 0 ? sent : FILLER));                          \
            }                                                                                                        \
        }                                                                                                            \
    }

#define DEFINE(NAME, TYPE)                              \
    DEFINE_BROADCAST(NAME, TYPE)                        \
    DEFINE_COLLECT(NAME, TYPE)                          \
    DEFINE_ALLTOALL(NAME, TYPE)                         \
    static void check_##NAME(void) {                    \
        TYPE* const dest = dest_space;                  \
        TYPE* const source = source_space;              \
        CHECK(shmem_team_sync(team) == 0);              \
        for (size_t i = 0; i < MOST * (size_t)n; i++) { \
            source[i] = (TYPE)value_of(me, i);          \
        }                                               \
        for (int c = 0; c < n_counts; c++) {            \
            broadcast_##NAME(dest, source, counts[c]);  \
            collect_##NAME(dest, source, counts[c]);    \
            alltoall_##NAME(dest, source, counts[c]);   \
        }                                               \
    }
static void *dest_space, *source_space;
RMA_TYPES(DEFINE)

/* The forms that count bytes are the same under another name. */
#define shmem_mem_broadcast shmem_broadcastmem
#define shmem_mem_fcollect shmem_fcollectmem
#define shmem_mem_collect shmem_collectmem
#define shmem_mem_alltoall shmem_alltoallmem
#define shmem_mem_alltoalls shmem_alltoallsmem
DEFINE(mem, unsigned char)

static void check_team(shmem_team_t which) {
    team = which;
    me = shmem_team_my_pe(team);
    n = shmem_team_n_pes(team);
    counts = team == SHMEM_TEAM_WORLD ? counts_of_world : counts_of_part;
    n_counts = team == SHMEM_TEAM_WORLD ? 5 : 2;
#define RUN(NAME, TYPE) check_##NAME();
    RMA_TYPES(RUN)
    RUN(mem, unsigned char)
#define CHECK_NULL(NAME, TYPE)                                                  \
    CHECK_FOR(NAME, shmem_##NAME##_broadcast(team, NULL, NULL, 0, n - 1) == 0); \
    CHECK_FOR(NAME, shmem_##NAME##_fcollect(team, NULL, NULL, 0) == 0);         \
    CHECK_FOR(NAME, shmem_##NAME##_collect(team, NULL, NULL, 0) == 0);          \
    CHECK_FOR(NAME, shmem_##NAME##_alltoall(team, NULL, NULL, 0) == 0);         \
    CHECK_FOR(NAME, shmem_##NAME##_alltoalls(team, NULL, NULL, 1, 1, 0) == 0);
    RMA_TYPES(CHECK_NULL)
    CHECK_NULL(mem, void)
}

/* One PE gives all there is, into a block which that just fills. */
static void collect_exactly(void) {
    enum { ALL = 10 };
    const int is_giver = shmem_my_pe() == shmem_n_pes() - 1;
    long* const dest = shmem_calloc(ALL, sizeof *dest);
    long* const source = shmem_calloc(ALL, sizeof *source);
    for (long i = 0; i < ALL; i++) {
        source[i] = value_of(shmem_n_pes(), (size_t)i);
    }
    CHECK(shmem_long_collect(SHMEM_TEAM_WORLD, dest, source, is_giver ? ALL : 0) == 0);
    for (long i = 0; i < ALL; i++) {
        CHECK(dest[i] == source[i]);
    }
    shmem_free(source);
    shmem_free(dest);
}

int main(void) {
    shmem_init();
    const size_t bytes = MOST * 16 * (size_t)shmem_n_pes() + 64 * (size_t)shmem_n_pes();
    dest_space = shmem_malloc(bytes);
    source_space = shmem_malloc(bytes);
    CHECK(dest_space != NULL && source_space != NULL);
    check_on_team(SHMEM_TEAM_WORLD, check_team);
    for_each_team(check_team);
    collect_exactly();
    shmem_finalize();
    return 0;
}
