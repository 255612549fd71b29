/* A ring of cells, distributed over whatever number of PEs, that goes on from a stored version of another number.
 *
 *   regrouped [--pace MS]
 *
 * Compiled with IN_TWO_PIECES it is another program, which keeps the two halves of what a PE has apart and in another
 * order. Arithmetic is exact, so the result depends on neither. */
#include <poll.h>
#include <shmem.h>
#include <shmem_ft.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 50021, STEPS = 48 };
static const uint64_t kPrime = 2147483647;

#ifdef IN_TWO_PIECES
char moved[70000] = {1}; /* everything behind it lies elsewhere */
#endif
static long step;
static uint64_t beyond[2]; /* the neighbours' cells: left, right */
static uint64_t sum, part;

typedef struct {
    uint64_t* cells[2]; /* in two pieces, or one that is empty */
    size_t first, count[2];
} Own;

static uint64_t* cell(const Own* own, size_t i) {
    return i < own->count[0] ? own->cells[0] + i : own->cells[1] + (i - own->count[0]);
}

static Own distribute(void) {
    const size_t me = (size_t)shmem_my_pe();
    const size_t n = (size_t)shmem_n_pes();
    Own own = {.first = CELLS * me / n};
    const size_t all = CELLS * (me + 1) / n - own.first;
    const size_t most = CELLS / n + 1;
#ifdef IN_TWO_PIECES
    own.count[0] = all / 2;
    own.cells[1] = shmem_malloc(most * sizeof(uint64_t));
    shmem_malloc(12345);
#endif
    own.count[1] = all - own.count[0];
    *(own.count[0] == 0 ? &own.cells[1] : &own.cells[0]) = shmem_malloc(most * sizeof(uint64_t));
    size_t first = own.first;
    for (int i = 0; i < 2; i++) {
        shmem_ft_declare_array("cells", own.cells[i], sizeof(uint64_t), first, own.count[i]);
        first += own.count[i];
    }
    shmem_ft_declare_array("step", &step, sizeof step, 0, 1);
    return own;
}

static void begin(const Own* own) {
    const size_t all = own->count[0] + own->count[1];
    if (shmem_ft_stored_elements("cells") == 0) {
        for (size_t i = 0; i < all; i++) {
            *cell(own, i) = ((own->first + i) * 7919 + 17) % kPrime;
        }
        return;
    }
    size_t first = own->first;
    int failed = shmem_ft_load_array("step", &step, sizeof step, 0, 1);
    for (int i = 0; i < 2; i++) {
        failed += shmem_ft_load_array("cells", own->cells[i], sizeof(uint64_t), first, own->count[i]);
        first += own->count[i];
    }
    if (failed != 0 || shmem_ft_stored_elements("cells") != CELLS) {
        fprintf(stderr, "regrouped: PE %d cannot load what was stored\n", shmem_my_pe());
        shmem_global_exit(3);
    }
    if (shmem_my_pe() == 0) {
        fprintf(stderr, "regrouped: goes on from step %ld\n", step);
    }
}

static void advance(const Own* own) {
    const int me = shmem_my_pe();
    const int n = shmem_n_pes();
    const size_t all = own->count[0] + own->count[1];
    shmem_uint64_put(&beyond[1], cell(own, 0), 1, (me + n - 1) % n);
    shmem_uint64_put(&beyond[0], cell(own, all - 1), 1, (me + 1) % n);
    shmem_barrier_all();
    uint64_t left = beyond[0];
    for (size_t i = 0; i < all; i++) {
        uint64_t* const here = cell(own, i);
        const uint64_t right = i + 1 < all ? *cell(own, i + 1) : beyond[1];
        const uint64_t next = (left + 3 * *here + 5 * right + (uint64_t)step) % kPrime;
        left = *here;
        *here = next;
    }
    step++;
}

static uint64_t weighed(const Own* own) {
    part = 0;
    for (size_t i = 0; i < own->count[0] + own->count[1]; i++) {
        part += (own->first + i + 1) * *cell(own, i);
    }
    shmem_uint64_sum_reduce(SHMEM_TEAM_WORLD, &sum, &part, 1);
    return sum;
}

int main(int argc, char** argv) {
    const int pause_ms = argc > 2 && strcmp(argv[1], "--pace") == 0 ? atoi(argv[2]) : 0;
    shmem_init();
    const Own own = distribute();
    if (shmem_ft_algo_init()) {
        begin(&own);
    }
    if (SHMEM_FT_ROLLBACK_POINT()) {
        shmem_ft_recover();
    }
    while (step < STEPS) {
        shmem_checkpoint_all();
        advance(&own);
        poll(NULL, 0, pause_ms);
    }
    const uint64_t result = weighed(&own);
    if (shmem_my_pe() == 0) {
        printf("result step %ld sum %llu\n", step, (unsigned long long)result);
    }
    shmem_finalize();
    return 0;
}
