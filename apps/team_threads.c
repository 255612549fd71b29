/* OpenMP, with two teams and a context for each thread: every thread sends rows to the next PE of its team on a context
 * of its own, then the PEs of a team reduce, and one of each team tells all.
 *
 * What makes it survive:
 *
 *  - In a parallel region calls return when they meet a fault, they do not jump: a jump out of a region would leave the
 *    other threads behind. What the region computes then is taken back, so it must only come to its end: no index and
 *    no loop depends on a number that another PE has sent.
 *  - The first call behind the region meets the fault, and jumps.
 *  - Teams and contexts are made by one thread, in front of the rollback point, and their handles are globals: a
 * substitute makes the same calls and gets the same handles.
 *  - Checkpoints and recoveries are made while the threads are at rest: outside of parallel regions. */
#include <inttypes.h>
#include <omp.h>

#include "apps/app_support.h"

static const char kProgram[] = "team_threads";

enum { THREADS_MAX = 16 };

typedef struct {
    unsigned long threads;
    unsigned long words; /* per thread */
    unsigned long steps;
    unsigned long pace_ms;
} Options;

/* Symmetric state beside the heap. */
static unsigned long step;
static shmem_team_t team; /* of the even PEs, or of the odd ones */
static shmem_ctx_t contexts[THREADS_MAX];
static uint64_t *own, *received; /* a row of words for each thread */
static uint64_t parts[THREADS_MAX], part, sum_of_team, sum_of_all, total;

/* Collective. In a substitute, too: the same calls give the same handles. */
static void make_team(const Options *options) {
    const int n_pes = shmem_n_pes(), parity = n_pes > 1 ? shmem_my_pe() % 2 : 0;
    shmem_team_t even = SHMEM_TEAM_INVALID, odd = SHMEM_TEAM_INVALID;
    shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, n_pes > 1 ? 2 : 1, (n_pes + 1) / 2, NULL, 0, &even);
    if (n_pes > 1) {
        shmem_team_split_strided(SHMEM_TEAM_WORLD, 1, 2, n_pes / 2, NULL, 0, &odd);
    }
    team = parity == 0 ? even : odd;
    for (unsigned long thread = 0; thread < options->threads; thread++) {
        if (shmem_team_create_ctx(team, SHMEM_CTX_SERIALIZED, &contexts[thread]) != 0) {
            app_fail(kProgram, "no context for a thread: fewer --threads");
        }
    }
}

static void begin(const Options *options) {
    for (unsigned long i = 0; i < options->threads * options->words; i++) {
        own[i] = app_mix3((uint64_t)shmem_my_pe(), i, 0);
        received[i] = 0;
    }
}

/* One step of one thread: its row goes to the next PE of the team. */
static void send_row(unsigned long thread, const Options *options) {
    uint64_t *row = own + thread * options->words;
    const int next = (shmem_team_my_pe(team) + 1) % shmem_team_n_pes(team);
    for (unsigned long i = 0; i < options->words; i++) {
        row[i] = app_mix3(row[i], step, thread);
    }
    shmem_ctx_uint64_put(contexts[thread], received + thread * options->words, row, options->words, next);
    shmem_ctx_uint64_atomic_add(contexts[thread], &total, row[0] >> 32, next);
    shmem_ctx_quiet(contexts[thread]);
}

static void add_row(unsigned long thread, const Options *options) {
    const uint64_t *row = received + thread * options->words;
    parts[thread] = 0;
    for (unsigned long i = 0; i < options->words; i++) {
        own[thread * options->words + i] ^= row[i] >> 1;
        parts[thread] += row[i] >> 8;
    }
}

static void do_step(const Options *options) {
    const int n_threads = (int)options->threads;
    shmem_ft_on_fault(SHMEM_FT_ON_FAULT_RETURN, NULL, NULL); /* no thread leaves a region */
#pragma omp parallel for num_threads(n_threads)
    for (int thread = 0; thread < n_threads; thread++) {
        send_row((unsigned long)thread, options);
    }
    shmem_ft_on_fault(SHMEM_FT_ON_FAULT_JUMP, NULL, NULL);
    shmem_team_sync(team); /* all rows have come; or somebody is dead, and this call jumps */
#pragma omp parallel for num_threads(n_threads)
    for (int thread = 0; thread < n_threads; thread++) {
        add_row((unsigned long)thread, options);
    }
    part = 0;
    for (int thread = 0; thread < n_threads; thread++) {
        part += parts[thread];
    }
    shmem_uint64_sum_reduce(team, &sum_of_team, &part, 1);
    part = shmem_team_my_pe(team) == 0 ? sum_of_team : 0;
    shmem_uint64_sum_reduce(SHMEM_TEAM_WORLD, &sum_of_all, &part, 1);
    own[0] ^= sum_of_all;
    step++;
}

static AppCommandLine read_options(int argc, char **argv, Options *options) {
    const AppOption rows[] = {
        {.name = "threads", .help = "of each PE", .number = &options->threads, .minimum = 1, .maximum = THREADS_MAX},
        {.name = "words",
         .help = "that a thread sends in each step",
         .number = &options->words,
         .minimum = 1,
         .maximum = 1000000},
        {.name = "steps", .help = "of the computation", .number = &options->steps, .minimum = 1, .maximum = 1000000},
        {.name = "pace", .help = "milliseconds to idle per step", .number = &options->pace_ms, .maximum = 60000},
        {.name = NULL},
    };
    const AppCommandLine line = app_parse(argc, argv, rows);
    if (line.help && shmem_my_pe() == 0) {
        app_print_help(kProgram, "threads with contexts of their own, in two teams", rows);
    }
    return line;
}

int main(int argc, char **argv) {
    int provided = 0;
    app_install_exit_signals();
    shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided);
    Options options = {.threads = 4, .words = 1000, .steps = 100};
    const AppCommandLine line = read_options(argc, argv, &options);
    app_stop_on_error(kProgram, line.error);
    if (line.help) {
        shmem_finalize();
        return 0;
    }
    make_team(&options);
    own = shmem_malloc(options.threads * options.words * sizeof *own);
    received = shmem_malloc(options.threads * options.words * sizeof *received);
    if (own == NULL || received == NULL) {
        app_fail(kProgram, "no symmetric memory: fewer --words or a higher SHMEM_SYMMETRIC_SIZE");
    }

    shmem_ft_on_fault(SHMEM_FT_ON_FAULT_JUMP, NULL, NULL);
    if (shmem_ft_algo_init()) {
        begin(&options);
    }
    if (SHMEM_FT_ROLLBACK_POINT()) {
        app_recover();
    }
    shmem_checkpoint_all(); /* what was set up is safe, and a substitute joins here */
    while (step < options.steps) {
        do_step(&options);
        app_leave_if_asked();
        app_sleep_ms(options.pace_ms);
        shmem_checkpoint_all();
    }
    part = app_hash(total, own, options.threads * options.words * sizeof *own);
    shmem_uint64_sum_reduce(SHMEM_TEAM_WORLD, &sum_of_all, &part, 1);
    shmem_checkpoint_all(); /* what is printed is safe, too */
    if (shmem_my_pe() == 0) {
        printf("result team_threads %016" PRIx64 " after %lu steps\n", sum_of_all, step);
    }
    shmem_finalize();
    return 0;
}
