/* A program whose data is written by other PEs only, and which survives the death of its PEs.
 *
 * A checkpoint must also hold what arrived from outside: a page that its owner never touched may be full of other
 * PEs' puts, atomics, collective results and stores through shmem_ptr. Here every PE writes to all others in every
 * step, in each of these ways, into the heap and into static globals, and nobody writes to its own memory. What to
 * write follows from what has been received, so one lost write changes everything after it.
 *
 * Results do not depend on timing: a location has one writer per step, or only operations that commute. */
#include "apps/app_support.h"

static const char kProgram[] = "remote_writes";

enum { PES_MAX = 64, WORDS = 300, STRIDE = 3, FLOAT_LIMIT = 1 << 20 };

typedef struct {
    unsigned long steps;
    unsigned long seed;
    unsigned long pace_ms;
} Options;

/* Where others leave their marks. One instance in the heap, one among the globals. */
typedef struct {
    long blocks[PES_MAX][WORDS];  /* put, put_nbi: a block per writer */
    long strided[STRIDE * WORDS]; /* iput */
    long singles[PES_MAX];        /* p */
    long added;                   /* atomic add, fetch-add, inc */
    unsigned long flipped;        /* atomic xor, or: commute with themselves */
    unsigned long gathered_bits;
    long swapped[PES_MAX];         /* atomic swap */
    long compared;                 /* compare-and-swap until it works: an addition in other words */
    float floats[PES_MAX];         /* atomic set of a float */
    int ints[PES_MAX];             /* atomic set of an int */
    unsigned long stored[PES_MAX]; /* plain stores through shmem_ptr */
} Board;

/* Symmetric state beside the heap; `step` is the only thing a PE writes for itself. */
static unsigned long step;
static Board global_board;
static Board *heap_board;
static long broadcast_into[WORDS];
static long reduced[WORDS];
static long largest[WORDS];
static long exchanged[PES_MAX * 4];
static long collected[PES_MAX * 4];
static uint64_t hashes[PES_MAX]; /* on PE 0: everybody's */

/* Needed by the collectives over active sets, untouched between calls; no state of the program. */
static long sync_broadcast[SHMEM_BCAST_SYNC_SIZE], sync_reduce[2][SHMEM_REDUCE_SYNC_SIZE];
static long sync_alltoall[SHMEM_ALLTOALL_SYNC_SIZE], sync_collect[SHMEM_COLLECT_SYNC_SIZE];
static long work_reduce[2][WORDS / 2 + 1 + SHMEM_REDUCE_MIN_WRKDATA_SIZE];

/* What only this process knows, on the stack of main. */
typedef struct {
    int me;
    int n_pes;
    Board *direct[2][PES_MAX]; /* shmem_ptr of every PE's two boards: stays valid when a PE is replaced there */
} Local;

static long number(const Options *options, uint64_t received, uint64_t a, uint64_t b) {
    return (long)(app_mix3(options->seed ^ received, a, b) >> 2);
}

/* All that others have written to me. Ends of arrays for PEs that do not exist stay zero. */
static uint64_t hash_received(void) {
    uint64_t hash = app_hash(APP_HASH_START, &global_board, sizeof global_board);
    hash = app_hash(hash, heap_board, sizeof *heap_board);
    hash = app_hash(hash, broadcast_into, sizeof broadcast_into);
    hash = app_hash(hash, reduced, sizeof reduced);
    hash = app_hash(hash, largest, sizeof largest);
    hash = app_hash(hash, exchanged, sizeof exchanged);
    return app_hash(hash, collected, sizeof collected);
}

static void write_blocks(Board *board, const Local *local, const Options *options, uint64_t received, int target) {
    long values[WORDS];
    for (uint64_t i = 0; i < WORDS; i++) {
        values[i] = number(options, received, i, (uint64_t)target);
    }
    const size_t length = WORDS / 2 + (size_t)(received % (WORDS / 2));
    if ((step + (unsigned long)target) % 2 == 0) {
        shmem_long_put(board->blocks[local->me], values, length, target);
    } else {
        shmem_long_put_nbi(board->blocks[local->me], values, length, target);
    }
    if ((local->me + 1) % local->n_pes == target) { /* the whole stride belongs to one writer */
        shmem_long_iput(board->strided, values, STRIDE, 1, WORDS, target);
    }
    shmem_long_p(&board->singles[local->me], values[0], target);
    shmem_quiet(); /* values is about to go */
}

