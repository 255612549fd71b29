/* Integer sort: uniformly random keys, sorted into buckets over the PEs and counted there.
 *
 * After the description of ISx, which is made after the integer sort IS of the NAS Parallel Benchmarks. In every round
 *
 *  1. each PE makes its keys, from the round and their number;
 *  2. it sorts them by bucket: PE p has the p-th of n_pes ranges of keys;
 *  3. it reserves room in the inbox of each other PE with an atomic fetch-and-add and puts its keys for that PE there,
 *     beginning with its right neighbour, so that not all PEs write to the same one at once;
 *  4. after a barrier each PE sorts its inbox by counting: bucket p holds every key of its range, and only those.
 *
 * In which order the keys arrive is a matter of luck; the sorted ones are the same however often the round is repeated.
 * Verified in every round: each key lies in the range of its PE, the keys ascend, and none is lost or doubled (their
 * number and a sum over all of them is that of the keys which were made).
 *
 * Sources: U. Hanebutte and J. Hemstad, "ISx: A Scalable Integer Sort for Co-design in the Exascale Era", 2015;
 * D. Bailey et al., "The NAS Parallel Benchmarks", 1991. */
#include "apps/kernels/kernel.h"

static const char kProgram[] = "isx";

typedef struct {
    unsigned long keys; /* of all PEs, per round */
    unsigned long max_key;
    unsigned long rounds;
    unsigned long seed;
    unsigned long pace_ms;
} Options;

/* Symmetric state. */
static unsigned long round_number;
static long received;  /* keys in the inbox; long, because Open MPI 4.1 cannot add to a uint64_t */
static uint64_t made;  /* sum over the keys that this PE has made, in all rounds */
static double seconds; /* when the first round began; later how long all of them took */
static KernelVerdict verdict;

/* Room for one PE's work. The inbox is symmetric, the others could be private as well. */
typedef struct {
    uint32_t *inbox;
    size_t inbox_size;
    uint32_t *keys; /* made by this PE, by bucket */
    uint64_t *counts;
} Room;

static size_t bucket_of(uint64_t key, const Options *options) {
    return kernel_part_of(options->max_key, (size_t)shmem_n_pes(), key);
}

static uint64_t key_at(size_t number, const Options *options) {
    return app_mix3(options->seed, round_number, number) % options->max_key;
}

/* Two passes over the same keys: the first one counts, the second one places. Leaves the end of bucket b in ends[b]. */
static void make_keys(uint32_t *keys, uint64_t *ends, const Options *options) {
    const size_t n_pes = (size_t)shmem_n_pes(), me = (size_t)shmem_my_pe();
    const size_t begin = kernel_first(options->keys, n_pes, me), count = kernel_count(options->keys, n_pes, me);
    memset(ends, 0, (n_pes + 1) * sizeof *ends);
    for (size_t i = 0; i < count; i++) {
        ends[bucket_of(key_at(begin + i, options), options) + 1]++;
    }
    for (size_t bucket = 1; bucket <= n_pes; bucket++) {
        ends[bucket] += ends[bucket - 1];
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t key = key_at(begin + i, options);
        keys[ends[bucket_of(key, options)]++] = (uint32_t)key;
        made += app_mix(key);
    }
}

/* Returns whether there was room everywhere. */
static bool exchange(const Room *room, const uint64_t *ends) {
    const int n_pes = shmem_n_pes(), me = shmem_my_pe();
    bool fits = true;
    for (int distance = 1; distance <= n_pes; distance++) {
        const int pe = (me + distance) % n_pes;
        const uint64_t begin = pe == 0 ? 0 : ends[pe - 1], count = ends[pe] - begin;
        const uint64_t at = (uint64_t)shmem_long_atomic_fetch_add(&received, (long)count, pe);
        if (at + count <= room->inbox_size) {
            shmem_putmem(&room->inbox[at], &room->keys[begin], count * sizeof *room->keys, pe);
        } else {
            fits = false;
        }
    }
    return fits;
}

/* Counts the keys of the inbox and writes them back in order. Keys of a foreign range are errors. */
static void sort_inbox(const Room *room, const Options *options) {
    const size_t n_pes = (size_t)shmem_n_pes(), me = (size_t)shmem_my_pe();
    const size_t first = kernel_first(options->max_key, n_pes, me), width = kernel_count(options->max_key, n_pes, me);
    memset(room->counts, 0, width * sizeof *room->counts);
    for (size_t i = 0; i < (size_t)received; i++) {
        if (room->inbox[i] - first < width) {
            room->counts[room->inbox[i] - first]++;
        } else {
            verdict.errors++;
        }
    }
    size_t at = 0;
    for (size_t offset = 0; offset < width; offset++) {
        for (uint64_t left = room->counts[offset]; left > 0; left--) {
            room->inbox[at++] = (uint32_t)(first + offset);
        }
    }
    verdict.errors += (size_t)received - at;
}

