/* Conjugate gradients for a heat equation on a square, until the residual is small: a loop whose end is not known when
 * it begins. Rows are spread over the PEs, each step exchanges the border rows and needs two sums over all PEs.
 *
 * What makes it survive:
 *
 *  - The number that the loop looks at, the vectors' pointers and the count of iterations are globals, the vectors lie
 * on the symmetric heap: the condition is true again after a rollback, if it was at the checkpoint.
 *  - Behind the rollback point comes a checkpoint. A substitute, in which the condition is false until it has its
 * memory, is met there by the fault, and not behind a loop that it has skipped.
 *  - A call that meets a fault jumps, so no division by a sum that has not come. */
#include <inttypes.h>
#include <math.h>

#include "apps/app_support.h"

static const char kProgram[] = "conjugate_gradients";

typedef struct {
    unsigned long cells; /* of an edge of the square */
    unsigned long interval;
    unsigned long pace_ms;
    unsigned long digits;
} Options;

/* Symmetric state beside the heap. Rows are numbered from 1: in p, row 0 and the one behind the last belong to the
 * neighbours. */
static double *x, *r, *p, *q;
static unsigned long iteration;
static double residual; /* the square of its norm, alike on all PEs */
static double part, whole;
static uint64_t digest, digests;

typedef struct {
    long cells, rows; /* rows: mine */
    long first;       /* of the square's rows */
} Part;

static Part my_part(const Options *options) {
    const long n_pes = shmem_n_pes(), me = shmem_my_pe(), cells = (long)options->cells;
    const long first = cells * me / n_pes;
    return (Part){.cells = cells, .rows = cells * (me + 1) / n_pes - first, .first = first};
}

/* Collective: the sum of everybody's numbers, on all PEs. */
static double sum_of_all(double number) {
    part = number;
    shmem_double_sum_reduce(SHMEM_TEAM_WORLD, &whole, &part, 1);
    return whole;
}

static double product(const Part *mine, const double *a, const double *b) {
    double sum = 0;
    for (long i = mine->cells; i < mine->cells * (mine->rows + 1); i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static void allocate(const Part *mine) {
    const size_t bytes = (size_t)(mine->cells / shmem_n_pes() + 3) * (size_t)mine->cells * sizeof *x;
    x = shmem_malloc(bytes);
    r = shmem_malloc(bytes);
    p = shmem_malloc(bytes);
    q = shmem_malloc(bytes);
    if (x == NULL || r == NULL || p == NULL || q == NULL) {
        app_fail(kProgram, "no symmetric memory for the vectors: fewer --cells or a higher SHMEM_SYMMETRIC_SIZE");
    }
}

/* Once: x = 0, so the residual is the right-hand side. */
static void begin(const Part *mine) {
    memset(x, 0, (size_t)(mine->cells * (mine->rows + 2)) * sizeof *x);
    memset(p, 0, (size_t)(mine->cells * (mine->rows + 2)) * sizeof *p);
    for (long row = 1; row <= mine->rows; row++) {
        for (long column = 0; column < mine->cells; column++) {
            const uint64_t random = app_mix3((uint64_t)(mine->first + row), (uint64_t)column, 0);
            r[row * mine->cells + column] = (double)(random >> 40) / (1 << 24) - 0.5;
        }
    }
    memcpy(p + mine->cells, r + mine->cells, (size_t)(mine->cells * mine->rows) * sizeof *p);
    residual = sum_of_all(product(mine, r, r));
}

/* q = A p, a stencil of five points. Collective. */
static void multiply(const Part *mine) {
    const int me = shmem_my_pe(), n_pes = shmem_n_pes();
    const long cells = mine->cells;
    const size_t row_cells = (size_t)cells;
    shmem_barrier_all(); /* everybody's p is complete, and its border rows have been read */
    if (me > 0) {
        const long rows_above = mine->first - cells * (me - 1) / n_pes;
        shmem_double_put(p + (rows_above + 1) * cells, p + cells, row_cells, me - 1);
    }
    if (me < n_pes - 1) {
        shmem_double_put(p, p + mine->rows * cells, row_cells, me + 1);
    }
    shmem_barrier_all();
    for (long row = 1; row <= mine->rows; row++) {
        const double *at = p + row * cells;
        for (long column = 0; column < cells; column++) {
            const double left = column > 0 ? at[column - 1] : 0, right = column < cells - 1 ? at[column + 1] : 0;
            q[row * cells + column] = 4 * at[column] - left - right - at[column - cells] - at[column + cells];
        }
    }
}

static void iterate(const Part *mine) {
    multiply(mine);
    const double alpha = residual / sum_of_all(product(mine, p, q));
    const long begin = mine->cells, end = mine->cells * (mine->rows + 1);
    for (long i = begin; i < end; i++) {
        x[i] += alpha * p[i];
        r[i] -= alpha * q[i];
    }
    const double next = sum_of_all(product(mine, r, r));
    for (long i = begin; i < end; i++) {
        p[i] = r[i] + next / residual * p[i];
    }
    residual = next;
    iteration++;
}

static void make_digest(const Part *mine) {
    digest = app_mix3(app_hash(APP_HASH_START, x + mine->cells, (size_t)(mine->cells * mine->rows) * sizeof *x),
                      (uint64_t)shmem_my_pe(), iteration);
    shmem_uint64_sum_reduce(SHMEM_TEAM_WORLD, &digests, &digest, 1);
}

static AppCommandLine read_options(int argc, char **argv, Options *options) {
    const AppOption rows[] = {
        {.name = "cells", .help = "on an edge", .number = &options->cells, .minimum = 64, .maximum = 20000},
        {.name = "digits",
         .help = "by which the residual falls",
         .number = &options->digits,
         .minimum = 1,
         .maximum = 14},
        {.name = "interval",
         .help = "iterations between checkpoints",
         .number = &options->interval,
         .minimum = 1,
         .maximum = 1000000},
        {.name = "pace", .help = "milliseconds to idle per iteration", .number = &options->pace_ms, .maximum = 60000},
        {.name = NULL},
    };
    const AppCommandLine line = app_parse(argc, argv, rows);
    if (line.help && shmem_my_pe() == 0) {
        app_print_help(kProgram, "conjugate gradients, until the residual is small", rows);
    }
    return line;
}

int main(int argc, char **argv) {
    app_install_exit_signals();
    shmem_init();
    Options options = {.cells = 128, .digits = 10, .interval = 5};
    const AppCommandLine line = read_options(argc, argv, &options);
    app_stop_on_error(kProgram, line.error);
    if (line.help) {
        shmem_finalize();
        return 0;
    }
    const Part mine = my_part(&options);
    const double small = pow(10, -2.0 * (double)options.digits);
    allocate(&mine);

    shmem_ft_on_fault(SHMEM_FT_ON_FAULT_JUMP, NULL, NULL);
    if (shmem_ft_algo_init()) {
        begin(&mine);
    }
    if (SHMEM_FT_ROLLBACK_POINT()) {
        app_recover();
    }
    shmem_checkpoint_all(); /* what was set up is safe, and a substitute joins here */
    while (residual > small) {
        iterate(&mine);
        app_leave_if_asked();
        app_sleep_ms(options.pace_ms);
        if (iteration % options.interval == 0) {
            shmem_checkpoint_all();
        }
    }
    make_digest(&mine);
    shmem_checkpoint_all(); /* what is printed is safe, too */
    if (shmem_my_pe() == 0) {
        printf("result conjugate_gradients %016" PRIx64 " residual %.3e after %lu iterations\n", digests,
               sqrt(residual), iteration);
    }
    shmem_finalize();
    return 0;
}
