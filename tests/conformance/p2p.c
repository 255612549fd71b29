/* Waiting and testing: every comparison, form and type. */
#include "tests/conformance/check.h"

enum { MOST_PES = 64 };
static int me, npes, right;

/* Every comparison, both ways, on a word that this PE sets itself; then waits for words that the others set. */
#define DEFINE_ONE(NAME, TYPE)                                                                                      \
    static void check_one_##NAME(void) {                                                                            \
        static TYPE word;                                                                                           \
        static const int table[6][4] = {{SHMEM_CMP_EQ, 0, 1, 0}, {SHMEM_CMP_NE, 1, 0, 1}, {SHMEM_CMP_GT, 0, 0, 1},  \
                                        {SHMEM_CMP_GE, 0, 1, 1}, {SHMEM_CMP_LT, 1, 0, 0}, {SHMEM_CMP_LE, 1, 1, 0}}; \
        for (int value = 4; value <= 6; value++) {                                                                  \
            word = (TYPE)value;                                                                                     \
            for (int i = 0; i < 6; i++) {                                                                           \
                const int holds = table[i][value - 3];                                                              \
                CHECK_FOR(NAME, shmem_##NAME##_test(&word, table[i][0], (TYPE)5) == holds);                         \
                if (holds) {                                                                                        \
                    shmem_##NAME##_wait_until(&word, table[i][0], (TYPE)5);                                         \
                }                                                                                                   \
            }                                                                                                       \
        }                                                                                                           \
        word = 0;                                                                                                   \
        shmem_barrier_all();                                                                                        \
        shmem_##NAME##_p(&word, (TYPE)(me + 1), right);                                                             \
        shmem_##NAME##_wait_until(&word, SHMEM_CMP_NE, 0);                                                          \
        CHECK_FOR(NAME, word == (TYPE)((me + npes - 1) % npes + 1));                                                \
        shmem_barrier_all();                                                                                        \
    }
P2P_TYPES(DEFINE_ONE)

#define DEFINE_WAIT(NAME, TYPE)                         \
    static void check_wait_##NAME(void) {               \
        static TYPE word;                               \
        shmem_barrier_all();                            \
        shmem_##NAME##_p(&word, (TYPE)(me + 1), right); \
        shmem_##NAME##_wait(&word, 0);                  \
        CHECK_FOR(NAME, word != 0);                     \
        shmem_barrier_all();                            \
    }
DEFINE_WAIT(short, short)
DEFINE_WAIT(int, int)
DEFINE_WAIT(long, long)
DEFINE_WAIT(longlong, long long)

