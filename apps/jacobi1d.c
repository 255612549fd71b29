/* A one-dimensional Jacobi stencil that survives the death of its PEs.
 *
 * An array of temperatures is split over the PEs. In every step each cell becomes the average of itself and its two
 * neighbours; the first and the last cell of the whole array stay as they are. So that PEs need not talk in every
 * step, each keeps a halo of k cells of either neighbour. Every step uses up one halo cell per side, so after k steps
 * the halos are spent: the PEs take a checkpoint, fetch new halos and go on. With 4096 steps and k = 256 that makes
 * 16 intervals, hence 16 checkpoints, and one more that makes the last interval and its result safe.
 *
 * What survives is what lies in symmetric memory: the two buffers in the heap and the globals `step` and `report`.
 * Everything else (options, sizes) is worked out anew by every process, also by a substitute, from its command line.
 * The result is the same to the last bit for any number of PEs and any failures: the sum of a window is always
 * taken from left to right, whoever takes it. */
#include "apps/app_support.h"

static const char kProgram[] = "jacobi1d";
static const double kThird = 1.0 / 3.0;

enum { THESIS_CELLS = 8 * 1024 * 1024, THESIS_STEPS = 4096, THESIS_HALO = 256, HOT_SPOTS = 12 };

typedef struct {
    unsigned long cells;
    unsigned long steps;
    unsigned long halo;
    unsigned long seed;
    unsigned long pace_ms;
    unsigned long points;
    bool thesis;
    bool verify;
    bool background;
    const char *output;
} Options;

/* This PE's part of the array. A buffer holds [left halo | count own cells | right halo]. */
typedef struct {
    size_t cells; /* of the whole array */
    size_t halo;
    size_t first; /* index of my first own cell in the whole array */
    size_t count;
    int me;
    int n_pes;
} Part;

typedef enum { NOT_VERIFIED, IDENTICAL, DIFFERENT } Verdict;

/* Symmetric state beside the heap. */
static unsigned long step; /* steps completed; its parity tells which buffer is current */
static struct {
    uint64_t hash;
    Verdict verdict;
    uint64_t first_difference;
} report; /* on PE 0 */

static size_t part_first(size_t cells, int n_pes, int pe) {
    const size_t n = (size_t)n_pes, index = (size_t)pe, longer = cells % n;
    return index * (cells / n) + (index < longer ? index : longer);
}

static size_t part_count(size_t cells, int n_pes, int pe) {
    return part_first(cells, n_pes, pe + 1) - part_first(cells, n_pes, pe);
}

/* A smooth landscape of hot and cold spots from the seed, with a little noise in every cell. The spots are counted
 * in units of the array's length, so that the profile looks alike for any number of cells. */
static double initial_temperature(size_t cell, const Options *options) {
    const double x = ((double)cell + 0.5) / (double)options->cells;
    double temperature = 20.0;
    for (uint64_t spot = 0; spot < HOT_SPOTS; spot++) {
        const uint64_t random = app_mix3(options->seed, spot, 1);
        const double centre = (double)(random >> 40) / 16777216.0;
        const double height = 30.0 + (double)(random % 60);
        const double width = 0.004 + 0.012 * (double)((random >> 20) % 100) / 100.0;
        const double distance = (x - centre) / width;
        /* A box with soft edges, from arithmetic alone: the C library's exp differs between machines. */
        temperature += (spot % 3 == 2 ? -0.3 : 1.0) * height / (1.0 + distance * distance * distance * distance);
    }
    return temperature + 6.0 * ((double)(app_mix3(options->seed, cell, 2) >> 40) / 16777216.0 - 0.5);
}

/* next[i] from now[i - 1 .. i + 1] for first <= i < last. */
static void average(double *restrict next, const double *restrict now, size_t first, size_t last) {
    for (size_t i = first; i < last; i++) {
        next[i] = (now[i - 1] + now[i] + now[i + 1]) * kThird;
    }
}

/* REQUIRES: the neighbours' cells are final, which the checkpoint before has made sure of. */
static void fetch_halos(double *now, const Part *part) {
    if (part->me > 0) {
        const size_t left_count = part_count(part->cells, part->n_pes, part->me - 1);
        shmem_double_get(now, now + left_count, part->halo, part->me - 1); /* its last own cells */
    }
    if (part->me < part->n_pes - 1) {
        shmem_double_get(now + part->halo + part->count, now + part->halo, part->halo, part->me + 1);
    }
    shmem_barrier_all(); /* nobody overwrites cells that a neighbour has yet to fetch */
}

/* One step with `spent` halo cells per side already used up. At the ends of the whole array there is no halo, and
 * the outermost cell stays. */
