/* put, get, p, g and their non-blocking forms: every type and size, default and own context, static and heap data. */
#include "tests/conformance/check.h"

enum { COUNT = 9 };
static int me, npes, right, left;
static shmem_ctx_t ctx;

/* Every element of dest must come from the left neighbour, up to count; the rest must be untouched. */
#define EXPECT_FROM_LEFT(NAME, TYPE, count)                                    \
    shmem_barrier_all();                                                       \
    for (int i = 0; i < COUNT; i++) {                                          \
        CHECK_FOR(NAME, dest[i] == (TYPE)(i < (count) ? left * 20 + i : 101)); \
    }                                                                          \
    shmem_barrier_all();                                                       \
    for (int i = 0; i < COUNT; i++) {                                          \
        dest[i] = (TYPE)101;                                                   \
    }                                                                          \
    shmem_barrier_all()

/* The same for a local array that was read from the right. */
#define EXPECT_FROM_RIGHT(NAME, TYPE, count)                                     \
    for (int i = 0; i < COUNT; i++) {                                            \
        CHECK_FOR(NAME, local[i] == (TYPE)(i < (count) ? right * 20 + i : 101)); \
        local[i] = (TYPE)101;                                                    \
    }

#define DEFINE(NAME, TYPE)                                                                       \
    static void check_##NAME(TYPE* dest, TYPE* source) {                                         \
        TYPE local[COUNT];                                                                       \
        for (int i = 0; i < COUNT; i++) {                                                        \
            source[i] = (TYPE)(me * 20 + i);                                                     \
            dest[i] = local[i] = (TYPE)101;                                                      \
        }                                                                                        \
        shmem_barrier_all();                                                                     \
        shmem_##NAME##_put(dest, source, COUNT, right);                                          \
        EXPECT_FROM_LEFT(NAME, TYPE, COUNT);                                                     \
        shmem_##NAME##_put(dest, source, 1, right);                                              \
        EXPECT_FROM_LEFT(NAME, TYPE, 1);                                                         \
        shmem_ctx_##NAME##_put(ctx, dest, source, 5, right);                                     \
        shmem_ctx_quiet(ctx);                                                                    \
        EXPECT_FROM_LEFT(NAME, TYPE, 5);                                                         \
        shmem_##NAME##_put_nbi(dest, source, 4, right);                                          \
        shmem_quiet();                                                                           \
        EXPECT_FROM_LEFT(NAME, TYPE, 4);                                                         \
        shmem_ctx_##NAME##_put_nbi(ctx, dest, source, 3, right);                                 \
        shmem_ctx_quiet(ctx);                                                                    \
        EXPECT_FROM_LEFT(NAME, TYPE, 3);                                                         \
        shmem_##NAME##_p(dest, source[0], right);                                                \
        shmem_ctx_##NAME##_p(ctx, dest + 1, source[1], right);                                   \
        shmem_ctx_quiet(ctx);                                                                    \
        EXPECT_FROM_LEFT(NAME, TYPE, 2);                                                         \
        shmem_##NAME##_get(local, source, COUNT, right);                                         \
        EXPECT_FROM_RIGHT(NAME, TYPE, COUNT)                                                     \
        shmem_ctx_##NAME##_get(ctx, local, source, 1, right);                                    \
        EXPECT_FROM_RIGHT(NAME, TYPE, 1)                                                         \
        shmem_##NAME##_get_nbi(local, source, 7, right);                                         \
        shmem_quiet();                                                                           \
        EXPECT_FROM_RIGHT(NAME, TYPE, 7)                                                         \
        shmem_ctx_##NAME##_get_nbi(ctx, local, source, 2, right);                                \
        shmem_ctx_quiet(ctx);                                                                    \
        EXPECT_FROM_RIGHT(NAME, TYPE, 2)                                                         \
        CHECK_FOR(NAME, shmem_##NAME##_g(source + 3, right) == (TYPE)(right * 20 + 3));          \
        CHECK_FOR(NAME, shmem_ctx_##NAME##_g(ctx, source + 4, right) == (TYPE)(right * 20 + 4)); \
        shmem_##NAME##_put(NULL, NULL, 0, right);                                                \
        shmem_##NAME##_get(NULL, NULL, 0, right);                                                \
        shmem_##NAME##_put_nbi(NULL, NULL, 0, right);                                            \
        shmem_##NAME##_get_nbi(NULL, NULL, 0, right);                                            \
        shmem_ctx_##NAME##_put(ctx, dest, source, 0, right);                                     \
        shmem_ctx_##NAME##_get(ctx, local, source, 0, right);                                    \
        shmem_ctx_##NAME##_put_nbi(ctx, NULL, NULL, 0, right);                                   \
        shmem_ctx_##NAME##_get_nbi(ctx, NULL, NULL, 0, right);                                   \
        EXPECT_FROM_LEFT(NAME, TYPE, 0);                                                         \
        EXPECT_FROM_RIGHT(NAME, TYPE, 0)                                                         \
        shmem_barrier_all();                                                                     \
    }
RMA_TYPES(DEFINE)

#define STATIC_DATA(NAME, TYPE) static TYPE NAME##_dest[COUNT], NAME##_source[COUNT];
RMA_TYPES(STATIC_DATA)

/* A sized routine moves elements of exactly that size; the values are patterns that differ in every byte. */
#define DEFINE_SIZED(BITS, TYPE)                                                                \
    static void check_bits_##BITS(unsigned char* dest, unsigned char* source) {                 \
        const size_t bytes = (BITS) / 8;                                                        \
        unsigned char local[COUNT * (BITS) / 8];                                                \
        for (int form = 0; form < 4; form++) {                                                  \
            for (size_t i = 0; i < COUNT * bytes; i++) {                                        \
                source[i] = (unsigned char)(me * 31 + (int)i + form);                           \
                dest[i] = local[i] = 0xee;                                                      \
            }                                                                                   \
            shmem_barrier_all();                                                                \
            switch (form) {                                                                     \
                case 0: shmem_put##BITS(dest, source, 6, right); break;                         \
                case 1: shmem_ctx_put##BITS(ctx, dest, source, 6, right); break;                \
                case 2: shmem_put##BITS##_nbi(dest, source, 6, right); break;                   \
                default: shmem_ctx_put##BITS##_nbi(ctx, dest, source, 6, right);                \
            }                                                                                   \
            shmem_ctx_quiet(ctx);                                                               \
            shmem_barrier_all();                                                                \
            for (size_t i = 0; i < COUNT * bytes; i++) {                                        \
                const int sent = left * 31 + (int)i + form;                                     \
                CHECK_FOR(BITS bits, dest[i] == (i < 6 * bytes ? (unsigned char)sent : 0xee));  \
            }                                                                                   \
            switch (form) {                                                                     \
                case 0: shmem_get##BITS(local, source, 6, right); break;                        \
                case 1: shmem_ctx_get##BITS(ctx, local, source, 6, right); break;               \
                case 2: shmem_get##BITS##_nbi(local, source, 6, right); break;                  \
                default: shmem_ctx_get##BITS##_nbi(ctx, local, source, 6, right);               \
            }                                                                                   \
            shmem_quiet();                                                                      \
            shmem_ctx_quiet(ctx);                                                               \
            for (size_t i = 0; i < COUNT * bytes; i++) {                                        \
                const int sent = right * 31 + (int)i + form;                                    \
                CHECK_FOR(BITS bits, local[i] == (i < 6 * bytes ? (unsigned char)sent : 0xee)); \
            }                                                                                   \
            shmem_barrier_all();                                                                \
        }                                                                                       \
    }
