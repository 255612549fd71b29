/* Matrix multiplication, C = A * B for square matrices, by the algorithm SUMMA.
 *
 * The PEs form a grid, and each has one block of each matrix. The product is a sum over panels: some columns of A times
 * the same rows of B. For each panel, whoever has that part of A broadcasts it along its row of the grid, whoever has
 * that part of B along its column, and each PE adds the product of what it has got to its block of C. Rows and columns
 * of the grid are teams, made with shmem_team_split_2d.
 *
 * The elements of A and B are small whole numbers, so that every sum is exact in doubles and the result is the same for
 * any number of PEs. Verified, after R. Freivalds ("Probabilistic machines can use less running time", 1977): for a
 * vector x of random whole numbers, C x = A (B x) in every row of every block. It finds almost any error at the cost of
 * two small products.
 *
 * Source: R. van de Geijn and J. Watts, "SUMMA: Scalable Universal Matrix Multiplication Algorithm", 1997. */
#include "apps/kernels/kernel.h"

#if SHMEM_MAJOR_VERSION == 1 && SHMEM_MINOR_VERSION < 5
#error "matmul needs the teams of OpenSHMEM 1.5"
#endif

static const char kProgram[] = "matmul";

typedef enum { A, B } Factor;

typedef struct {
    unsigned long size; /* rows and columns of each matrix */
    unsigned long panel;
    unsigned long interval;
    unsigned long seed;
    unsigned long pace_ms;
} Options;

/* This PE's place in the grid, and its blocks: height x width elements each, row after row. */
typedef struct {
    size_t rows, columns; /* of the grid of PEs */
    size_t row, column;   /* this PE's */
    size_t first_row, height, first_column, width;
} Part;

/* Symmetric state. */
static size_t position; /* panels up to this column of A, or row of B, are done */
static double *blocks[2];
static double *product;
static double *packed[2]; /* a panel of one's own, to send */
static double *panels[2]; /* a panel as it has come */
static shmem_team_t row_team, column_team;
static double seconds; /* when the first panel began; later how long all of them took */
static KernelVerdict verdict;

static Part make_part(const Options *options) {
    const size_t n_pes = (size_t)shmem_n_pes(), me = (size_t)shmem_my_pe(), n = options->size;
    Part part = {.rows = 1};
    for (size_t divisor = 1; divisor * divisor <= n_pes; divisor++) {
        part.rows = n_pes % divisor == 0 ? divisor : part.rows;
    }
    part.columns = n_pes / part.rows;
    part.row = me / part.columns;
    part.column = me % part.columns;
    part.first_row = kernel_first(n, part.rows, part.row);
    part.height = kernel_count(n, part.rows, part.row);
    part.first_column = kernel_first(n, part.columns, part.column);
    part.width = kernel_count(n, part.columns, part.column);
    const size_t highest = kernel_count(n, part.rows, 0), widest = kernel_count(n, part.columns, 0);
    product = kernel_allocate(kProgram, highest * widest * sizeof(double));
    for (int factor = A; factor <= B; factor++) {
        const size_t length = (factor == A ? highest : widest) * options->panel;
        blocks[factor] = kernel_allocate(kProgram, highest * widest * sizeof(double));
        packed[factor] = kernel_allocate(kProgram, length * sizeof(double));
        panels[factor] = kernel_allocate(kProgram, length * sizeof(double));
    }
    return part;
}

/* From -8 to 8. */
static long element(Factor factor, size_t row, size_t column, const Options *options) {
    return (long)(app_mix3(options->seed + (factor == A ? 0 : 1), row, column) % 17) - 8;
}

static void fill(const Part *part, const Options *options) {
    for (int factor = A; factor <= B; factor++) {
        for (size_t i = 0; i < part->height; i++) {
            for (size_t j = 0; j < part->width; j++) {
                const long number = element((Factor)factor, part->first_row + i, part->first_column + j, options);
                blocks[factor][i * part->width + j] = (double)number;
            }
        }
    }
    memset(product, 0, part->height * part->width * sizeof *product);
    shmem_team_split_2d(SHMEM_TEAM_WORLD, (int)part->columns, NULL, 0, &row_team, NULL, 0, &column_team);
    seconds = kernel_seconds();
}

static void send_columns_of_a(const Part *part, size_t owner, size_t count) {
    if (part->column == owner) {
        for (size_t i = 0; i < part->height; i++) {
            memcpy(&packed[A][i * count], &blocks[A][i * part->width + position - part->first_column],
                   count * sizeof(double));
        }
    }
    shmem_team_sync(row_team); /* nobody in the row needs the panel before any more */
    shmem_double_broadcast(row_team, panels[A], packed[A], part->height * count, (int)owner);
}

static void send_rows_of_b(const Part *part, size_t owner, size_t count) {
    if (part->row == owner) {
        memcpy(packed[B], &blocks[B][(position - part->first_row) * part->width], count * part->width * sizeof(double));
    }
    shmem_team_sync(column_team);
    shmem_double_broadcast(column_team, panels[B], packed[B], count * part->width, (int)owner);
}

