/* The deprecated collectives over active sets. pSync must be as it was afterwards. */
#include "tests/conformance/check.h"

enum { MOST = 300 };
static int me, npes;
static long sync_words[SHMEM_SYNC_SIZE];

/* An active set; index is the caller's place in it. */
struct set {
    int start, log_stride, size, index;
};

static int pe_of(struct set s, int index) { return s.start + (index << s.log_stride); }

static void expect_sync_restored(void) {
    for (int i = 0; i < SHMEM_SYNC_SIZE; i++) {
        CHECK(sync_words[i] == SHMEM_SYNC_VALUE);
    }
}

#define SET s.start, s.log_stride, s.size

#define DEFINE(BITS, TYPE)                                                                                       \
    static void check_moves_##BITS(struct set s, TYPE* dest, TYPE* source) {                                     \
        const size_t counts[] = {0, 1, 20, MOST};                                                                \
        const size_t members = (size_t)s.size;                                                                   \
        for (int c = 0; c < 4; c++) {                                                                            \
            const size_t count = counts[c];                                                                      \
            for (size_t i = 0; i < count * members + 3; i++) {                                                   \
                source[i] = (TYPE)(me * 100000 + (int)i);                                                        \
            }                                                                                                    \
            for (int root = 0; root < s.size; root++) {                                                          \
                dest[0] = (TYPE)77;                                                                              \
                shmem_barrier(SET, sync_words);                                                                  \
                shmem_broadcast##BITS(dest, source, count, root, SET, sync_words);                               \
                for (size_t i = 0; i < count && root != s.index; i++) {                                          \
                    CHECK(dest[i] == (TYPE)(pe_of(s, root) * 100000 + (int)i));                                  \
                }                                                                                                \
                CHECK(root != s.index || dest[0] == (TYPE)77); /* the root's is not written */                   \
                shmem_barrier(SET, sync_words);                                                                  \
            }                                                                                                    \
            shmem_fcollect##BITS(dest, source, count, SET, sync_words);                                          \
            for (size_t i = 0; i < count * members; i++) {                                                       \
                CHECK(dest[i] == (TYPE)(pe_of(s, (int)(i / count)) * 100000 + (int)(i % count)));                \
            }                                                                                                    \
            shmem_barrier(SET, sync_words);                                                                      \
            shmem_collect##BITS(dest, source, (size_t)(s.index % 3), SET, sync_words);                           \
            size_t at = 0;                                                                                       \
            for (int k = 0; k < s.size; k++) {                                                                   \
                for (int i = 0; i < k % 3; i++) {                                                                \
                    CHECK(dest[at++] == (TYPE)(pe_of(s, k) * 100000 + i));                                       \
                }                                                                                                \
            }                                                                                                    \
            shmem_sync(SET, sync_words);                                                                         \
            shmem_alltoall##BITS(dest, source, count, SET, sync_words);                                          \
            for (size_t i = 0; i < count * members; i++) {                                                       \
                CHECK(dest[i] ==                                                                                 \
                      (TYPE)(pe_of(s, (int)(i / count)) * 100000 + (int)((size_t)s.index * count + i % count))); \
            }                                                                                                    \
            shmem_sync(SET, sync_words);                                                                         \
            const size_t few = count / 3;                                                                        \
            shmem_alltoalls##BITS(dest, source, 2, 3, few, SET, sync_words);                                     \
            for (size_t i = 0; i < few * members; i++) {                                                         \
                CHECK(dest[2 * i] ==                                                                             \
                      (TYPE)(pe_of(s, (int)(i / few)) * 100000 + (int)(((size_t)s.index * few + i % few) * 3))); \
            }                                                                                                    \
            shmem_sync(SET, sync_words);                                                                         \
            expect_sync_restored();                                                                              \
        }                                                                                                        \
    }
DEFINE(32, int32_t)
DEFINE(64, int64_t)

#define SUM_OF(a, b) ((a) + (b))
#define PROD_OF(a, b) ((a) * (b))
#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))
#define MIN_OF(a, b) ((a) < (b) ? (a) : (b))
#define AND_OF(a, b) ((a) & (b))
#define OR_OF(a, b) ((a) | (b))
#define XOR_OF(a, b) ((a) ^ (b))