SIZES(DEFINE_SIZED)

/* Bytes at odd places, and enough of them for several pages. */
static void check_mem(unsigned char* dest, unsigned char* source, size_t bytes) {
    unsigned char* local = malloc(bytes + 2);
    CHECK(local != NULL);
    for (int form = 0; form < 4; form++) {
        for (size_t i = 0; i < bytes + 2; i++) {
            source[i] = (unsigned char)(me * 7 + (int)(i % 251) + form);
            dest[i] = local[i] = 0xee;
        }
        shmem_barrier_all();
        switch (form) {
            case 0: shmem_putmem(dest + 1, source + 1, bytes, right); break;
            case 1: shmem_ctx_putmem(ctx, dest + 1, source + 1, bytes, right); break;
            case 2: shmem_putmem_nbi(dest + 1, source + 1, bytes, right); break;
            default: shmem_ctx_putmem_nbi(ctx, dest + 1, source + 1, bytes, right);
        }
        shmem_ctx_quiet(ctx);
        shmem_barrier_all();
        CHECK(dest[0] == 0xee && dest[bytes + 1] == 0xee);
        for (size_t i = 1; i <= bytes; i++) {
            CHECK(dest[i] == (unsigned char)(left * 7 + (int)(i % 251) + form));
        }
        switch (form) {
            case 0: shmem_getmem(local + 1, source + 1, bytes, right); break;
            case 1: shmem_ctx_getmem(ctx, local + 1, source + 1, bytes, right); break;
            case 2: shmem_getmem_nbi(local + 1, source + 1, bytes, right); break;
            default: shmem_ctx_getmem_nbi(ctx, local + 1, source + 1, bytes, right);
        }
        shmem_quiet();
        shmem_ctx_quiet(ctx);
        CHECK(local[0] == 0xee && local[bytes + 1] == 0xee);
        for (size_t i = 1; i <= bytes; i++) {
            CHECK(local[i] == (unsigned char)(right * 7 + (int)(i % 251) + form));
        }
        shmem_barrier_all();
    }
    free(local);
}

