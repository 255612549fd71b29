/* Reductions and scans over teams of every shape: every type and operation, in place and not. */
#include "tests/conformance/each_team.h"

enum { MOST = 700 };
static const size_t counts_of_world[] = {0, 1, 3, 14, 90, MOST};
static const size_t counts_of_part[] = {3, 90};

/* The team that is checked, and how many elements are reduced. */
static shmem_team_t team;
static int me, n;
static const size_t* counts;
static int n_counts;
static void *dest_space, *source_space;

/* Products of a few PEs hold in every type that does not wrap by definition; sums and extremes get both signs, which
 * for unsigned types are very large values. */
static int factor_of(int pe, size_t i) { return 1 + (pe + (int)i) % 2; }
static int term_of(int pe, size_t i) { return (pe * 5 + (int)i) % 9 - 3; }
static int bits_of(int pe, size_t i) { return (pe * 37 + (int)i * 11) % 128; }
static int signed_of(int pe, size_t i) { return bits_of(pe, i) - 64; }

#define SUM_OF(a, b) ((a) + (b))
#define PROD_OF(a, b) ((a) * (b))
#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))
#define MIN_OF(a, b) ((a) < (b) ? (a) : (b))
#define AND_OF(a, b) ((a) & (b))
#define OR_OF(a, b) ((a) | (b))
#define XOR_OF(a, b) ((a) ^ (b))

/* source is restored before each call, because in place it is the result. In the world every count is taken both ways,
 * elsewhere the two ways alternate. */
#define FOR_CALLS(NAME, TYPE, INPUT)                                                           \
    for (int c = 0; c < (team == SHMEM_TEAM_WORLD ? 2 * n_counts : n_counts); c++) {           \
        const size_t count = counts[c % n_counts];                                             \
        TYPE *const dest = dest_space, *const source = source_space;                           \
        TYPE* const result = (c + c / n_counts) % 2 == 0 ? dest : source;                      \
        CHECK_FOR(NAME, shmem_team_sync(team) == 0); /* all have read what was there before */ \
        for (size_t i = 0; i < count; i++) {                                                   \
            source[i] = (TYPE)INPUT(me, i);                                                    \
            dest[i] = (TYPE)77;                                                                \
        }                                                                                      \
        dest[count] = source[count] = (TYPE)99;                                                \
        CHECK_FOR(NAME, shmem_team_sync(team) == 0);

#define END_OF_CALLS(NAME, TYPE, INPUT)                          \
    CHECK_FOR(NAME guard, result[count] == (TYPE)99);            \
    for (size_t i = 0; i < count && result == dest; i++) {       \
        CHECK_FOR(NAME source, source[i] == (TYPE)INPUT(me, i)); \
    }                                                            \
    }

#define DEFINE(NAME, TYPE, OPERATION, OPERATOR, INPUT)                                          \
    static void check_##NAME##_##OPERATION(void) {                                              \
        FOR_CALLS(NAME, TYPE, INPUT)                                                            \
        CHECK_FOR(NAME, shmem_##NAME##_##OPERATION##_reduce(team, result, source, count) == 0); \
        for (size_t i = 0; i < count; i++) {                                                    \
            TYPE expected = (TYPE)INPUT(0, i);                                                  \
            for (int pe = 1; pe < n; pe++) {                                                    \
                expected = (TYPE)OPERATOR(expected, (TYPE)INPUT(pe, i));                        \
            }                                                                                   \
            CHECK_FOR(NAME OPERATION, result[i] == expected);                                   \
        }                                                                                       \
        END_OF_CALLS(NAME, TYPE, INPUT)                                                         \
    }
#define DEFINE_SUMS(NAME, TYPE)              \
    DEFINE(NAME, TYPE, sum, SUM_OF, term_of) \
    DEFINE(NAME, TYPE, prod, PROD_OF, factor_of)
#define DEFINE_MINMAX(NAME, TYPE)              \
    DEFINE(NAME, TYPE, max, MAX_OF, signed_of) \
    DEFINE(NAME, TYPE, min, MIN_OF, signed_of)
#define DEFINE_LOGIC(NAME, TYPE)               \
    DEFINE(NAME, TYPE, and, AND_OF, signed_of) \
    DEFINE(NAME, TYPE, or, OR_OF, bits_of)     \
    DEFINE(NAME, TYPE, xor, XOR_OF, signed_of)
