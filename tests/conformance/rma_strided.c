/* iput, iget, ibput, ibget: every type and size, default and own context. */
#include "tests/conformance/check.h"

enum { COUNT = 40, ELEMENTS = 4, BLOCK = 2, BLOCKS = 3 };
static int me, npes, right, left;
static shmem_ctx_t ctx;

/* Where element k of the transfer lies with a stride; blocks of one are the element-wise routines. */
static int place(int k, int block, int stride) { return k / block * stride + k % block; }

/* Which element of the transfer lies at i, or -1. */
static int element_at(int i, int block, int stride, int total) {
    for (int k = 0; k < total; k++) {
        if (place(k, block, stride) == i) {
            return k;
        }
    }
    return -1;
}

#define EXPECT(NAME, TYPE, at, block, from, dst, sst, total)                                        \
    for (int i = 0; i < COUNT; i++) {                                                               \
        const int k = element_at(i, block, dst, total);                                             \
        CHECK_FOR(NAME, (at)[i] == (TYPE)(k < 0 ? 111 : ((from)*20 + place(k, block, sst)) % 110)); \
        (at)[i] = (TYPE)111;                                                                        \
    }

#define PUT_FORM(NAME, TYPE, block, dst, sst, total, ...)  \
    __VA_ARGS__;                                           \
    shmem_ctx_quiet(ctx);                                  \
    shmem_barrier_all();                                   \
    EXPECT(NAME, TYPE, dest, block, left, dst, sst, total) \
    shmem_barrier_all();

#define DEFINE(NAME, TYPE, TAIL, ITAIL)                                                                             \
    static void check_##NAME(TYPE* dest, TYPE* source) {                                                            \
        TYPE local[COUNT];                                                                                          \
        for (int i = 0; i < COUNT; i++) {                                                                           \
            source[i] = (TYPE)((me * 20 + i) % 110);                                                                \
            dest[i] = local[i] = (TYPE)111;                                                                         \
        }                                                                                                           \
        shmem_barrier_all();                                                                                        \
        PUT_FORM(NAME, TYPE, 1, 3, 2, ELEMENTS, shmem_##TAIL##iput##ITAIL(dest, source, 3, 2, ELEMENTS, right))     \
        PUT_FORM(NAME, TYPE, 1, 1, 5, ELEMENTS,                                                                     \
                 shmem_ctx_##TAIL##iput##ITAIL(ctx, dest, source, 1, 5, ELEMENTS, right))                           \
        PUT_FORM(NAME, TYPE, BLOCK, 5, 3, BLOCK* BLOCKS,                                                            \
                 shmem_##TAIL##ibput##ITAIL(dest, source, 5, 3, BLOCK, BLOCKS, right))                              \
        PUT_FORM(NAME, TYPE, BLOCK, 2, 4, BLOCK* BLOCKS,                                                            \
                 shmem_ctx_##TAIL##ibput##ITAIL(ctx, dest, source, 2, 4, BLOCK, BLOCKS, right))                     \
        PUT_FORM(NAME, TYPE, BLOCK, 2, 2, BLOCK* BLOCKS,                                                            \
                 shmem_##TAIL##ibput##ITAIL(dest, source, 2, 2, BLOCK, BLOCKS, right))                              \
        PUT_FORM(NAME, TYPE, 1, 3, 2, ELEMENTS, shmem_##TAIL##ibput##ITAIL(dest, source, 3, 2, 1, ELEMENTS, right)) \
        shmem_##TAIL##iget##ITAIL(local, source, 2, 3, ELEMENTS, right);                                            \
        EXPECT(NAME, TYPE, local, 1, right, 2, 3, ELEMENTS)                                                         \
        shmem_ctx_##TAIL##iget##ITAIL(ctx, local, source, 1, 1, ELEMENTS, right);                                   \
        EXPECT(NAME, TYPE, local, 1, right, 1, 1, ELEMENTS)                                                         \
        shmem_##TAIL##ibget##ITAIL(local, source, 4, 2, BLOCK, BLOCKS, right);                                      \
        EXPECT(NAME, TYPE, local, BLOCK, right, 4, 2, BLOCK* BLOCKS)                                                \
        shmem_ctx_##TAIL##ibget##ITAIL(ctx, local, source, 3, 6, BLOCK, BLOCKS, right);                             \
        EXPECT(NAME, TYPE, local, BLOCK, right, 3, 6, BLOCK* BLOCKS)                                                \
        shmem_##TAIL##ibget##ITAIL(local, source, 3, 2, 1, ELEMENTS, right); /* blocks of one: iget */              \
        EXPECT(NAME, TYPE, local, 1, right, 3, 2, ELEMENTS)                                                         \
        shmem_ctx_##TAIL##iput##ITAIL(ctx, NULL, NULL, 1, 1, 0, right);                                             \
        shmem_ctx_##TAIL##ibget##ITAIL(ctx, NULL, NULL, 1, 1, 0, 0, right);                                         \
        shmem_##TAIL##iput##ITAIL(NULL, NULL, 1, 1, 0, right);                                                      \
        shmem_##TAIL##iget##ITAIL(NULL, NULL, 1, 1, 0, right);                                                      \
        shmem_##TAIL##ibput##ITAIL(NULL, NULL, 1, 1, 1, 0, right);                                                  \
        shmem_##TAIL##ibget##ITAIL(NULL, NULL, 1, 1, 0, 1, right);                                                  \
        shmem_barrier_all();                                                                                        \
    }
#define DEFINE_TYPED(NAME, TYPE) DEFINE(NAME, TYPE, NAME##_, )
RMA_TYPES(DEFINE_TYPED)

#define DEFINE_SIZED(BITS, TYPE) DEFINE(bits##BITS, TYPE, , BITS)
SIZES(DEFINE_SIZED)

static _Alignas(16) unsigned char static_dest[COUNT * 16], static_source[COUNT * 16];

/* With the PE `shift` places to the right; 0 is the PE itself. */
static void check_with(int shift, void* dest, void* source) {
    right = (me + shift) % npes;
    left = (me + npes - shift) % npes;
#define RUN(NAME, TYPE) check_##NAME(dest, source);
#define RUN_SIZED(BITS, TYPE) check_bits##BITS(dest, source);
    RMA_TYPES(RUN)
    SIZES(RUN_SIZED)
}

int main(void) {
    shmem_init();
    me = shmem_my_pe();
    npes = shmem_n_pes();
    CHECK(shmem_ctx_create(0, &ctx) == 0);
    void* dest = shmem_malloc(COUNT * 16);
    void* source = shmem_malloc(COUNT * 16);
    CHECK(dest != NULL && source != NULL);
    check_with(0, dest, source);
    check_with(1 % npes, static_dest, source);
    check_with(npes - 1, dest, static_source);
    shmem_finalize();
    return 0;
}