static int value_of(int pe, int i) { return 1 + (pe + i) % 2; }
static int signed_of(int pe, int i) { return (pe * 37 + i * 11) % 128 - 64; }

#define CHECK_REDUCTION(NAME, TYPE, OPERATION, OPERATOR, INPUT)                                   \
    {                                                                                             \
        static TYPE dest[MOST], source[MOST], work[MOST / 2 + 1 + SHMEM_REDUCE_MIN_WRKDATA_SIZE]; \
        for (int count = 0; count <= MOST; count = count * 5 + 1) {                               \
            for (int i = 0; i < MOST; i++) {                                                      \
                source[i] = (TYPE)INPUT(me, i);                                                   \
            }                                                                                     \
            shmem_sync(SET, sync_words);                                                          \
            TYPE* const result = count % 2 == 0 ? source : dest;                                  \
            shmem_##NAME##_##OPERATION##_to_all(result, source, count, SET, work, sync_words);    \
            for (int i = 0; i < count; i++) {                                                     \
                TYPE expected = (TYPE)INPUT(pe_of(s, 0), i);                                      \
                for (int k = 1; k < s.size; k++) {                                                \
                    expected = (TYPE)OPERATOR(expected, (TYPE)INPUT(pe_of(s, k), i));             \
                }                                                                                 \
                CHECK_FOR(NAME OPERATION, result[i] == expected);                                 \
            }                                                                                     \
            shmem_sync(SET, sync_words);                                                          \
        }                                                                                         \
        expect_sync_restored();                                                                   \
    }
#define SUMS(NAME, TYPE) \
    CHECK_REDUCTION(NAME, TYPE, sum, SUM_OF, signed_of) CHECK_REDUCTION(NAME, TYPE, prod, PROD_OF, value_of)
#define MINMAX(NAME, TYPE) \
    CHECK_REDUCTION(NAME, TYPE, max, MAX_OF, signed_of) CHECK_REDUCTION(NAME, TYPE, min, MIN_OF, signed_of)
#define LOGIC(NAME, TYPE)                               \
    CHECK_REDUCTION(NAME, TYPE, and, AND_OF, signed_of) \
    CHECK_REDUCTION(NAME, TYPE, or, OR_OF, signed_of)   \
    CHECK_REDUCTION(NAME, TYPE, xor, XOR_OF, signed_of)
static void check_sums(struct set s) { OLD_SUM_TYPES(SUMS) }
static void check_min_max(struct set s) { OLD_MINMAX_TYPES(MINMAX) }
static void check_logic(struct set s) { OLD_LOGIC_TYPES(LOGIC) }

/* One pSync serves calls one behind the other as long as the set stays the same; two of them alternate where it does
 * not. */
static void check_back_to_back(void) {
    static long other_words[SHMEM_SYNC_SIZE];
    static long arrived;
    for (int i = 0; i < SHMEM_SYNC_SIZE; i++) {
        other_words[i] = SHMEM_SYNC_VALUE;
    }
    shmem_barrier_all();
    for (int turn = 1; turn <= 50; turn++) {
        if (turn % 10 == 0) {
            delay_below(300, (unsigned)turn);
        }
        shmem_long_atomic_inc(&arrived, npes - 1);
        shmem_barrier(0, 0, npes, sync_words);
        CHECK(shmem_long_atomic_fetch(&arrived, npes - 1) == (long)turn * npes);
        shmem_sync(0, 0, npes, sync_words);
        if (me % 2 == 0) {
            shmem_barrier(0, 1, (npes + 1) / 2, other_words);
        }
    }
    shmem_barrier_all();
    expect_sync_restored();
}

/* A PE that does not belong to the set returns at once from each of them and changes nothing, while those that belong
 * to it are elsewhere: it does not wait for anybody. */
#define CALL_OUTSIDE(NAME, TYPE, OPERATION) \
    shmem_##NAME##_##OPERATION##_to_all((TYPE*)dest, (const TYPE*)source, 4, OTHERS, (TYPE*)work, sync_words);
