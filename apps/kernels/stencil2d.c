/* A heat equation on a square, by a stencil of five points: each cell becomes the weighted average of itself and its
 * four neighbours; outside of the square it is 0.
 *
 * The square is divided among a grid of PEs. In every step a PE puts its border cells into its neighbours' inboxes and
 * a signal with them (put-with-signal of OpenSHMEM 1.5; with an older library two puts and a fence between them), waits
 * for the signals of its neighbours, and computes. There are no barriers. Each side has two inboxes, used in turn: a
 * neighbour that is a step ahead writes into the other one, and it cannot be two steps ahead, because it needs our
 * cells for that.
 *
 * Verified: the first state is a wave sin(a) sin(b), of which a step makes the same wave with another height. So every
 * cell of the last state is known without a second computation, but for rounding. Each cell is computed in the same
 * order whoever computes it, so the digest is the same for any number of PEs.
 *
 * The communication is that of the stencil of the Parallel Research Kernels (R. Van der Wijngaart and T. Mattson,
 * "The Parallel Research Kernels", 2014). */
#include <math.h>

#include "apps/kernels/kernel.h"

static const char kProgram[] = "stencil2d";

typedef enum { NORTH, SOUTH, WEST, EAST, SIDES } Side;
static const double kPi = 3.14159265358979323846;
static const double kNeighbourWeight = 0.2; /* of each of the four; the rest is that of the cell itself */
static const double kTolerance = 1e-9;      /* of a height that was 1 at first; rounding makes less than 1e-12 */

typedef struct {
    unsigned long cells; /* per side of the square */
    unsigned long steps;
    unsigned long interval;
    unsigned long pace_ms;
} Options;

/* This PE's part: height x width cells, stored with a border of one cell around them. */
typedef struct {
    size_t first_row, first_column, height, width;
    size_t pitch;          /* cells from a row to the next one */
    int neighbours[SIDES]; /* -1: the end of the square */
} Part;

/* Symmetric state. */
static unsigned long step;
static double *cells[2];          /* by the parity of the step */
static double *inboxes[2][SIDES]; /* likewise */
static uint64_t signals[SIDES];   /* steps whose border has arrived */
static double seconds;            /* when the first step began; later how long all of them took */
static KernelVerdict verdict;

static void put_with_signal(double *inbox, const double *border, size_t count, Side side, int pe) {
#if SHMEM_MAJOR_VERSION == 1 && SHMEM_MINOR_VERSION < 5
    shmem_putmem(inbox, border, count * sizeof *border, pe);
    shmem_fence();
    shmem_uint64_p(&signals[side], step + 1, pe);
#else
    shmem_putmem_signal(inbox, border, count * sizeof *border, &signals[side], step + 1, SHMEM_SIGNAL_SET, pe);
#endif
}

static Part make_part(const Options *options) {
    const size_t n_pes = (size_t)shmem_n_pes(), me = (size_t)shmem_my_pe(), n = options->cells;
    size_t rows = 1; /* of the grid of PEs: as square as their number allows */
    for (size_t divisor = 1; divisor * divisor <= n_pes; divisor++) {
        rows = n_pes % divisor == 0 ? divisor : rows;
    }
    const size_t columns = n_pes / rows, row = me / columns, column = me % columns;
    Part part = {.first_row = kernel_first(n, rows, row),
                 .first_column = kernel_first(n, columns, column),
                 .height = kernel_count(n, rows, row),
                 .width = kernel_count(n, columns, column),
                 .pitch = kernel_count(n, columns, 0) + 2};
    part.neighbours[NORTH] = row == 0 ? -1 : (int)(me - columns);
    part.neighbours[SOUTH] = row == rows - 1 ? -1 : (int)(me + columns);
    part.neighbours[WEST] = column == 0 ? -1 : (int)(me - 1);
    part.neighbours[EAST] = column == columns - 1 ? -1 : (int)(me + 1);
    const size_t size = (kernel_count(n, rows, 0) + 2) * part.pitch;
    const size_t longest = kernel_count(n, rows < columns ? rows : columns, 0);
    for (int parity = 0; parity < 2; parity++) {
        cells[parity] = kernel_allocate(kProgram, size * sizeof(double));
        for (int side = 0; side < SIDES; side++) {
            inboxes[parity][side] = kernel_allocate(kProgram, longest * sizeof(double));
        }
    }
    return part;
}

static double *cell_at(double *state, const Part *part, size_t row, size_t column) {
    return &state[(row + 1) * part->pitch + column + 1];
}

/* The wave in one dimension; its neighbours' average is cos(angle) times itself. */
static double wave(size_t index, const Options *options) {
    return sin(kPi * (double)(index + 1) / (double)(options->cells + 1));
}

static void fill(const Part *part, const Options *options) {
    for (int parity = 0; parity < 2; parity++) {
        memset(cells[parity], 0, (part->height + 2) * part->pitch * sizeof(double));
    }
    for (size_t row = 0; row < part->height; row++) {
        const double height = wave(part->first_row + row, options);
        for (size_t column = 0; column < part->width; column++) {
            *cell_at(cells[0], part, row, column) = height * wave(part->first_column + column, options);
        }
    }
    seconds = kernel_seconds();
}

/* Cells of one side: the first one, how many, and from each to the next. */
typedef struct {
    double *first;
    size_t count, stride;
} Line;

/* `outside`: 1 for the border around the part, 0 for its own outermost cells. */
static Line line_of(double *state, const Part *part, Side side, size_t outside) {
    double *const origin = cell_at(state, part, 0, 0);
    switch (side) {
        case NORTH: return (Line){origin - outside * part->pitch, part->width, 1};
        case SOUTH: return (Line){origin + (part->height - 1 + outside) * part->pitch, part->width, 1};
        case WEST: return (Line){origin - outside, part->height, part->pitch};
        default: return (Line){origin + part->width - 1 + outside, part->height, part->pitch};
    }
}