static void check_order(const Room *room) {
    for (size_t i = 0; i < (size_t)received; i++) {
        verdict.errors += i > 0 && room->inbox[i - 1] > room->inbox[i];
        verdict.digest += app_mix(room->inbox[i]);
    }
}

static void sort_round(const Room *room, const Options *options) {
    uint64_t ends[(size_t)shmem_n_pes() + 1];
    make_keys(room->keys, ends, options);
    const bool fits = exchange(room, ends);
    shmem_barrier_all(); /* all keys have arrived */
    if (!fits) {
        app_fail(kProgram, "the keys are too unlike for the inboxes: more keys or fewer PEs");
    }
    sort_inbox(room, options);
    check_order(room);
    received = 0;
    app_sleep_ms(options->pace_ms);
    shmem_barrier_all(); /* nobody sends keys of the next round into an inbox in use */
    round_number++;
    if (round_number == options->rounds) {
        seconds = kernel_seconds() - seconds;
    }
}

/* The digest adds up what has arrived; here it is compared with what was made, over all PEs and rounds. */
static void verify(void) {
    static KernelVerdict sent;
    sent.digest = made;
    sent.errors = 0;
    kernel_gather(&sent);
    kernel_gather(&verdict);
    verdict.errors += sent.digest != verdict.digest;
}

static AppCommandLine read_options(int argc, char **argv, Options *options) {
    const AppOption rows[] = {
        {.name = "keys",
         .help = "of all PEs together, per round",
         .number = &options->keys,
         .minimum = 1,
         .maximum = 1UL << 36},
        {.name = "max-key",
         .help = "keys are smaller than that",
         .number = &options->max_key,
         .minimum = (unsigned long)shmem_n_pes(),
         .maximum = 1UL << 32},
        {.name = "rounds",
         .help = "how often keys are made and sorted",
         .number = &options->rounds,
         .minimum = 1,
         .maximum = 1000000},
        {.name = "seed", .help = "of the keys", .number = &options->seed, .maximum = 1UL << 62},
        {.name = "pace", .help = "milliseconds to idle per round", .number = &options->pace_ms, .maximum = 3600000},
        {.name = NULL},
    };
    const AppCommandLine line = app_parse(argc, argv, rows);
    if (line.help && shmem_my_pe() == 0) {
        app_print_help(kProgram, "distributed integer sort (ISx, NAS IS)", rows);
    }
    return line;
}

static Room make_room(const Options *options) {
    const size_t n_pes = (size_t)shmem_n_pes();
    const size_t own = options->keys / n_pes + 1, width = options->max_key / n_pes + 1;
    Room room;
    /* A bucket of mean size m has m + 12 * sqrt(m) keys or fewer in any run that will ever be made; half of m and 4096
     * more are that much, without a square root. */
    room.inbox_size = own + own / 2 + 4096;
    room.inbox = kernel_allocate(kProgram, room.inbox_size * sizeof *room.inbox);
    room.keys = malloc(own * sizeof *room.keys);
    room.counts = malloc(width * sizeof *room.counts);
    if (room.keys == NULL || room.counts == NULL) {
        app_fail(kProgram, "no memory for the keys");
    }
    return room;
}

int main(int argc, char **argv) {
    shmem_init();
    Options options = {.keys = 1UL << 20, .max_key = 1UL << 20, .rounds = 10, .seed = 1};
    const AppCommandLine line = read_options(argc, argv, &options);
    kernel_end_unless_runnable(kProgram, &line);
    const Room room = make_room(&options);

#ifdef FAULT_TOLERANT
    shmem_ft_on_fault(SHMEM_FT_ON_FAULT_JUMP, NULL, NULL);
    if (shmem_ft_algo_init())
#endif
        seconds = kernel_seconds();
#ifdef FAULT_TOLERANT
    if (SHMEM_FT_ROLLBACK_POINT()) {
        app_recover();
    }
#endif
    while (round_number < options.rounds) {
#ifdef FAULT_TOLERANT
        shmem_checkpoint_all();
#endif
        sort_round(&room, &options);
    }
    verify();
#ifdef FAULT_TOLERANT
    shmem_checkpoint_all(); /* what is printed is safe, too */
#endif

    if (shmem_my_pe() == 0) {
        printf("%s: %d PEs, %lu rounds of %lu keys of 4 bytes below %lu\n", kProgram, shmem_n_pes(), options.rounds,
               options.keys, options.max_key);
        printf("rate %.3f million keys/s\n", 1e-6 * (double)options.keys * (double)options.rounds / seconds);
    }
    const int exit_code = kernel_report(kProgram, &verdict);
    free(room.counts);
    free(room.keys);
    shmem_finalize();
    return exit_code;
}
