/* RandomAccess: how many random words of a distributed table can be changed per second.
 *
 * After the description of the HPC Challenge benchmark: a table of 2^n words, table[i] = i at first. A stream of
 * 4 * 2^n pseudo-random numbers a_1, a_2, ... is divided among the PEs; each number is combined with the word that its
 * lowest n bits name, table[a mod 2^n] ^= a. The stream comes from a shift register with the polynomial
 * x^64 + x^2 + x + 1, that is a_k = x^k.
 *
 * Every update is one atomic exclusive-or, so none is lost. HPC Challenge tolerates 1 % of lost updates; here the
 * verification applies all of them once more, which has to bring back table[i] = i everywhere.
 *
 * Source: P. Luszczek et al., "Introduction to the HPC Challenge Benchmark Suite", 2005. */
#include "apps/kernels/kernel.h"

static const char kProgram[] = "gups";

enum { UPDATES_PER_WORD = 4 };

typedef struct {
    unsigned long log2_words;
    unsigned long batches;
    unsigned long pace_ms;
} Options;

/* Symmetric state. */
static unsigned long batch; /* batches applied; those of the verification count on */
static uint64_t *table;     /* this PE's part */
static uint64_t digest;
static double seconds; /* when the first batch began; later how long all of them took */
static KernelVerdict verdict;

static uint64_t times_x(uint64_t a) { return a << 1 ^ (a >> 63 ? UINT64_C(7) : 0); }

/* Of two polynomials over GF(2), modulo that of the register. */
static uint64_t times(uint64_t a, uint64_t b) {
    uint64_t product = 0;
    for (int bit = 63; bit >= 0; bit--) {
        product = times_x(product) ^ (b >> bit & 1 ? a : 0);
    }
    return product;
}

/* a_index. So a PE begins anywhere in the stream, and the place in it is all that there is to save. */
static uint64_t stream_at(uint64_t index) {
    uint64_t power = 1;
    uint64_t square = 2; /* x, x^2, x^4, ... */
    for (; index != 0; index >>= 1) {
        power = index & 1 ? times(power, square) : power;
        square = times(square, square);
    }
    return power;
}

/* This PE's share of a batch. */
static void apply(unsigned long which, const Options *options) {
    const size_t n_pes = (size_t)shmem_n_pes(), me = (size_t)shmem_my_pe();
    const uint64_t words = UINT64_C(1) << options->log2_words;
    const size_t begin = kernel_first(UPDATES_PER_WORD * words, options->batches, which);
    const size_t count = kernel_count(UPDATES_PER_WORD * words, options->batches, which);
    uint64_t random = stream_at(begin + kernel_first(count, n_pes, me));
    for (size_t left = kernel_count(count, n_pes, me); left > 0; left--) {
        random = times_x(random);
        const uint64_t word = random & (words - 1);
        shmem_uint64_atomic_xor(&table[word / n_pes], random, (int)(word % n_pes));
    }
    app_sleep_ms(options->pace_ms);
}

/* Word w of the whole table is word w / n_pes of PE w mod n_pes. */
static size_t own_words(const Options *options) {
    const size_t words = (size_t)1 << options->log2_words, n_pes = (size_t)shmem_n_pes();
    return words / n_pes + ((size_t)shmem_my_pe() < words % n_pes ? 1 : 0);
}

static uint64_t word_index(size_t own) { return own * (size_t)shmem_n_pes() + (size_t)shmem_my_pe(); }

/* Before the first batch. */
static void fill(const Options *options) {
    const size_t own = own_words(options);
    for (size_t i = 0; i < own; i++) {
        table[i] = word_index(i);
    }
    shmem_barrier_all(); /* the table is complete before anybody changes it */
    seconds = kernel_seconds();
}

static void next_batch(const Options *options) {
    apply(batch % options->batches, options);
    shmem_barrier_all(); /* the updates of all PEs are in */
    batch++;
    if (batch == options->batches) {
        seconds = kernel_seconds() - seconds;
        const size_t own = own_words(options);
        for (size_t i = 0; i < own; i++) {
            digest += app_mix3(word_index(i), table[i], 0);
        }
        shmem_barrier_all(); /* everybody has looked before the verification changes the table again */
    }
}

static void verify(const Options *options) {
    const size_t own = own_words(options);
    verdict.digest = digest;
    verdict.errors = 0;
    for (size_t i = 0; i < own; i++) {
        verdict.errors += table[i] != word_index(i);
    }
    kernel_gather(&verdict);
}

static AppCommandLine read_options(int argc, char **argv, Options *options) {
    const AppOption rows[] = {
        {.name = "log2-words",
         .help = "the table has two to the power of that many words",
         .number = &options->log2_words,
         .minimum = 4,
         .maximum = 40},
        {.name = "batches",
         .help = "parts of the work; a barrier behind each",
         .number = &options->batches,
         .minimum = 1,
         .maximum = 1000000},
        {.name = "pace", .help = "milliseconds to idle per batch", .number = &options->pace_ms, .maximum = 3600000},
        {.name = NULL},
    };
    const AppCommandLine line = app_parse(argc, argv, rows);
    if (line.help && shmem_my_pe() == 0) {
        app_print_help(kProgram, "random updates of a distributed table (HPC Challenge RandomAccess)", rows);
    }
    return line;
}

int main(int argc, char **argv) {
    shmem_init();
    Options options = {.log2_words = 20, .batches = 16};
    const AppCommandLine line = read_options(argc, argv, &options);
    kernel_end_unless_runnable(kProgram, &line);
    const size_t words = (size_t)1 << options.log2_words;
    table = kernel_allocate(kProgram, (words / (size_t)shmem_n_pes() + 1) * sizeof *table);

#ifdef FAULT_TOLERANT
    shmem_ft_on_fault(SHMEM_FT_ON_FAULT_JUMP, NULL, NULL);
    if (shmem_ft_algo_init())
#endif
        fill(&options);
#ifdef FAULT_TOLERANT
    if (SHMEM_FT_ROLLBACK_POINT()) {
        app_recover();
    }
#endif
    while (batch < 2 * options.batches) {
#ifdef FAULT_TOLERANT
        shmem_checkpoint_all();
#endif
        next_batch(&options);
    }
    verify(&options);
#ifdef FAULT_TOLERANT
    shmem_checkpoint_all(); /* what is printed is safe, too */
#endif

    if (shmem_my_pe() == 0) {
        printf("%s: %d PEs, %zu words of 8 bytes, %zu updates\n", kProgram, shmem_n_pes(), words,
               UPDATES_PER_WORD * words);
        printf("rate %.6f GUPS\n", 1e-9 * (double)(UPDATES_PER_WORD * words) / seconds);
    }
    const int exit_code = kernel_report(kProgram, &verdict);
    shmem_finalize();
    return exit_code;
}