/* PE k sets element k of everybody to k + 1. */
#define DEFINE_ARRAYS(NAME, TYPE)                                                                                     \
    static void check_arrays_##NAME(void) {                                                                           \
        static TYPE words[MOST_PES];                                                                                  \
        TYPE expected[MOST_PES];                                                                                      \
        int status[MOST_PES], none[MOST_PES];                                                                         \
        size_t indices[MOST_PES];                                                                                     \
        const size_t n = (size_t)npes;                                                                                \
        for (size_t i = 0; i < n; i++) {                                                                              \
            expected[i] = (TYPE)(i + 1);                                                                              \
            status[i] = 0;                                                                                            \
            none[i] = 1;                                                                                              \
        }                                                                                                             \
        CHECK_FOR(NAME, shmem_##NAME##_test_all(words, n, NULL, SHMEM_CMP_EQ, 0) >= 0);                               \
        shmem_barrier_all();                                                                                          \
        for (int pe = 0; pe < npes; pe++) {                                                                           \
            shmem_##NAME##_atomic_set(words + me, (TYPE)(me + 1), pe);                                                \
        }                                                                                                             \
        for (size_t i = 0; i < n; i++) {                                                                              \
            const size_t found = shmem_##NAME##_wait_until_any(words, n, status, SHMEM_CMP_GT, 0);                    \
            CHECK_FOR(NAME, found < n && status[found] == 0 && words[found] == expected[found]);                      \
            status[found] = 1;                                                                                        \
        }                                                                                                             \
        CHECK_FOR(NAME, shmem_##NAME##_wait_until_any(words, n, status, SHMEM_CMP_GT, 0) == SIZE_MAX);                \
        shmem_##NAME##_wait_until_all(words, n, NULL, SHMEM_CMP_NE, 0);                                               \
        shmem_##NAME##_wait_until_all(words, n, none, SHMEM_CMP_EQ, 0);                                               \
        shmem_##NAME##_wait_until_all_vector(words, n, NULL, SHMEM_CMP_EQ, expected);                                 \
        CHECK_FOR(NAME, shmem_##NAME##_wait_until_any_vector(words, n, NULL, SHMEM_CMP_EQ, expected) < n);            \
        CHECK_FOR(NAME, shmem_##NAME##_wait_until_some(words, n, indices, NULL, SHMEM_CMP_NE, 0) == n);               \
        CHECK_FOR(NAME, shmem_##NAME##_wait_until_some_vector(words, n, indices, NULL, SHMEM_CMP_EQ, expected) == n); \
        for (size_t i = 0; i < n; i++) {                                                                              \
            status[indices[i]]++;                                                                                     \
        }                                                                                                             \
        for (size_t i = 0; i < n; i++) {                                                                              \
            CHECK_FOR(NAME, status[i] == 2); /* each index once */                                                    \
        }                                                                                                             \
        CHECK_FOR(NAME, shmem_##NAME##_wait_until_some(words, n, indices, none, SHMEM_CMP_NE, 0) == 0);               \
        CHECK_FOR(NAME, shmem_##NAME##_wait_until_some_vector(words, 0, indices, NULL, SHMEM_CMP_NE, NULL) == 0);     \
        CHECK_FOR(NAME, shmem_##NAME##_wait_until_any_vector(words, n, none, SHMEM_CMP_NE, expected) == SIZE_MAX);    \
        CHECK_FOR(NAME, shmem_##NAME##_test_all(words, n, NULL, SHMEM_CMP_GT, 0) == 1);                               \
        CHECK_FOR(NAME, shmem_##NAME##_test_all(words, n, NULL, SHMEM_CMP_GT, 1) == 0);                               \
        CHECK_FOR(NAME, shmem_##NAME##_test_all(NULL, 0, NULL, SHMEM_CMP_GT, 0) == 1);                                \
        CHECK_FOR(NAME, shmem_##NAME##_test_all_vector(words, n, NULL, SHMEM_CMP_EQ, expected) == 1);                 \
        CHECK_FOR(NAME, shmem_##NAME##_test_all_vector(words, n, NULL, SHMEM_CMP_NE, expected) == 0);                 \
        CHECK_FOR(NAME, shmem_##NAME##_test_any(words, n, NULL, SHMEM_CMP_EQ, (TYPE)n) == n - 1);                     \
        CHECK_FOR(NAME, shmem_##NAME##_test_any(words, n, NULL, SHMEM_CMP_EQ, 0) == SIZE_MAX);                        \
        CHECK_FOR(NAME, shmem_##NAME##_test_any_vector(words, n, NULL, SHMEM_CMP_EQ, expected) < n);                  \
        CHECK_FOR(NAME, shmem_##NAME##_test_any_vector(words, n, none, SHMEM_CMP_EQ, expected) == SIZE_MAX);          \
        CHECK_FOR(NAME, shmem_##NAME##_test_some(words, n, indices, NULL, SHMEM_CMP_LE, 1) == 1 && indices[0] == 0);  \
        CHECK_FOR(NAME, shmem_##NAME##_test_some(words, n, indices, none, SHMEM_CMP_LE, 1) == 0);                     \
        CHECK_FOR(NAME, shmem_##NAME##_test_some_vector(words, n, indices, NULL, SHMEM_CMP_EQ, expected) == n);       \
        CHECK_FOR(NAME, shmem_##NAME##_test_some_vector(words, n, indices, NULL, SHMEM_CMP_LT, expected) == 0);       \
        shmem_barrier_all();                                                                                          \
    }
AMO_TYPES(DEFINE_ARRAYS)

/* Whoever polls with test must get to see the word, and every element of a satisfied set sooner or later. */
static void check_fairness(void) {
    static long words[4];
    int seen[4] = {0, 0, 0, 0};
    shmem_barrier_all();
    shmem_long_atomic_set(words, 1, right);
    while (!shmem_long_test(words, SHMEM_CMP_EQ, 1)) {
    }
    words[1] = words[2] = words[3] = 1;
    for (int i = 0; i < 1000; i++) {
        seen[shmem_long_test_any(words, 4, NULL, SHMEM_CMP_EQ, 1)] = 1;
    }
    CHECK(seen[0] && seen[1] && seen[2] && seen[3]);
    shmem_barrier_all();
}

int main(void) {
    shmem_init();
    me = shmem_my_pe();
    npes = shmem_n_pes();
    right = (me + 1) % npes;
    CHECK(npes <= MOST_PES);
#define RUN_ONE(NAME, TYPE) check_one_##NAME();
#define RUN_ARRAYS(NAME, TYPE) check_arrays_##NAME();
    P2P_TYPES(RUN_ONE)
    check_wait_short();
    check_wait_int();
    check_wait_long();
    check_wait_longlong();
    AMO_TYPES(RUN_ARRAYS)
    check_fairness();
    shmem_finalize();
    return 0;
}
