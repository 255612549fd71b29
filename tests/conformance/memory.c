/* The symmetric heap: alignment, zeros, reallocation, the trivial cases without barrier, running out. */
#include "tests/conformance/check.h"

static void* address_on_pe_0;

/* Every PE must have got the same symmetric object; here that is the same address. */
static void check_same(void* block) {
    address_on_pe_0 = block;
    shmem_barrier_all();
    void* first = NULL;
    shmem_getmem(&first, &address_on_pe_0, sizeof first, 0);
    CHECK(first == block);
    shmem_barrier_all();
}

static void check_usable(unsigned char* block, size_t bytes) {
    const int me = shmem_my_pe(), npes = shmem_n_pes();
    const unsigned char value = (unsigned char)(me + 1);
    shmem_putmem(block + bytes - 1, &value, 1, (me + 1) % npes);
    shmem_barrier_all();
    CHECK(block[bytes - 1] == (unsigned char)((me + npes - 1) % npes + 1));
    shmem_barrier_all();
}

static void check_allocation(void) {
    for (size_t bytes = 1; bytes < 1000000; bytes = bytes * 7 + 1) {
        unsigned char* const block = shmem_malloc(bytes);
        CHECK(block != NULL && (uintptr_t)block % _Alignof(max_align_t) == 0);
        check_same(block);
        check_usable(block, bytes);
        unsigned char* const hinted =
            shmem_malloc_with_hints(bytes, SHMEM_MALLOC_ATOMICS_REMOTE | SHMEM_MALLOC_SIGNAL_REMOTE);
        CHECK(hinted != NULL && hinted != block);
        unsigned char* const plain = shmem_malloc_with_hints(bytes, 0);
        CHECK(plain != NULL);
        shmem_free(block);
        unsigned char* const zeros = shmem_calloc(bytes, 3);
        CHECK(zeros != NULL);
        for (size_t i = 0; i < bytes * 3; i++) {
            CHECK(zeros[i] == 0);
        }
        memset(zeros, 0xff, bytes * 3);
        shmem_free(zeros);
        shmem_free(plain);
        shmem_free(hinted);
    }
    for (size_t alignment = sizeof(void*); alignment <= 65536; alignment *= 2) {
        unsigned char* const block = shmem_align(alignment, 100);
        CHECK(block != NULL && (uintptr_t)block % alignment == 0);
        check_usable(block, 100);
        shmem_free(block);
    }
}

/* Alignments that are none give no memory, on any PE, and do no harm; so do sizes that no heap has. */
static void check_odd_arguments(void) {
    void* const before = shmem_malloc(100);
    const size_t alignments[] = {0, 1, 2, 3, 4, 7, 9, 12, 24, 40, 100, 4097, SIZE_MAX, SIZE_MAX - 7, SIZE_MAX / 2 + 1};
    for (size_t i = 0; i < sizeof alignments / sizeof alignments[0]; i++) {
        CHECK(shmem_align(alignments[i], 100) == NULL);
        CHECK(shmemalign(alignments[i], 100) == NULL);
        CHECK(shmem_align(alignments[i], 0) == NULL);
    }
    const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 4096, SIZE_MAX / 2, SIZE_MAX / 2 + 1, (size_t)1 << 47};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        CHECK(shmem_malloc(sizes[i]) == NULL && shmem_malloc_with_hints(sizes[i], 0) == NULL);
        CHECK(shmem_calloc(sizes[i], 1) == NULL && shmem_calloc(1, sizes[i]) == NULL);
        CHECK(shmem_calloc(sizes[i], sizes[i]) == NULL && shmem_calloc(2, sizes[i]) == NULL);
        CHECK(shmem_align(64, sizes[i]) == NULL && shmem_realloc(NULL, sizes[i]) == NULL);
        CHECK(shmem_realloc(before, sizes[i]) == NULL);
    }
    CHECK(shmem_calloc((SIZE_MAX >> 32) + 1, (SIZE_MAX >> 32) + 1) == NULL); /* the product is 0 in 64 bits */
    CHECK(shmem_calloc((SIZE_MAX >> 32) + 2, (SIZE_MAX >> 32) + 1) == NULL);
    check_same(before);
    shmem_free(before);
    void* const after = shmem_malloc(100);
    CHECK(after == before); /* nothing has been taken meanwhile */
    shmem_free(after);
}