static void sweep(double *next, const double *now, const Part *part, size_t spent) {
    size_t first = spent + 1;
    size_t last = part->halo + part->count + part->halo - spent - 1;
    if (part->me == 0) {
        first = part->halo + 1;
        next[part->halo] = now[part->halo];
    }
    if (part->me == part->n_pes - 1) {
        last = part->halo + part->count - 1;
        next[last] = now[last];
    }
    average(next, now, first, last);
}

static void compute_interval(double *const buffers[2], const Part *part, const Options *options) {
    fetch_halos(buffers[step % 2], part);
    for (size_t spent = 0; spent < options->halo && step < options->steps; spent++) {
        sweep(buffers[(step + 1) % 2], buffers[step % 2], part, spent);
        step++;
    }
    app_sleep_ms(options->pace_ms);
}

/* The whole array in private memory, freed by the caller. */
static double *collect(const double *now, const Part *part) {
    double *whole = calloc(part->cells, sizeof *whole);
    if (whole == NULL) {
        app_fail(kProgram, "no memory to collect the array");
    }
    for (int pe = 0; pe < part->n_pes; pe++) {
        shmem_double_get(whole + part_first(part->cells, part->n_pes, pe), now + part->halo,
                         part_count(part->cells, part->n_pes, pe), pe);
    }
    return whole;
}

/* The same computation by one process without halos, for comparison. Freed by the caller. */
static double *compute_serially(const Options *options) {
    const size_t cells = options->cells;
    double *now = malloc(cells * sizeof *now);
    double *next = malloc(cells * sizeof *next);
    if (now == NULL || next == NULL) {
        app_fail(kProgram, "no memory for the serial run of --verify");
    }
    for (size_t i = 0; i < cells; i++) {
        now[i] = initial_temperature(i, options);
    }
    next[0] = now[0];
    next[cells - 1] = now[cells - 1];
    for (unsigned long done = 0; done < options->steps; done++) {
        average(next, now, 1, cells - 1);
        double *const swapped = now;
        now = next;
        next = swapped;
    }
    free(next);
    return now;
}

static void verify(const double *whole, const Options *options) {
    double *expected = compute_serially(options);
    report.verdict = IDENTICAL;
    for (size_t i = 0; i < options->cells && report.verdict == IDENTICAL; i++) {
        if (memcmp(&whole[i], &expected[i], sizeof whole[i]) != 0) { /* bits, so that even -0.0 and NaN count */
            report.verdict = DIFFERENT;
            report.first_difference = i;
        }
    }
    free(expected);
}

static void write_profile(const double *whole, const Options *options) {
    FILE *file = fopen(options->output, "w");
    if (file == NULL) {
        app_fail(kProgram, "cannot write the file of --output");
    }
    const size_t stride = (options->cells + options->points - 1) / options->points;
    fprintf(file, "cell,initial,final\n");
    for (size_t i = 0; i < options->cells; i += stride) {
        fprintf(file, "%zu,%.17g,%.17g\n", i, initial_temperature(i, options), whole[i]);
    }
    if (fclose(file) != 0) {
        app_fail(kProgram, "writing the file of --output failed");
    }
}

/* PE 0, after the last interval and before the last checkpoint: all that needs the other PEs' memory happens here,
 * so that a death during it is repaired like any other. What is printed later is in `report`. */
static void make_report(const double *now, const Part *part, const Options *options) {
    double *whole = collect(now, part);
    report.hash = app_hash(APP_HASH_START, whole, part->cells * sizeof *whole);
    if (options->verify) {
        verify(whole, options);
    }
    if (options->output != NULL) {
        write_profile(whole, options);
    }
    free(whole);
}

static int print_report(const Options *options, unsigned long sweeps) {
    printf("%s: %d PEs, %lu cells, %lu steps, halo %lu\n", kProgram, shmem_n_pes(), options->cells, options->steps,
           options->halo);
    if (sweeps >= options->steps) { /* a substitute has not seen all of them */
        printf("recomputed %lu steps\n", sweeps - options->steps);
    }
    printf("result %016llx\n", (unsigned long long)report.hash);
    if (report.verdict == IDENTICAL) {
        printf("verified: bit-identical to a serial run\n");
    } else if (report.verdict == DIFFERENT) {
        fprintf(stderr, "%s: error: --verify: cell %llu differs from the serial run\n", kProgram,
                (unsigned long long)report.first_difference);
    }
    fflush(stdout);
    return report.verdict == DIFFERENT ? 1 : 0;
}

