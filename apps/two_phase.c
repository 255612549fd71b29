/* A program of two phases, each with its own initialisation block and its own loop.
 *
 * The first phase advances a table of numbers around the ring of PEs; the second one builds another table from the
 * result and advances that. It shows the rules for several phases:
 *
 *  - What the second phase needs is allocated inside its initialisation block and kept in a global. A substitute
 *    that joins in the first loop on behalf of a PE which is already in the second one does not pass that block
 *    (its call of shmem_ft_algo_init gives 0), and gets allocation and pointer back with the rest.
 *  - A phase ends with a checkpoint, so that a death in its last step is repaired inside it.
 *  - The first thing after an initialisation block is a checkpoint. A death between the two cannot be repaired: the
 *    survivors would not run the block again. The job then ends with an error that says so. `--idle` makes that
 *    window long enough to be hit by a test. */
#include "apps/app_support.h"

static const char kProgram[] = "two_phase";

typedef struct {
    unsigned long steps;
    unsigned long seed;
    unsigned long words;
    unsigned long pace_ms;
    unsigned long idle_ms;
} Options;

/* Symmetric state beside the heap. */
static unsigned long steps_done[2]; /* per phase */
static uint64_t *tables[2];         /* per phase: words of mine, then words received from the left neighbour */
static uint64_t hash_of_all;        /* on PE 0 */

/* Collective. REQUIRES: called inside an initialisation block, so never in a substitute. */
static void create_table(int phase, const Options *options) {
    tables[phase] = shmem_malloc(2 * options->words * sizeof *tables[phase]);
    if (tables[phase] == NULL) {
        app_fail(kProgram, "no symmetric memory for a table: fewer --words or a higher SHMEM_SYMMETRIC_SIZE");
        return;
    }
    for (unsigned long i = 0; i < options->words; i++) {
        const uint64_t before = phase == 0 ? options->seed : tables[0][i];
        tables[phase][i] = app_mix3(before, i, (uint64_t)shmem_my_pe());
    }
}

static void compute_step(int phase, const Options *options) {
    uint64_t *own = tables[phase];
    uint64_t *received = own + options->words;
    const int right = (shmem_my_pe() + 1) % shmem_n_pes();
    shmem_putmem(received, own, options->words * sizeof *own, right);
    shmem_barrier_all(); /* everybody has received */
    for (unsigned long i = 0; i < options->words; i++) {
        own[i] = app_mix3(own[i], received[options->words - 1 - i], steps_done[phase]);
    }
    app_sleep_ms(options->pace_ms);
    steps_done[phase]++;
}

/* PE 0 hashes everybody's table; the checkpoint after it makes the hash safe. */
static void make_report(const Options *options) {
    shmem_barrier_all(); /* everybody's table is final */
    if (shmem_my_pe() != 0) {
        return;
    }
    hash_of_all = APP_HASH_START;
    for (int pe = 0; pe < shmem_n_pes(); pe++) {
        for (unsigned long i = 0; i < options->words; i++) {
            uint64_t word = 0;
            shmem_getmem(&word, &tables[1][i], sizeof word, pe);
            hash_of_all = app_hash_number(hash_of_all, word);
        }
    }
}

/* The loop of a phase, up to and including the checkpoint that holds its last step. A substitute enters the first
 * one whatever its PE was doing; once restored, the count of steps lets it fall through to the right place. */
static void run_phase(int phase, const Options *options) {
    bool finished = false;
    do {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            app_recover();
            finished = phase == 0 && tables[1] != NULL; /* the second phase had begun: go on there */
        } else if (steps_done[phase] < options->steps) {
            app_leave_if_asked();
            compute_step(phase, options);
            if (phase == 1 && steps_done[1] == options->steps) {
                make_report(options);
            }
        } else {
            finished = true;
        }
    } while (!finished);
}

static AppCommandLine read_options(int argc, char **argv, Options *options) {
    const AppOption table[] = {
        {.name = "steps", .help = "steps per phase", .number = &options->steps, .minimum = 1, .maximum = 1UL << 40},
        {.name = "seed", .help = "of the first table", .number = &options->seed, .maximum = 1UL << 62},
        {.name = "words",
         .help = "64-bit words per table",
         .number = &options->words,
         .minimum = 1,
         .maximum = 1UL << 32},
        {.name = "pace", .help = "milliseconds to idle per step", .number = &options->pace_ms, .maximum = 3600000},
        {.name = "idle",
         .help = "milliseconds between the second block and its checkpoint",
         .number = &options->idle_ms,
         .maximum = 3600000},
        {.name = NULL},
    };
    const AppCommandLine line = app_parse(argc, argv, table);
    if (line.help && shmem_my_pe() == 0) {
        app_print_help(kProgram, "two phases, each with its own initialisation, that survive the death of PEs", table);
    }
    return line;
}

int main(int argc, char **argv) {
    app_install_exit_signals();
    shmem_init(); /* spares sleep in here until they are needed */

    Options options = {.steps = 40, .seed = 1, .words = 1000};
    const AppCommandLine line = read_options(argc, argv, &options);
    app_stop_on_error(kProgram, line.error);
    if (line.help) {
        shmem_finalize();
        return 0;
    }

    if (shmem_ft_algo_init()) {
        create_table(0, &options);
    }
    run_phase(0, &options);

    if (shmem_ft_algo_init()) {
        create_table(1, &options);
        app_sleep_ms(options.idle_ms);
    }
    run_phase(1, &options);

    if (shmem_my_pe() == 0) {
        printf("%s: %d PEs, twice %lu steps\n", kProgram, shmem_n_pes(), options.steps);
        printf("result %016llx\n", (unsigned long long)hash_of_all);
        fflush(stdout);
    }
    shmem_finalize();
    return 0;
}
