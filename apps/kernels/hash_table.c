/* A hash table that is distributed over the PEs and filled by all of them at once, without locks.
 *
 * Every PE draws keys and counts how often each occurs, in one table with open addressing: the home of a key is a slot
 * anywhere in the job. A PE claims an empty slot with an atomic compare-and-swap of its key, or goes on to the next
 * slot if it finds another key there; then it adds 1 to the slot's count, atomically. Many PEs draw the same keys, so
 * they meet in the same slots, and it is a matter of luck which of two keys gets the slot that both want. What the
 * table says of a key does not depend on that.
 *
 * Verified: every key that was drawn is looked up with gets, and its count is that of a private computation; no slot
 * holds a key that was not drawn; the counts add up to the number of draws. */
#include "apps/kernels/kernel.h"

static const char kProgram[] = "hash_table";

enum { SLOTS_PER_KEY = 2 };

typedef struct {
    unsigned long keys; /* different ones */
    unsigned long draws;
    unsigned long batches;
    unsigned long seed;
    unsigned long pace_ms;
} Options;

typedef struct {
    long key; /* 0: empty. long, because every OpenSHMEM library has all atomics for it */
    long count;
} Slot;

/* Symmetric state. */
static unsigned long batch;
static Slot *table;    /* this PE's part */
static long overfull;  /* draws for which there was no slot */
static double seconds; /* when the first batch began; later how long all of them took */
static KernelVerdict verdict;

static size_t slots_of(const Options *options) { return SLOTS_PER_KEY * options->keys; }

/* Which of the keys is drawn. */
static size_t draw(size_t number, const Options *options) { return app_mix3(options->seed, number, 1) % options->keys; }

/* 62 random bits, so two keys are as good as never alike; if they were, the counts would tell. */
static long key_of(size_t index, const Options *options) {
    return (long)(app_mix(options->seed ^ app_mix(index)) >> 1) | 1L << 61;
}

/* Slot s of the whole table is slot s / n_pes of PE s mod n_pes. */
static size_t home_of(long key, const Options *options) { return app_mix((uint64_t)key) % slots_of(options); }

static void insert_or_count(long key, const Options *options) {
    const size_t slots = slots_of(options), n_pes = (size_t)shmem_n_pes();
    size_t at = home_of(key, options);
    for (size_t probes = 0; probes < slots; probes++) {
        Slot *const slot = &table[at / n_pes];
        const int pe = (int)(at % n_pes);
        const long found = shmem_long_atomic_compare_swap(&slot->key, 0, key, pe);
        if (found == 0 || found == key) {
            shmem_long_atomic_add(&slot->count, 1, pe);
            return;
        }
        at = at + 1 == slots ? 0 : at + 1;
    }
    overfull++;
}

/* 0: there is no such key. */
static long look_up(long key, const Options *options) {
    const size_t slots = slots_of(options), n_pes = (size_t)shmem_n_pes();
    size_t at = home_of(key, options);
    for (size_t probes = 0; probes < slots; probes++) {
        Slot slot = {0, 0};
        shmem_getmem(&slot, &table[at / n_pes], sizeof slot, (int)(at % n_pes));
        if (slot.key == key || slot.key == 0) {
            return slot.count;
        }
        at = at + 1 == slots ? 0 : at + 1;
    }
    return 0;
}

/* This PE's share of a batch. */
static void next_batch(const Options *options) {
    const size_t n_pes = (size_t)shmem_n_pes(), me = (size_t)shmem_my_pe();
    const size_t begin = kernel_first(options->draws, options->batches, batch);
    const size_t count = kernel_count(options->draws, options->batches, batch);
    const size_t first = begin + kernel_first(count, n_pes, me), own = kernel_count(count, n_pes, me);
    for (size_t number = first; number < first + own; number++) {
        insert_or_count(key_of(draw(number, options), options), options);
    }
    app_sleep_ms(options->pace_ms);
    shmem_barrier_all(); /* the batches of all PEs are in */
    batch++;
    if (batch == options->batches) {
        seconds = kernel_seconds() - seconds;
    }
}

/* How often each key is drawn in the whole job. */
static void count_privately(uint32_t *expected, const Options *options) {
    memset(expected, 0, options->keys * sizeof *expected);
    for (size_t number = 0; number < options->draws; number++) {
        expected[draw(number, options)]++;
    }
}

