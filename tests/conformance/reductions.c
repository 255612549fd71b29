/* Reductions and scans over teams: every type and operation, in place and not. */
#include "tests/conformance/check.h"

enum { MOST = 700 };
static const size_t counts[] = {0, 1, 3, 14, 90, MOST};
enum { COUNTS = sizeof counts / sizeof counts[0] };
static int me, n;

/* Small enough for products and sums of a few PEs in every type that does not wrap by definition. */
static int value_of(int pe, size_t i) { return 1 + (pe + (int)i) % 2; }
static int bits_of(int pe, size_t i) { return (pe * 37 + (int)i * 11) % 128; }

#define SUM_OF(a, b) ((a) + (b))
#define PROD_OF(a, b) ((a) * (b))
#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))
#define MIN_OF(a, b) ((a) < (b) ? (a) : (b))
#define AND_OF(a, b) ((a) & (b))
#define OR_OF(a, b) ((a) | (b))
#define XOR_OF(a, b) ((a) ^ (b))

/* source is restored before each call, because in place it is the result. */
#define DEFINE(NAME, TYPE, OPERATION, OPERATOR, INPUT)                                                          \
    static void check_##NAME##_##OPERATION(TYPE* dest, TYPE* source) {                                          \
        for (int c = 0; c < COUNTS * 2; c++) {                                                                  \
            const size_t count = counts[c / 2];                                                                 \
            TYPE* const result = c % 2 == 0 ? dest : source;                                                    \
            for (size_t i = 0; i < count; i++) {                                                                \
                source[i] = (TYPE)INPUT(me, i);                                                                 \
            }                                                                                                   \
            dest[count] = (TYPE)99;                                                                             \
            shmem_sync_all();                                                                                   \
            CHECK_FOR(NAME, shmem_##NAME##_##OPERATION##_reduce(SHMEM_TEAM_WORLD, result, source, count) == 0); \
            for (size_t i = 0; i < count; i++) {                                                                \
                TYPE expected = (TYPE)INPUT(0, i);                                                              \
                for (int pe = 1; pe < n; pe++) {                                                                \
                    expected = (TYPE)OPERATOR(expected, (TYPE)INPUT(pe, i));                                    \
                }                                                                                               \
                CHECK_FOR(NAME OPERATION, result[i] == expected);                                               \
            }                                                                                                   \
            CHECK_FOR(NAME, dest[count] == (TYPE)99);                                                           \
            shmem_sync_all();                                                                                   \
        }                                                                                                       \
    }
#define DEFINE_SUMS(NAME, TYPE)               \
    DEFINE(NAME, TYPE, sum, SUM_OF, value_of) \
    DEFINE(NAME, TYPE, prod, PROD_OF, value_of)
#define DEFINE_MINMAX(NAME, TYPE)            \
    DEFINE(NAME, TYPE, max, MAX_OF, bits_of) \
    DEFINE(NAME, TYPE, min, MIN_OF, bits_of)
#define DEFINE_LOGIC(NAME, TYPE)             \
    DEFINE(NAME, TYPE, and, AND_OF, bits_of) \
    DEFINE(NAME, TYPE, or, OR_OF, bits_of)   \
    DEFINE(NAME, TYPE, xor, XOR_OF, bits_of)
SUM_TYPES(DEFINE_SUMS)
RMA_TYPES(DEFINE_MINMAX)
LOGIC_TYPES(DEFINE_LOGIC)