/* Also where there was something else before. */
static void check_zeros(void) {
    for (size_t bytes = 8; bytes < 1000000; bytes *= 5) {
        unsigned char* const dirty = shmem_malloc(bytes);
        CHECK(dirty != NULL);
        memset(dirty, 0xff, bytes);
        shmem_free(dirty);
        unsigned char* const zeros = shmem_calloc(bytes / 8, 8);
        CHECK(zeros != NULL);
        for (size_t i = 0; i < bytes / 8 * 8; i++) {
            CHECK(zeros[i] == 0);
        }
        shmem_free(zeros);
    }
}

static void check_reallocation(void) {
    unsigned char* block = shmem_realloc(NULL, 100);
    CHECK(block != NULL);
    for (int i = 0; i < 100; i++) {
        block[i] = (unsigned char)(i + shmem_my_pe());
    }
    unsigned char* const in_the_way = shmem_malloc(10);
    const size_t sizes[] = {200, 100000, 3000000, 50};
    for (int s = 0; s < 4; s++) {
        block = shmem_realloc(block, sizes[s]);
        CHECK(block != NULL);
        check_same(block);
        for (int i = 0; i < (sizes[s] < 100 ? 50 : 100); i++) {
            CHECK(block[i] == (unsigned char)(i + shmem_my_pe()));
        }
        shmem_barrier_all(); /* all have read before a neighbour writes */
        check_usable(block, sizes[s]);
        block[sizes[s] - 1] = (unsigned char)((int)sizes[s] - 1 + shmem_my_pe());
    }
    shmem_free(in_the_way);
    CHECK(shmem_realloc(block, 0) == NULL);
}

/* None of these may wait for the other PEs, who come later. */
static void check_trivial_cases(void) {
    if (shmem_my_pe() == 0) {
        CHECK(shmem_malloc(0) == NULL && shmem_align(64, 0) == NULL && shmem_malloc_with_hints(0, 0) == NULL);
        CHECK(shmem_calloc(0, 8) == NULL && shmem_calloc(8, 0) == NULL);
        shmem_free(NULL);
        static int done;
        for (int pe = 1; pe < shmem_n_pes(); pe++) {
            shmem_int_atomic_set(&done, 1, pe);
        }
        shmem_int_atomic_set(&done, 1, 0);
        shmem_int_wait_until(&done, SHMEM_CMP_EQ, 1);
    }
    shmem_barrier_all();
}

static void check_running_out(void) {
    CHECK(shmem_malloc(SIZE_MAX / 4) == NULL);
    CHECK(shmem_calloc(SIZE_MAX / 2, 4) == NULL);
    CHECK(shmem_align(4096, SIZE_MAX / 4) == NULL);
    unsigned char* const block = shmem_malloc(1000);
    CHECK(block != NULL);
    memset(block, 7, 1000);
    CHECK(shmem_realloc(block, SIZE_MAX / 4) == NULL);
    CHECK(block[0] == 7 && block[999] == 7);
    /* All of it in pieces, and given back: then one large piece fits again. */
    enum { PIECES = 4096 };
    static void* pieces[PIECES];
    const size_t piece = 1 << 20;
    int count = 0;
    while (count < PIECES && (pieces[count] = shmem_malloc(piece)) != NULL) {
        count++;
    }
    CHECK(count > 2);
    for (int i = 0; i < count; i += 2) {
        shmem_free(pieces[i]);
    }
    for (int i = 1; i < count; i += 2) {
        shmem_free(pieces[i]);
    }
    void* const large = shmem_malloc((size_t)(count - 1) * piece);
    CHECK(large != NULL);
    shmem_free(large);
    shmem_free(block);
}

/* Default-context operations are complete when an allocation or a free is over. */
static void check_implied_quiet(void) {
    const int me = shmem_my_pe(), npes = shmem_n_pes(), right = (me + 1) % npes, left = (me + npes - 1) % npes;
    static long cell;
    long value = me + 1;
    shmem_long_put_nbi(&cell, &value, 1, right);
    void* const block = shmem_malloc(10);
    CHECK(cell == left + 1);
    shmem_barrier_all();
    value = me + 2;
    shmem_long_put_nbi(&cell, &value, 1, right);
    shmem_free(block);
    CHECK(cell == left + 2);
    shmem_barrier_all();
}

int main(void) {
    shmem_init();
    check_allocation();
    if (!calls_are_checked()) {
        check_odd_arguments();
    }
    check_zeros();
    check_reallocation();
    check_trivial_cases();
    check_running_out();
    check_implied_quiet();
    shmem_finalize();
    return 0;
}