static void verify(uint32_t *expected, const Options *options) {
    const size_t n_pes = (size_t)shmem_n_pes(), me = (size_t)shmem_my_pe();
    count_privately(expected, options);
    verdict.digest = 0;
    verdict.errors = (uint64_t)overfull;
    static KernelVerdict sums; /* keys that should be there minus those that are; likewise the draws */
    sums = (KernelVerdict){0, 0};
    const size_t first = kernel_first(options->keys, n_pes, me), own = kernel_count(options->keys, n_pes, me);
    for (size_t index = first; index < first + own; index++) {
        const long key = key_of(index, options), count = look_up(key, options);
        verdict.errors += count != (long)expected[index];
        verdict.digest += app_mix3((uint64_t)key, (uint64_t)count, 2);
        sums.digest += expected[index] != 0;
        sums.errors += expected[index];
    }
    const size_t slots = slots_of(options), own_slots = slots / n_pes + (me < slots % n_pes ? 1 : 0);
    for (size_t i = 0; i < own_slots; i++) {
        sums.digest -= table[i].key != 0;
        sums.errors -= (uint64_t)table[i].count;
    }
    kernel_gather(&sums);
    kernel_gather(&verdict);
    verdict.errors += sums.digest != 0;
    verdict.errors += sums.errors != 0;
}

static AppCommandLine read_options(int argc, char **argv, Options *options) {
    const AppOption rows[] = {
        {.name = "keys",
         .help = "different keys; the table has two slots for each",
         .number = &options->keys,
         .minimum = 1,
         .maximum = 1UL << 32},
        {.name = "draws", .help = "keys drawn", .number = &options->draws, .minimum = 1, .maximum = 1UL << 31},
        {.name = "batches",
         .help = "parts of the work; a barrier behind each",
         .number = &options->batches,
         .minimum = 1,
         .maximum = 1000000},
        {.name = "seed", .help = "of the keys and draws", .number = &options->seed, .maximum = 1UL << 62},
        {.name = "pace", .help = "milliseconds to idle per batch", .number = &options->pace_ms, .maximum = 3600000},
        {.name = NULL},
    };
    const AppCommandLine line = app_parse(argc, argv, rows);
    if (line.help && shmem_my_pe() == 0) {
        app_print_help(kProgram, "distributed hash table without locks", rows);
    }
    return line;
}

int main(int argc, char **argv) {
    shmem_init();
    Options options = {.keys = 1UL << 17, .draws = 1UL << 20, .batches = 16, .seed = 1};
    const AppCommandLine line = read_options(argc, argv, &options);
    kernel_end_unless_runnable(kProgram, &line);
    const size_t table_bytes = (slots_of(&options) / (size_t)shmem_n_pes() + 1) * sizeof *table;
    table = kernel_allocate(kProgram, table_bytes);
    uint32_t *const expected = malloc(options.keys * sizeof *expected);
    if (expected == NULL) {
        app_fail(kProgram, "no memory for the counts to compare with");
    }

#ifdef FAULT_TOLERANT
    shmem_ft_on_fault(SHMEM_FT_ON_FAULT_JUMP, NULL, NULL);
    if (shmem_ft_algo_init())
#endif
    {
        memset(table, 0, table_bytes);
        shmem_barrier_all(); /* the table is empty before anybody fills it */
        seconds = kernel_seconds();
    }
#ifdef FAULT_TOLERANT
    if (SHMEM_FT_ROLLBACK_POINT()) {
        app_recover();
    }
#endif
    while (batch < options.batches) {
#ifdef FAULT_TOLERANT
        shmem_checkpoint_all();
#endif
        next_batch(&options);
    }
    verify(expected, &options);
#ifdef FAULT_TOLERANT
    shmem_checkpoint_all(); /* what is printed is safe, too */
#endif

    if (shmem_my_pe() == 0) {
        printf("%s: %d PEs, %lu keys, %zu slots of %zu bytes, %lu draws\n", kProgram, shmem_n_pes(), options.keys,
               slots_of(&options), sizeof *table, options.draws);
        printf("rate %.3f million updates/s\n", 1e-6 * (double)options.draws / seconds);
    }
    const int exit_code = kernel_report(kProgram, &verdict);
    free(expected);
    shmem_finalize();
    return exit_code;
}