#define DEFINE_SCAN(NAME, TYPE, FORM, LAST)                                                           \
    static void check_##NAME##_##FORM(TYPE* dest, TYPE* source) {                                     \
        for (int c = 0; c < COUNTS * 2; c++) {                                                        \
            const size_t count = counts[c / 2];                                                       \
            TYPE* const result = c % 2 == 0 ? dest : source;                                          \
            for (size_t i = 0; i < count; i++) {                                                      \
                source[i] = (TYPE)value_of(me, i);                                                    \
            }                                                                                         \
            dest[count] = (TYPE)99;                                                                   \
            shmem_sync_all();                                                                         \
            CHECK_FOR(NAME, shmem_##NAME##_sum_##FORM(SHMEM_TEAM_WORLD, result, source, count) == 0); \
            for (size_t i = 0; i < count; i++) {                                                      \
                TYPE expected = 0;                                                                    \
                for (int pe = 0; pe <= (LAST); pe++) {                                                \
                    expected = (TYPE)(expected + (TYPE)value_of(pe, i));                              \
                }                                                                                     \
                CHECK_FOR(NAME FORM, result[i] == expected);                                          \
            }                                                                                         \
            CHECK_FOR(NAME, dest[count] == (TYPE)99);                                                 \
            shmem_sync_all();                                                                         \
        }                                                                                             \
    }
#define DEFINE_SCANS(NAME, TYPE)        \
    DEFINE_SCAN(NAME, TYPE, inscan, me) \
    DEFINE_SCAN(NAME, TYPE, exscan, me - 1)
SUM_TYPES(DEFINE_SCANS)

/* Rounding depends on the order of summation; all PEs and all repetitions must get the same bits. */
static void check_repeatable(double* dest, double* source) {
    static double first[MOST], theirs[MOST];
    for (size_t i = 0; i < MOST; i++) {
        source[i] = (me % 2 == 0 ? 1.0 : -1.0) / (3.0 + me) * (double)(1UL << (i * 7 % 40));
    }
    for (int turn = 0; turn < 5; turn++) {
        shmem_sync_all();
        CHECK(shmem_double_sum_reduce(SHMEM_TEAM_WORLD, dest, source, MOST) == 0);
        if (turn == 0) {
            memcpy(first, dest, sizeof first);
        }
        CHECK(memcmp(first, dest, sizeof first) == 0);
        shmem_barrier_all();
        shmem_double_get(theirs, dest, MOST, (me + 1) % n);
        CHECK(memcmp(first, theirs, sizeof first) == 0);
    }
    shmem_barrier_all();
}

/* A team of all but the first PE, numbered backwards, while that one does something else. */
static void check_team(long* dest, long* source) {
    shmem_team_t team = SHMEM_TEAM_INVALID;
    if (n == 1) {
        return;
    }
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, n - 1, -1, n - 1, NULL, 0, &team) == 0);
    if (team != SHMEM_TEAM_INVALID) {
        source[0] = me;
        CHECK(shmem_long_sum_reduce(team, dest, source, 1) == 0);
        CHECK(dest[0] == (long)n * (n - 1) / 2);
        CHECK(shmem_team_sync(team) == 0);
        CHECK(shmem_long_sum_exscan(team, dest, source, 1) == 0);
        long expected = 0;
        for (int pe = n - 1; pe > me; pe--) {
            expected += pe;
        }
        CHECK(dest[0] == expected);
        shmem_team_destroy(team);
    }
    shmem_barrier_all();
}

int main(void) {
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    void* dest = shmem_malloc((MOST + 1) * 16);
    void* source = shmem_malloc((MOST + 1) * 16);
    CHECK(dest != NULL && source != NULL);
#define RUN_SUMS(NAME, TYPE)             \
    check_##NAME##_sum(dest, source);    \
    check_##NAME##_prod(dest, source);   \
    check_##NAME##_inscan(dest, source); \
    check_##NAME##_exscan(dest, source);
#define RUN_MINMAX(NAME, TYPE)        \
    check_##NAME##_max(dest, source); \
    check_##NAME##_min(dest, source);
#define RUN_LOGIC(NAME, TYPE)         \
    check_##NAME##_and(dest, source); \
    check_##NAME##_or(dest, source);  \
    check_##NAME##_xor(dest, source);
    SUM_TYPES(RUN_SUMS)
    RMA_TYPES(RUN_MINMAX)
    LOGIC_TYPES(RUN_LOGIC)
    check_repeatable(dest, source);
    check_team(dest, source);
    shmem_finalize();
    return 0;
}