/* A panel ends where one block of A or B does, so that it has one owner in each row, and one in each column. */
static void multiply_panel(const Part *part, const Options *options) {
    const size_t n = options->size;
    const size_t owner_a = kernel_part_of(n, part->columns, position);
    const size_t owner_b = kernel_part_of(n, part->rows, position);
    const size_t end_a = kernel_first(n, part->columns, owner_a + 1), end_b = kernel_first(n, part->rows, owner_b + 1);
    const size_t end = end_a < end_b ? end_a : end_b;
    const size_t count = options->panel < end - position ? options->panel : end - position;
    send_columns_of_a(part, owner_a, count);
    send_rows_of_b(part, owner_b, count);
    for (size_t i = 0; i < part->height; i++) {
        double *restrict to = &product[i * part->width];
        for (size_t k = 0; k < count; k++) {
            const double factor = panels[A][i * count + k];
            const double *restrict row = &panels[B][k * part->width];
            for (size_t j = 0; j < part->width; j++) {
                to[j] += factor * row[j];
            }
        }
    }
    position += count;
}

static void multiply_interval(const Part *part, const Options *options) {
    for (unsigned long done = 0; done < options->interval && position < options->size; done++) {
        multiply_panel(part, options);
    }
    app_sleep_ms(options->pace_ms);
    if (position == options->size) {
        shmem_barrier_all();
        seconds = kernel_seconds() - seconds;
    }
}

/* Of the vector of the verification; from -4 to 4, so that sums stay exact. */
static long random_factor(size_t column, const Options *options) {
    return (long)(app_mix3(options->seed, column, 3) % 9) - 4;
}

static void verify(const Part *part, long *b_times_x, const Options *options) {
    for (size_t k = 0; k < options->size; k++) {
        b_times_x[k] = 0;
        for (size_t j = part->first_column; j < part->first_column + part->width; j++) {
            b_times_x[k] += element(B, k, j, options) * random_factor(j, options);
        }
    }
    verdict = (KernelVerdict){0, 0};
    for (size_t i = 0; i < part->height; i++) {
        const size_t row = part->first_row + i;
        double difference = 0;
        for (size_t j = 0; j < part->width; j++) {
            const double value = product[i * part->width + j];
            uint64_t bits;
            memcpy(&bits, &value, sizeof bits);
            verdict.digest += app_mix3(row, part->first_column + j, bits);
            difference += value * (double)random_factor(part->first_column + j, options);
        }
        for (size_t k = 0; k < options->size; k++) {
            difference -= (double)(element(A, row, k, options) * b_times_x[k]);
        }
        verdict.errors += !(difference == 0); /* so that NaN counts */
    }
    kernel_gather(&verdict);
}

static AppCommandLine read_options(int argc, char **argv, Options *options) {
    const AppOption rows[] = {
        {.name = "size",
         .help = "rows and columns of each matrix",
         .number = &options->size,
         .minimum = (unsigned long)shmem_n_pes(),
         .maximum = 1UL << 20},
        {.name = "panel",
         .help = "columns broadcast at once",
         .number = &options->panel,
         .minimum = 1,
         .maximum = 4096},
        {.name = "interval",
         .help = "panels from a checkpoint to the next",
         .number = &options->interval,
         .minimum = 1,
         .maximum = 1UL << 20},
        {.name = "seed", .help = "of the matrices", .number = &options->seed, .maximum = 1UL << 62},
        {.name = "pace", .help = "milliseconds to idle per interval", .number = &options->pace_ms, .maximum = 3600000},
        {.name = NULL},
    };
    const AppCommandLine line = app_parse(argc, argv, rows);
    if (line.help && shmem_my_pe() == 0) {
        app_print_help(kProgram, "matrix multiplication on a grid of PEs (SUMMA)", rows);
    }
    return line;
}

int main(int argc, char **argv) {
    shmem_init();
    Options options = {.size = 768, .panel = 32, .interval = 2, .seed = 1};
    const AppCommandLine line = read_options(argc, argv, &options);
    kernel_end_unless_runnable(kProgram, &line);
    const Part part = make_part(&options);
    long *const b_times_x = malloc(options.size * sizeof *b_times_x);
    if (b_times_x == NULL) {
        app_fail(kProgram, "no memory for the verification");
    }

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
    while (position < options.size) {
#ifdef FAULT_TOLERANT
        shmem_checkpoint_all();
#endif
        multiply_interval(&part, &options);
    }
    verify(&part, b_times_x, &options);
#ifdef FAULT_TOLERANT
    shmem_checkpoint_all(); /* what is printed is safe, too */
#endif

    if (shmem_my_pe() == 0) {
        printf("%s: %d PEs, %lu x %lu elements of 8 bytes, panels of %lu\n", kProgram, shmem_n_pes(), options.size,
               options.size, options.panel);
        const double n = (double)options.size;
        printf("rate %.3f GFLOP/s\n", 1e-9 * 2 * n * n * n / seconds);
    }
    const int exit_code = kernel_report(kProgram, &verdict);
    free(b_times_x);
    shmem_finalize();
    return exit_code;
}