#define SUMS_OUTSIDE(NAME, TYPE) CALL_OUTSIDE(NAME, TYPE, sum) CALL_OUTSIDE(NAME, TYPE, prod)
#define MINMAX_OUTSIDE(NAME, TYPE) CALL_OUTSIDE(NAME, TYPE, max) CALL_OUTSIDE(NAME, TYPE, min)
#define LOGIC_OUTSIDE(NAME, TYPE) \
    CALL_OUTSIDE(NAME, TYPE, and) CALL_OUTSIDE(NAME, TYPE, or) CALL_OUTSIDE(NAME, TYPE, xor)
#define MOVES_OUTSIDE(BITS)                                        \
    shmem_broadcast##BITS(dest, source, 4, 0, OTHERS, sync_words); \
    shmem_collect##BITS(dest, source, 4, OTHERS, sync_words);      \
    shmem_fcollect##BITS(dest, source, 4, OTHERS, sync_words);     \
    shmem_alltoall##BITS(dest, source, 4, OTHERS, sync_words);     \
    shmem_alltoalls##BITS(dest, source, 1, 1, 4, OTHERS, sync_words);

static void call_all_outside(struct set s, void* dest, const void* source) {
    static double _Complex work_array[SHMEM_REDUCE_MIN_WRKDATA_SIZE];
    void* const work = work_array;
#define OTHERS s.start, s.log_stride, s.size
    shmem_barrier(OTHERS, sync_words);
    shmem_sync(OTHERS, sync_words);
    MOVES_OUTSIDE(32)
    MOVES_OUTSIDE(64)
    OLD_SUM_TYPES(SUMS_OUTSIDE)
    OLD_MINMAX_TYPES(MINMAX_OUTSIDE)
    OLD_LOGIC_TYPES(LOGIC_OUTSIDE)
#undef OTHERS
}

static void check_outside(void* dest_block, void* source_block) {
    unsigned char *const dest = dest_block, *const source = source_block;
    static long turn;
    const struct set others[] = {{0, 0, npes - 1, 0}, {0, 1, npes / 2, 0}, {0, 0, 1, 0}};
    for (int i = 0; npes > 1 && i < 3; i++) {
        memset(dest, 55, 1000);
        memset(source, 66, 1000);
        shmem_barrier_all();
        if (me == npes - 1) {
            call_all_outside(others[i], dest, source);
            for (int k = 0; k < 1000; k++) {
                CHECK(dest[k] == 55 && source[k] == 66);
            }
            for (int pe = 0; pe < npes; pe++) {
                shmem_long_atomic_inc(&turn, pe); /* only now the members go on */
            }
        } else {
            shmem_long_wait_until(&turn, SHMEM_CMP_NE, 0);
        }
        shmem_barrier_all();
        turn = 0;
        expect_sync_restored();
    }
    shmem_barrier_all();
}

int main(void) {
    shmem_init();
    me = shmem_my_pe();
    npes = shmem_n_pes();
    for (int i = 0; i < SHMEM_SYNC_SIZE; i++) {
        sync_words[i] = SHMEM_SYNC_VALUE;
    }
    const size_t bytes = ((size_t)npes * MOST + 3) * 8;
    void* dest = shmem_malloc(bytes);
    void* source = shmem_malloc(bytes);
    CHECK(dest != NULL && source != NULL);
    const struct set sets[] = {{0, 0, npes, 0},           {npes - 1, 0, 1, 0},
                               {0, 1, (npes + 1) / 2, 0}, {npes / 2, 0, npes - npes / 2, 0},
                               {0, 2, (npes + 3) / 4, 0}, {npes > 1, 1, npes > 1 ? npes / 2 : 1, 0}};
    for (int i = 0; i < 6; i++) {
        struct set s = sets[i];
        for (s.index = 0; s.index < s.size; s.index++) {
            if (pe_of(s, s.index) == me) {
                check_moves_32(s, dest, source);
                check_moves_64(s, dest, source);
                check_sums(s);
                check_min_max(s);
                check_logic(s);
                break;
            }
        }
        shmem_barrier_all();
    }
    check_back_to_back();
    if (!calls_are_checked()) {
        check_outside(dest, source);
    }
    shmem_finalize();
    return 0;
}