static AppCommandLine read_options(int argc, char **argv, Options *options) {
    const AppOption table[] = {
        {.name = "cells",
         .help = "cells of the whole array",
         .number = &options->cells,
         .minimum = 3,
         .maximum = 1UL << 40},
        {.name = "steps", .help = "steps to compute", .number = &options->steps, .minimum = 1, .maximum = 1UL << 40},
        {.name = "halo",
         .help = "halo cells per side; a checkpoint every that many steps",
         .number = &options->halo,
         .minimum = 1,
         .maximum = 1UL << 40},
        {.name = "seed", .help = "of the initial temperatures", .number = &options->seed, .maximum = 1UL << 62},
        {.name = "pace",
         .help = "milliseconds to idle per interval, to watch it",
         .number = &options->pace_ms,
         .maximum = 3600000},
        {.name = "points",
         .help = "lines of --output at most",
         .number = &options->points,
         .minimum = 2,
         .maximum = 1UL << 30},
        {.name = "output", .help = "PE 0 writes the temperatures there, as CSV", .text = &options->output},
        {.name = "verify", .help = "compare with a serial run, bit for bit", .flag = &options->verify},
        {.name = "background", .help = "compute while checkpoints are made", .flag = &options->background},
        {.name = "thesis", .help = "64 MiB of cells, 4096 steps, halo 256", .flag = &options->thesis},
        {.name = NULL},
    };
    AppCommandLine line = app_parse(argc, argv, table);
    if (line.help && shmem_my_pe() == 0) {
        app_print_help(kProgram, "one-dimensional Jacobi stencil that survives the death of its PEs", table);
    }
    if (options->thesis) {
        options->cells = THESIS_CELLS;
        options->steps = THESIS_STEPS;
        options->halo = THESIS_HALO;
    }
    const unsigned long smallest = options->cells / (unsigned long)shmem_n_pes();
    if (line.error[0] == '\0' && (smallest < options->halo || smallest < 2)) {
        snprintf(line.error, sizeof line.error,
                 "--halo %lu: a PE has only %lu cells, fewer than its neighbour's halo: fewer PEs or more --cells",
                 options->halo, smallest);
    }
    return line;
}

int main(int argc, char **argv) {
    app_install_exit_signals();
    shmem_init(); /* spares sleep in here until they are needed */

    Options options = {.cells = 1UL << 16, .steps = 1024, .halo = 64, .seed = 1, .points = 2000};
    const AppCommandLine line = read_options(argc, argv, &options);
    app_stop_on_error(kProgram, line.error);
    if (line.help) {
        shmem_finalize();
        return 0;
    }
    const int me = shmem_my_pe(), n_pes = shmem_n_pes();
    const Part part = {.cells = options.cells,
                       .halo = options.halo,
                       .first = part_first(options.cells, n_pes, me),
                       .count = part_count(options.cells, n_pes, me),
                       .me = me,
                       .n_pes = n_pes};

    /* The same size on every PE: PE 0 has the longest part. A substitute gets the same addresses again. */
    const size_t bytes = (part_count(options.cells, n_pes, 0) + 2 * options.halo) * sizeof(double);
    double *const buffers[2] = {shmem_malloc(bytes), shmem_malloc(bytes)};
    if (buffers[0] == NULL || buffers[1] == NULL) {
        char error[APP_ERROR_LENGTH];
        snprintf(error, sizeof error, "no symmetric memory for %zu bytes: raise SHMEM_SYMMETRIC_SIZE", 2 * bytes);
        app_stop_on_error(kProgram, error);
    }

    if (shmem_ft_algo_init()) { /* not in a substitute: it gets what the dead PE had */
        for (size_t i = 0; i < part.count; i++) {
            buffers[0][part.halo + i] = initial_temperature(part.first + i, &options);
        }
    }

    unsigned long sweeps = 0; /* private: counts what this process did, recomputed steps included */
    bool finished = false;
    do {
        const int checkpoint = options.background ? shmem_ft_checkpoint_nb() : shmem_checkpoint_all();
        if (checkpoint != SHMEM_FT_SUCCESS) {
            app_recover();
        } else if (step < options.steps) {
            app_leave_if_asked();
            const unsigned long before = step;
            compute_interval(buffers, &part, &options);
            sweeps += step - before;
            if (step == options.steps) {
                shmem_barrier_all(); /* everybody's cells are final */
                if (me == 0) {
                    make_report(buffers[step % 2], &part, &options);
                }
            }
        } else if (shmem_ft_checkpoint_wait() != SHMEM_FT_SUCCESS) {
            app_recover();
        } else {
            finished = true; /* the checkpoint just taken holds the last step and the report */
        }
    } while (!finished);

    const int exit_code = me == 0 ? print_report(&options, sweeps) : 0;
    shmem_free(buffers[1]);
    shmem_free(buffers[0]);
    shmem_finalize();
    return exit_code;
}
