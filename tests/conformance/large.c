/* Element counts and distances of 2^31 and more, with two PEs. What is moved is almost all zeros, and what is never
 * touched costs no memory, so the data are marked at the places where 32 bits would go wrong and at the ends. */
#include "tests/conformance/check.h"

#define COUNT (((size_t)1 << 31) + 7)
#define STEP (((size_t)1 << 31) + 64)
static int me;

/* Places of COUNT elements that are marked and looked at. */
enum { MARKS = 8 };
static const size_t marks[MARKS] = {0,
                                    1,
                                    ((size_t)1 << 30) - 1,
                                    (size_t)1 << 30,
                                    ((size_t)1 << 31) - 1,
                                    (size_t)1 << 31,
                                    ((size_t)1 << 31) + 1,
                                    ((size_t)1 << 31) + 6};

static void mark(unsigned char* data, int value) {
    for (int i = 0; i < MARKS; i++) {
        data[marks[i]] = (unsigned char)(value + i);
    }
}

static void expect_marks(const unsigned char* data, int value) {
    for (int i = 0; i < MARKS; i++) {
        CHECK(data[marks[i]] == (unsigned char)(value + i));
    }
}

/* Strides that lead beyond 2^31 bytes, with few elements. */
static void check_strides(unsigned char* heap) {
    const ptrdiff_t far = (ptrdiff_t)STEP;
    const signed char few[4] = {1, 2, 3, 4};
    signed char* const at = (signed char*)heap;
    signed char back[4] = {0};
    if (me == 0) {
        shmem_schar_iput(at, few, far, 2, 2, 1);
        shmem_iput64(heap + 64, heap, far / 8, 1, 2, 1);
        shmem_schar_ibput(at + 8, few, far, 2, 2, 2, 1);
        shmem_schar_iget(back, at, 1, far, 2, 1);
        CHECK(back[0] == 1 && back[1] == 3);
        shmem_schar_ibget(back, at + 8, 2, far, 2, 2, 1);
        CHECK(memcmp(back, few, 4) == 0);
        shmem_p((signed char*)heap + 2 * STEP - 1, (signed char)77, 1);
        CHECK(shmem_g((signed char*)heap + 2 * STEP - 1, 1) == 77);
        CHECK(shmem_long_atomic_fetch_add((long*)(heap + STEP + 512), 5, 1) == 0);
    }
    shmem_barrier_all();
    if (me == 1) {
        CHECK(at[0] == 1 && at[far] == 3 && at[8] == 1 && at[9] == 2 && at[far + 8] == 3 && at[far + 9] == 4);
        CHECK(*(long*)(heap + STEP + 512) == 5);
        CHECK(at[1] == 0 && at[10] == 0 && at[far - 1] == 0 && at[far + 10] == 0);
    }
    shmem_barrier_all();
    memset(heap, 0, 128);
    at[far] = at[far + 8] = at[far + 9] = 0;
    /* Element (k * nelems + n) * stride of an exchange between the two. */
    at[0] = (signed char)(me + 10);
    at[far] = (signed char)(me + 20);
    shmem_sync_all();
    CHECK(shmem_schar_alltoalls(SHMEM_TEAM_WORLD, at + 64, at, far, far, 1) == 0);
    CHECK(at[64] == 10 * (me + 1) && at[64 + far] == 10 * (me + 1) + 1);
    shmem_barrier_all();
    at[0] = at[64] = at[far] = at[far + 64] = 0;
    shmem_barrier_all();
}

/* Between the instances of one array, so that no further memory is needed. */
static void check_put_and_get(unsigned char* heap) {
    if (me == 0) {
        mark(heap, 30);
        shmem_uchar_put(heap, heap, COUNT, 1);
        CHECK(shmem_uchar_g(heap + COUNT - 1, 1) == heap[COUNT - 1] && shmem_uchar_g(heap + COUNT, 1) == 0);
        mark(heap, 150);
        shmem_getmem(heap, heap, COUNT, 1);
        expect_marks(heap, 30);
        CHECK(heap[COUNT] == 0);
    }
    shmem_barrier_all();
    if (me == 1) {
        expect_marks(heap, 30);
        CHECK(heap[COUNT] == 0);
        shmem_uchar_p(heap, 99, 0);
    }
    shmem_barrier_all();
    CHECK(heap[0] == (me == 0 ? 99 : 30));
}

/* In place, because every page that is touched costs time: first each PE has marks of its own, then the sums of them.
 */
static void check_collectives(unsigned char* data) {
    mark(data, 90 + 20 * me);
    shmem_sync_all();
    CHECK(shmem_uchar_max_reduce(SHMEM_TEAM_WORLD, data, data, COUNT) == 0);
    expect_marks(data, 110);
    CHECK(data[COUNT] == 0);
    shmem_sync_all();
    mark(data, 50 + 10 * me);
    shmem_sync_all();
    CHECK(shmem_uchar_sum_inscan(SHMEM_TEAM_WORLD, data, data, COUNT) == 0);
    for (int i = 0; i < MARKS; i++) {
        CHECK(data[marks[i]] == (me == 0 ? 50 + i : 110 + 2 * i));
    }
    CHECK(data[COUNT] == 0);
    shmem_barrier_all();
}

int main(void) {
    shmem_init();
    me = shmem_my_pe();
    CHECK(shmem_n_pes() == 2);
    unsigned char* const heap = shmem_malloc(2 * STEP);
    CHECK(heap != NULL);
    check_strides(heap);
    check_collectives(heap);
    check_put_and_get(heap);
    shmem_finalize();
    return 0;
}