/* Wraps around, which signed numbers may not. */
static long next_compared(long seen, long value) {
    return (long)((unsigned long)(seen ^ 1) + (unsigned long)(value & ~1L));
}

static void write_atomics(Board *board, const Local *local, const Options *options, uint64_t received, int target) {
    const long value = number(options, received, 77, (uint64_t)target);
    shmem_long_atomic_add(&board->added, value, target);
    (void)shmem_long_atomic_fetch_add(&board->added, value >> 3, target);
    shmem_long_atomic_inc(&board->added, target);
    shmem_ulong_atomic_xor(&board->flipped, (unsigned long)value, target);
    shmem_ulong_atomic_or(&board->gathered_bits, 1UL << (value % 61), target);
    (void)shmem_long_atomic_swap(&board->swapped[local->me], value, target);
    shmem_float_atomic_set(&board->floats[local->me], (float)(value % FLOAT_LIMIT), target);
    shmem_int_atomic_set(&board->ints[local->me], (int)(value % FLOAT_LIMIT), target);
    /* While a failure is pending the fetch brings a zero and the swap does nothing: hence the bound. */
    for (int attempt = 0; attempt < 1000; attempt++) {
        const long seen = shmem_long_atomic_fetch(&board->compared, target);
        if (shmem_long_atomic_compare_swap(&board->compared, seen, next_compared(seen, value), target) == seen) {
            break;
        }
    }
}

/* What shmem_ptr has given stays valid when a PE is replaced by a spare of this node, and leads nowhere when it has
 * gone to another one. */
static void forget_who_has_left(Local *local) {
    Board *const own[2] = {heap_board, &global_board};
    for (int kind = 0; kind < 2; kind++) {
        for (int pe = 0; pe < local->n_pes; pe++) {
            if (local->direct[kind][pe] != NULL && shmem_ptr(own[kind], pe) == NULL) {
                local->direct[kind][pe] = NULL;
            }
        }
    }
}

/* Loads and stores on another PE's memory. Asked for only once: when a PE is replaced by a spare of this node, the
 * address leads to the substitute's memory. NULL: no such access to that PE (or not now). */
static void write_directly(Local *local, const Options *options, uint64_t received, int target) {
    Board *const own[2] = {heap_board, &global_board};
    for (int kind = 0; kind < 2; kind++) {
        Board **const direct = &local->direct[kind][target];
        if (*direct == NULL) {
            *direct = shmem_ptr(own[kind], target);
        }
        const long value = number(options, received, (uint64_t)(90 + kind), (uint64_t)target);
        if (*direct != NULL) {
            (*direct)->stored[local->me] = (unsigned long)value;
        } else {
            shmem_ulong_p(&own[kind]->stored[local->me], (unsigned long)value, target);
        }
    }
}

/* The same five collectives over the active set of all PEs and over the world team, in turn. The source is written by
 * its owner, but anew in every step: it is scratch space and no state. */
static void write_collectively(const Local *local, const Options *options, uint64_t received) {
    static long source[PES_MAX * 4 > WORDS ? PES_MAX * 4 : WORDS];
    for (uint64_t i = 0; i < sizeof source / sizeof source[0]; i++) {
        source[i] = number(options, received, 200, i) >> 8; /* sums must not overflow */
    }
    const int n_pes = local->n_pes;
    const int root = (int)(step % (unsigned long)n_pes);
    shmem_barrier_all();
    if (step % 2 == 0) {
        shmem_broadcast64(broadcast_into, source, WORDS, root, 0, 0, n_pes, sync_broadcast);
        shmem_long_sum_to_all(reduced, source, WORDS, 0, 0, n_pes, work_reduce[0], sync_reduce[0]);
        shmem_long_max_to_all(largest, source, WORDS, 0, 0, n_pes, work_reduce[1], sync_reduce[1]);
        shmem_alltoall64(exchanged, source, 4, 0, 0, n_pes, sync_alltoall);
        shmem_fcollect64(collected, source, 4, 0, 0, n_pes, sync_collect);
    } else {
        shmem_long_broadcast(SHMEM_TEAM_WORLD, broadcast_into, source, WORDS, root);
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, reduced, source, WORDS);
        shmem_long_max_reduce(SHMEM_TEAM_WORLD, largest, source, WORDS);
        shmem_long_alltoall(SHMEM_TEAM_WORLD, exchanged, source, 4);
        shmem_long_fcollect(SHMEM_TEAM_WORLD, collected, source, 4);
    }
}