static void exchange_borders(double *state, const Part *part) {
    static const Side kOpposite[SIDES] = {SOUTH, NORTH, EAST, WEST};
    for (int side = 0; side < SIDES; side++) {
        if (part->neighbours[side] >= 0) {
            const Line own = line_of(state, part, (Side)side, 0);
            double packed[own.count];
            for (size_t i = 0; i < own.count; i++) {
                packed[i] = own.first[i * own.stride];
            }
            const Side theirs = kOpposite[side];
            put_with_signal(inboxes[step % 2][theirs], packed, own.count, theirs, part->neighbours[side]);
        }
    }
    for (int side = 0; side < SIDES; side++) {
        if (part->neighbours[side] >= 0) {
            shmem_uint64_wait_until(&signals[side], SHMEM_CMP_GE, step + 1);
            const Line border = line_of(state, part, (Side)side, 1);
            for (size_t i = 0; i < border.count; i++) {
                border.first[i * border.stride] = inboxes[step % 2][side][i];
            }
        }
    }
}

static void compute_step(const Part *part) {
    double *const now = cells[step % 2];
    exchange_borders(now, part);
    const size_t pitch = part->pitch;
    const double own_weight = 1.0 - 4.0 * kNeighbourWeight;
    for (size_t row = 0; row < part->height; row++) {
        double *restrict to = cell_at(cells[(step + 1) % 2], part, row, 0);
        const double *restrict from = cell_at(now, part, row, 0);
        for (size_t i = 0; i < part->width; i++) {
            to[i] = own_weight * from[i] +
                    kNeighbourWeight * (from[i - pitch] + from[i + pitch] + from[i - 1] + from[i + 1]);
        }
    }
    step++;
}

static void compute_interval(const Part *part, const Options *options) {
    for (unsigned long done = 0; done < options->interval && step < options->steps; done++) {
        compute_step(part);
    }
    app_sleep_ms(options->pace_ms);
    if (step == options->steps) {
        shmem_barrier_all();
        seconds = kernel_seconds() - seconds;
    }
}

static void verify(const Part *part, const Options *options) {
    /* A step multiplies the wave by own weight + 4 * neighbours' weight * cos(angle). */
    const double factor = 1.0 - 4.0 * kNeighbourWeight * (1.0 - cos(kPi / (double)(options->cells + 1)));
    const double height = pow(factor, (double)options->steps);
    verdict = (KernelVerdict){0, 0};
    for (size_t row = 0; row < part->height; row++) {
        for (size_t column = 0; column < part->width; column++) {
            const double value = *cell_at(cells[step % 2], part, row, column);
            const size_t whole_row = part->first_row + row, whole_column = part->first_column + column;
            const double expected = height * wave(whole_row, options) * wave(whole_column, options);
            uint64_t bits;
            memcpy(&bits, &value, sizeof bits);
            verdict.digest += app_mix3(whole_row, whole_column, bits);
            verdict.errors += !(fabs(value - expected) < kTolerance); /* so that NaN counts */
        }
    }
    kernel_gather(&verdict);
}

static AppCommandLine read_options(int argc, char **argv, Options *options) {
    const AppOption rows[] = {
        {.name = "cells",
         .help = "cells per side of the square",
         .number = &options->cells,
         .minimum = (unsigned long)shmem_n_pes(),
         .maximum = 100000},
        {.name = "steps", .help = "steps to compute", .number = &options->steps, .minimum = 1, .maximum = 1UL << 40},
        {.name = "interval",
         .help = "steps from a checkpoint to the next",
         .number = &options->interval,
         .minimum = 1,
         .maximum = 1UL << 40},
        {.name = "pace", .help = "milliseconds to idle per interval", .number = &options->pace_ms, .maximum = 3600000},
        {.name = NULL},
    };
    const AppCommandLine line = app_parse(argc, argv, rows);
    if (line.help && shmem_my_pe() == 0) {
        app_print_help(kProgram, "heat equation on a square, borders sent with signals", rows);
    }
    return line;
}

int main(int argc, char **argv) {
    shmem_init();
    Options options = {.cells = 512, .steps = 400, .interval = 20};
    const AppCommandLine line = read_options(argc, argv, &options);
    kernel_end_unless_runnable(kProgram, &line);
    const Part part = make_part(&options);

#ifdef FAULT_TOLERANT
    shmem_ft_on_fault(SHMEM_FT_ON_FAULT_JUMP, NULL, NULL);
    if (shmem_ft_algo_init())
#endif
        fill(&part, &options);
#ifdef FAULT_TOLERANT
    if (SHMEM_FT_ROLLBACK_POINT()) {
        app_recover();
    }
#endif
    while (step < options.steps) {
#ifdef FAULT_TOLERANT
        shmem_checkpoint_all();
#endif
        compute_interval(&part, &options);
    }
    verify(&part, &options);
#ifdef FAULT_TOLERANT
    shmem_checkpoint_all(); /* what is printed is safe, too */
#endif

    if (shmem_my_pe() == 0) {
        printf("%s: %d PEs, %lu x %lu cells of 8 bytes, %lu steps\n", kProgram, shmem_n_pes(), options.cells,
               options.cells, options.steps);
        printf("rate %.3f million cells/s\n",
               1e-6 * (double)options.cells * (double)options.cells * (double)options.steps / seconds);
    }
    const int exit_code = kernel_report(kProgram, &verdict);
    shmem_finalize();
    return exit_code;
}