SUM_TYPES(DEFINE_SUMS)
RMA_TYPES(DEFINE_MINMAX)
LOGIC_TYPES(DEFINE_LOGIC)

#define DEFINE_SCAN(NAME, TYPE, FORM, LAST)                                           \
    static void check_##NAME##_##FORM(void) {                                         \
        FOR_CALLS(NAME, TYPE, term_of)                                                \
        CHECK_FOR(NAME, shmem_##NAME##_sum_##FORM(team, result, source, count) == 0); \
        for (size_t i = 0; i < count; i++) {                                          \
            TYPE expected = 0;                                                        \
            for (int pe = 0; pe <= (LAST); pe++) {                                    \
                expected = (TYPE)(expected + (TYPE)term_of(pe, i));                   \
            }                                                                         \
            CHECK_FOR(NAME FORM, result[i] == expected);                              \
        }                                                                             \
        END_OF_CALLS(NAME, TYPE, term_of)                                             \
    }
#define DEFINE_SCANS(NAME, TYPE)        \
    DEFINE_SCAN(NAME, TYPE, inscan, me) \
    DEFINE_SCAN(NAME, TYPE, exscan, me - 1)
SUM_TYPES(DEFINE_SCANS)

#define CHECK_NULL_SUMS(NAME, TYPE)                                        \
    CHECK_FOR(NAME, shmem_##NAME##_sum_reduce(team, NULL, NULL, 0) == 0);  \
    CHECK_FOR(NAME, shmem_##NAME##_prod_reduce(team, NULL, NULL, 0) == 0); \
    CHECK_FOR(NAME, shmem_##NAME##_sum_inscan(team, NULL, NULL, 0) == 0);  \
    CHECK_FOR(NAME, shmem_##NAME##_sum_exscan(team, NULL, NULL, 0) == 0);
#define CHECK_NULL_MINMAX(NAME, TYPE)                                     \
    CHECK_FOR(NAME, shmem_##NAME##_max_reduce(team, NULL, NULL, 0) == 0); \
    CHECK_FOR(NAME, shmem_##NAME##_min_reduce(team, NULL, NULL, 0) == 0);
#define CHECK_NULL_LOGIC(NAME, TYPE)                                      \
    CHECK_FOR(NAME, shmem_##NAME##_and_reduce(team, NULL, NULL, 0) == 0); \
    CHECK_FOR(NAME, shmem_##NAME##_or_reduce(team, NULL, NULL, 0) == 0);  \
    CHECK_FOR(NAME, shmem_##NAME##_xor_reduce(team, NULL, NULL, 0) == 0);

static void check_team(shmem_team_t which) {
    team = which;
    me = shmem_team_my_pe(team);
    n = shmem_team_n_pes(team);
    counts = team == SHMEM_TEAM_WORLD ? counts_of_world : counts_of_part;
    n_counts = team == SHMEM_TEAM_WORLD ? 6 : 2;
#define RUN_SUMS(NAME, TYPE) \
    check_##NAME##_sum();    \
    check_##NAME##_prod();   \
    check_##NAME##_inscan(); \
    check_##NAME##_exscan();
#define RUN_MINMAX(NAME, TYPE) \
    check_##NAME##_max();      \
    check_##NAME##_min();
#define RUN_LOGIC(NAME, TYPE) \
    check_##NAME##_and();     \
    check_##NAME##_or();      \
    check_##NAME##_xor();
    SUM_TYPES(RUN_SUMS)
    RMA_TYPES(RUN_MINMAX)
    LOGIC_TYPES(RUN_LOGIC)
    SUM_TYPES(CHECK_NULL_SUMS)
    RMA_TYPES(CHECK_NULL_MINMAX)
    LOGIC_TYPES(CHECK_NULL_LOGIC)
}

int main(void) {
    shmem_init();
    dest_space = shmem_malloc((MOST + 1) * 16);
    source_space = shmem_malloc((MOST + 1) * 16);
    CHECK(dest_space != NULL && source_space != NULL);
    check_on_team(SHMEM_TEAM_WORLD, check_team);
    for_each_team(check_team);
    shmem_finalize();
    return 0;
}
