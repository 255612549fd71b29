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
OLD_WAIT_TYPES(DEFINE_WAIT)

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

/* Comparisons are those of the type: -1 is below 1 if it is signed, and the largest of all if not. */
#define DEFINE_SIGN(NAME, TYPE)                                                                   \
    static void check_sign_##NAME(void) {                                                         \
        static TYPE word;                                                                         \
        word = (TYPE)-1;                                                                          \
        const int is_signed = (TYPE)-1 < (TYPE)1;                                                 \
        CHECK_FOR(NAME, shmem_##NAME##_test(&word, SHMEM_CMP_LT, (TYPE)1) == is_signed);          \
        CHECK_FOR(NAME, shmem_##NAME##_test(&word, SHMEM_CMP_GE, (TYPE)1) == !is_signed);         \
        shmem_##NAME##_wait_until(&word, is_signed ? SHMEM_CMP_LE : SHMEM_CMP_GT, (TYPE)1);       \
        /* A difference in the highest bits only, which a comparison of fewer bits would miss. */ \
        word = (TYPE)(UINT64_C(1) << (8 * sizeof(TYPE) - 2));                                     \
        CHECK_FOR(NAME, shmem_##NAME##_test(&word, SHMEM_CMP_NE, 0) == 1);                        \
        CHECK_FOR(NAME, shmem_##NAME##_test(&word, SHMEM_CMP_GT, (TYPE)(word - 1)) == 1);         \
        word = 0;                                                                                 \
        shmem_barrier_all();                                                                      \
    }
P2P_TYPES(DEFINE_SIGN)

/* Every comparison in every array form, with masks that leave out parts, operands that differ, and empty sets. The
 * words are this PE's own and do not change. */
enum { WORDS = 6 };
static int compare(int cmp, long a, long b) {
    switch (cmp) {
        case SHMEM_CMP_EQ: return a == b;
        case SHMEM_CMP_NE: return a != b;
        case SHMEM_CMP_GT: return a > b;
        case SHMEM_CMP_GE: return a >= b;
        case SHMEM_CMP_LT: return a < b;
        default: return a <= b;
    }
}

/* Which elements of the set satisfy the comparison, as bits. */
static unsigned satisfied(const int* status, int cmp, const long* operands) {
    unsigned bits = 0;
    for (int i = 0; i < WORDS; i++) {
        if ((status == NULL || status[i] == 0) && compare(cmp, i + 1, operands[i])) {
            bits |= 1U << i;
        }
    }
    return bits;
}

static unsigned bits_of(size_t count, const size_t* indices) {
    unsigned bits = 0;
    for (size_t i = 0; i < count; i++) {
        CHECK(indices[i] < WORDS && (bits & 1U << indices[i]) == 0); /* each once */
        bits |= 1U << indices[i];
    }
    return bits;
}

#define EXPECT_ANY(NAME, call)                                            \
    {                                                                     \
        const size_t any = call;                                          \
        CHECK_FOR(NAME, holds == 0 ? any == SIZE_MAX : holds >> any & 1); \
    }
/* One form: TAIL is nothing or _vector, OPERAND what it compares with. */
#define CHECK_FORM(NAME, TAIL, OPERAND)                                                                                \
    EXPECT_ANY(NAME, shmem_##NAME##_test_any##TAIL(words, WORDS, status, cmp, OPERAND))                                \
    CHECK_FOR(NAME, shmem_##NAME##_test_all##TAIL(words, WORDS, status, cmp, OPERAND) == (holds == set));              \
    CHECK_FOR(NAME,                                                                                                    \
              bits_of(shmem_##NAME##_test_some##TAIL(words, WORDS, indices, status, cmp, OPERAND), indices) == holds); \
    if (holds == set) {                                                                                                \
        shmem_##NAME##_wait_until_all##TAIL(words, WORDS, status, cmp, OPERAND);                                       \
    }                                                                                                                  \
    if (holds != 0 || set == 0) {                                                                                      \
        EXPECT_ANY(NAME, shmem_##NAME##_wait_until_any##TAIL(words, WORDS, status, cmp, OPERAND))                      \
        CHECK_FOR(NAME, bits_of(shmem_##NAME##_wait_until_some##TAIL(words, WORDS, indices, status, cmp, OPERAND),     \
                                indices) == holds);                                                                    \
    }
#define DEFINE_FORMS(NAME, TYPE)                                                                              \
    static void check_forms_##NAME(void) {                                                                    \
        static TYPE words[WORDS];                                                                             \
        static const int masks[][WORDS] = {{0}, {1, 0, 1, 0, 1, 0}, {1, 1, 1, 1, 0, 7}, {1, -1, 2, 1, 1, 1}}; \
        static const int comparisons[] = {SHMEM_CMP_EQ, SHMEM_CMP_NE, SHMEM_CMP_GT,                           \
                                          SHMEM_CMP_GE, SHMEM_CMP_LT, SHMEM_CMP_LE};                          \
        static const long different[WORDS] = {1, 3, 2, 4, 9, 0};                                              \
        TYPE operands[WORDS];                                                                                 \
        size_t indices[WORDS];                                                                                \
        for (int i = 0; i < WORDS; i++) {                                                                     \
            words[i] = (TYPE)(i + 1);                                                                         \
            operands[i] = (TYPE)different[i];                                                                 \
        }                                                                                                     \
        for (int m = -1; m < 4; m++) {                                                                        \
            const int* const status = m < 0 ? NULL : masks[m];                                                \
            unsigned set = 0;                                                                                 \
            for (int i = 0; i < WORDS; i++) {                                                                 \
                set |= (unsigned)(status == NULL || status[i] == 0) << i;                                     \
            }                                                                                                 \
            for (int c = 0; c < 6; c++) {                                                                     \
                const int cmp = comparisons[c];                                                               \
                for (long one = 0; one <= WORDS + 1; one++) {                                                 \
                    const long same[WORDS] = {one, one, one, one, one, one};                                  \
                    const unsigned holds = satisfied(status, cmp, same);                                      \
                    CHECK_FORM(NAME, , (TYPE)one)                                                             \
                }                                                                                             \
                const unsigned holds = satisfied(status, cmp, different);                                     \
                CHECK_FORM(NAME, _vector, operands)                                                           \
            }                                                                                                 \
        }                                                                                                     \
        CHECK_FOR(NAME, shmem_##NAME##_test_all_vector(NULL, 0, NULL, SHMEM_CMP_EQ, NULL) == 1);              \
        CHECK_FOR(NAME, shmem_##NAME##_test_any(NULL, 0, NULL, SHMEM_CMP_EQ, 0) == SIZE_MAX);                 \
        CHECK_FOR(NAME, shmem_##NAME##_test_any_vector(NULL, 0, NULL, SHMEM_CMP_EQ, NULL) == SIZE_MAX);       \
        CHECK_FOR(NAME, shmem_##NAME##_test_some(NULL, 0, NULL, NULL, SHMEM_CMP_EQ, 0) == 0);                 \
        CHECK_FOR(NAME, shmem_##NAME##_test_some_vector(NULL, 0, NULL, NULL, SHMEM_CMP_EQ, NULL) == 0);       \
        CHECK_FOR(NAME, shmem_##NAME##_wait_until_any(NULL, 0, NULL, SHMEM_CMP_EQ, 0) == SIZE_MAX);           \
        CHECK_FOR(NAME, shmem_##NAME##_wait_until_any_vector(NULL, 0, NULL, SHMEM_CMP_EQ, NULL) == SIZE_MAX); \
        CHECK_FOR(NAME, shmem_##NAME##_wait_until_some(NULL, 0, NULL, NULL, SHMEM_CMP_EQ, 0) == 0);           \
        shmem_##NAME##_wait_until_all(NULL, 0, NULL, SHMEM_CMP_EQ, 0);                                        \
        shmem_##NAME##_wait_until_all_vector(NULL, 0, NULL, SHMEM_CMP_EQ, NULL);                              \
    }
AMO_TYPES(DEFINE_FORMS)

/* Whoever polls with test must get to see the word, and every element of a satisfied set sooner or later. */
static void check_fairness(void) {
    static long words[4];
    shmem_barrier_all();
    shmem_long_atomic_set(words, 1, right);
    while (!shmem_long_test(words, SHMEM_CMP_EQ, 1)) {
    }
    words[1] = words[2] = words[3] = 1;
    const long ones[4] = {1, 1, 1, 1};
    for (int form = 0; form < 4; form++) {
        int seen[4] = {0, 0, 0, 0};
        for (int i = 0; i < 1000; i++) {
            size_t found = 0;
            switch (form) {
                case 0: found = shmem_long_test_any(words, 4, NULL, SHMEM_CMP_EQ, 1); break;
                case 1: found = shmem_long_test_any_vector(words, 4, NULL, SHMEM_CMP_EQ, ones); break;
                case 2: found = shmem_long_wait_until_any(words, 4, NULL, SHMEM_CMP_EQ, 1); break;
                default: found = shmem_long_wait_until_any_vector(words, 4, NULL, SHMEM_CMP_EQ, ones);
            }
            CHECK(found < 4);
            seen[found] = 1;
        }
        CHECK_FOR(fairness, seen[0] && seen[1] && seen[2] && seen[3]);
    }
    shmem_barrier_all();
}

/* Words that become true one after the other, at other times on each PE: some must come back with those that hold. */
static void check_late_words(void) {
    static long words[MOST_PES];
    const size_t n = (size_t)npes;
    int status[MOST_PES] = {0};
    size_t indices[MOST_PES], missing = n;
    shmem_barrier_all();
    delay_below(2000, 3);
    for (int pe = 0; pe < npes; pe++) {
        shmem_long_atomic_set(&words[me], me + 5, pe);
    }
    while (missing > 0) {
        const size_t count = shmem_long_wait_until_some(words, n, indices, status, SHMEM_CMP_NE, 0);
        CHECK(count >= 1 && count <= missing);
        for (size_t i = 0; i < count; i++) {
            CHECK(status[indices[i]] == 0 && words[indices[i]] == (long)indices[i] + 5);
            status[indices[i]] = 1;
        }
        missing -= count;
    }
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
#define RUN_WAIT(NAME, TYPE) check_wait_##NAME();
    OLD_WAIT_TYPES(RUN_WAIT)
    AMO_TYPES(RUN_ARRAYS)
#define RUN_SIGN(NAME, TYPE) check_sign_##NAME();
#define RUN_FORMS(NAME, TYPE) check_forms_##NAME();
    P2P_TYPES(RUN_SIGN)
    AMO_TYPES(RUN_FORMS)
    check_fairness();
    check_late_words();
    shmem_finalize();
    return 0;
}