/* All alignments of both sides, and sizes around those of processor words. Each PE writes into a part of its own of the
 * other one, and reads it back from there. */
static void check_unaligned(unsigned char* dest, unsigned char* source) {
    enum { LENGTH = 128, MOST = 64 };
    static const size_t sizes[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, MOST};
    unsigned char* const mine = dest + (size_t)me * LENGTH;
    unsigned char back[LENGTH], filler[LENGTH], local[LENGTH];
    memset(filler, 0xee, LENGTH);
    for (size_t i = 0; i < LENGTH; i++) {
        source[i] = (unsigned char)(me * 16 + (int)i);
    }
    shmem_barrier_all();
    for (size_t to = 0; to < 9; to++) {
        for (size_t from = 0; from < 9; from++) {
            for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
                shmem_putmem(mine, filler, LENGTH, right);
                shmem_putmem(mine + to, source + from, sizes[s], right);
                shmem_quiet();
                shmem_getmem(back, mine, LENGTH, right);
                memset(local, 0xee, LENGTH);
                shmem_getmem(local + to, source + from, sizes[s], right);
                for (size_t i = 0; i < LENGTH; i++) {
                    const int in = i >= to && i < to + sizes[s];
                    CHECK(back[i] == (in ? source[i - to + from] : 0xee));
                    CHECK(local[i] == (in ? (unsigned char)(right * 16 + (int)(i - to + from)) : 0xee));
                }
            }
        }
    }
    shmem_putmem(NULL, NULL, 0, right);
    shmem_getmem(NULL, NULL, 0, right);
    shmem_putmem_nbi(NULL, NULL, 0, right);
    shmem_getmem_nbi(NULL, NULL, 0, right);
    shmem_barrier_all();
}

/* With the PE `shift` places to the right; 0 is the PE itself. */
static void check_with(int shift, unsigned char* dest, unsigned char* source, size_t bytes) {
    right = (me + shift) % npes;
    left = (me + npes - shift) % npes;
#define RUN(NAME, TYPE)                       \
    check_##NAME(NAME##_dest, NAME##_source); \
    check_##NAME((TYPE*)dest, (TYPE*)source); \
    check_##NAME((TYPE*)dest, NAME##_source);
    RMA_TYPES(RUN)
#define RUN_SIZED(BITS, TYPE) check_bits_##BITS(dest, source);
    SIZES(RUN_SIZED)
    check_mem(dest, source, 1);
    check_mem(dest, source, 13);
    check_mem(dest, source, bytes);
    check_unaligned(dest, source);
}

int main(void) {
    shmem_init();
    me = shmem_my_pe();
    npes = shmem_n_pes();
    CHECK(shmem_ctx_create(0, &ctx) == 0);
    const size_t bytes = 300000;
    unsigned char* dest = shmem_malloc(bytes + 2);
    unsigned char* source = shmem_malloc(bytes + 2);
    CHECK(dest != NULL && source != NULL);
    check_with(0, dest, source, bytes);
    if (npes > 1) {
        check_with(1, dest, source, bytes);
    }
    shmem_ctx_destroy(ctx);
    shmem_free(source);
    shmem_free(dest);
    shmem_finalize();
    return 0;
}