static void compute_step(Local *local, const Options *options) {
    const uint64_t received = hash_received();
    shmem_barrier_all(); /* everybody has read what the last step brought */
    for (int distance = 1; distance < local->n_pes; distance++) {
        const int target = (local->me + distance) % local->n_pes;
        write_blocks(heap_board, local, options, received, target);
        write_blocks(&global_board, local, options, received + 1, target);
        write_atomics(heap_board, local, options, received, target);
        write_atomics(&global_board, local, options, received + 1, target);
        write_directly(local, options, received, target);
    }
    write_collectively(local, options, received);
    app_sleep_ms(options->pace_ms);
    step++;
}

/* Every PE leaves its hash on PE 0; the checkpoint after it makes them safe. */
static void make_report(const Local *local) {
    shmem_barrier_all(); /* all writes have arrived */
    const uint64_t hash = hash_received();
    shmem_putmem(&hashes[local->me], &hash, sizeof hash, 0);
}

static void initialise_sync(long *sync, size_t length) {
    for (size_t i = 0; i < length; i++) {
        sync[i] = SHMEM_SYNC_VALUE;
    }
}

static AppCommandLine read_options(int argc, char **argv, Options *options) {
    const AppOption table[] = {
        {.name = "steps", .help = "steps to compute", .number = &options->steps, .minimum = 1, .maximum = 1UL << 40},
        {.name = "seed", .help = "of all numbers", .number = &options->seed, .maximum = 1UL << 62},
        {.name = "pace", .help = "milliseconds to idle per step", .number = &options->pace_ms, .maximum = 3600000},
        {.name = NULL},
    };
    AppCommandLine line = app_parse(argc, argv, table);
    if (line.help && shmem_my_pe() == 0) {
        app_print_help(kProgram, "data written by other PEs only, in every way there is; survives deaths", table);
    }
    if (shmem_n_pes() > PES_MAX) {
        snprintf(line.error, sizeof line.error, "%d PEs: at most %d can take part", shmem_n_pes(), PES_MAX);
    }
    return line;
}

int main(int argc, char **argv) {
    app_install_exit_signals();
    shmem_init(); /* spares sleep in here until they are needed */

    Options options = {.steps = 100, .seed = 1};
    const AppCommandLine line = read_options(argc, argv, &options);
    app_stop_on_error(kProgram, line.error);
    if (line.help) {
        shmem_finalize();
        return 0;
    }
    Local local = {.me = shmem_my_pe(), .n_pes = shmem_n_pes()};

    heap_board = shmem_calloc(1, sizeof *heap_board);
    if (heap_board == NULL) {
        app_stop_on_error(kProgram, "no symmetric memory for the board: raise SHMEM_SYMMETRIC_SIZE");
    }
    if (shmem_ft_algo_init()) { /* not in a substitute */
        initialise_sync(sync_broadcast, SHMEM_BCAST_SYNC_SIZE);
        initialise_sync(sync_reduce[0], SHMEM_REDUCE_SYNC_SIZE);
        initialise_sync(sync_reduce[1], SHMEM_REDUCE_SYNC_SIZE);
        initialise_sync(sync_alltoall, SHMEM_ALLTOALL_SYNC_SIZE);
        initialise_sync(sync_collect, SHMEM_COLLECT_SYNC_SIZE);
    }

    bool finished = false;
    do {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            app_recover();
            forget_who_has_left(&local);
        } else if (step < options.steps) {
            app_leave_if_asked();
            compute_step(&local, &options);
            if (step == options.steps) {
                make_report(&local);
            }
        } else {
            finished = true; /* the checkpoint just taken holds the last step and all hashes */
        }
    } while (!finished);

    if (local.me == 0) {
        printf("%s: %d PEs, %lu steps\n", kProgram, local.n_pes, options.steps);
        printf("result %016llx\n", (unsigned long long)app_hash(APP_HASH_START, hashes, sizeof hashes));
        fflush(stdout);
    }
    shmem_free(heap_board);
    shmem_finalize();
    return 0;
}
