/* Private memory that is saved with each version (shmem_ft_include), while PEs die.
 *
 *     included [--late] [--large] [--inside]
 *
 * 20 steps with a call of shmem_checkpoint_all in each; PE 1 dies in step 9, PE 0 in step 14. Each PE has three private
 * pieces: a generator on the process's heap, at another address in each process; a marked variable; an array of some
 * pages of which a step changes one word. What they hold is computed once more at the end. --late: includes behind the
 * first version. --large: more than the symmetric heap has. --inside: one more, where no substitute comes by. */
#include "apps/app_support.h"

static const char kProgram[] = "included";

enum { STEPS = 20, WORDS = 5000 };

static long step; /* symmetric */
static unsigned long drawn SHMEM_FT_PRIVATE;
static int me SHMEM_FT_PRIVATE;

/* Of numbers, so that it means the same anywhere. */
typedef struct {
    unsigned long state;
    long n_drawn;
} Generator;

static unsigned long draw(Generator* generator) {
    generator->state = generator->state * 6364136223846793005UL + 1442695040888963407UL;
    generator->n_drawn++;
    return generator->state >> 40;
}

static void take_step(Generator* generator, long* words, long number) {
    drawn += draw(generator);
    words[number * 251 % WORDS] += number + me;
}

static bool dies(bool is_first) { return is_first && ((step == 9 && me == 1) || (step == 14 && me == 0)); }

static bool is_right(const Generator* generator, const long* words) {
    static long expected_words[WORDS] SHMEM_FT_PRIVATE;
    const Generator have = *generator;
    const unsigned long sum = drawn;
    Generator again = {.state = (unsigned long)me};
    drawn = 0;
    for (long i = 0; i < STEPS; i++) {
        take_step(&again, expected_words, i);
    }
    return have.state == again.state && have.n_drawn == STEPS && sum == drawn &&
           memcmp(words, expected_words, sizeof expected_words) == 0;
}

int main(int argc, char** argv) {
    shmem_init();
    me = shmem_my_pe();
    bool is_late = false, is_large = false, is_inside = false;
    const AppOption table[] = {
        {.name = "late", .help = "include memory behind the first version", .flag = &is_late},
        {.name = "large", .help = "include more than the symmetric heap has", .flag = &is_large},
        {.name = "inside", .help = "include one more piece in the block of shmem_ft_algo_init", .flag = &is_inside},
        {.name = NULL},
    };
    const AppCommandLine line = app_parse(argc, argv, table);
    app_stop_on_error(kProgram, line.error);

    void* const padding = malloc(64 + (size_t)getpid() % 1000 * 64); /* so that what follows lies elsewhere */
    Generator* const generator = malloc(sizeof *generator);
    long* const words = calloc(WORDS, sizeof *words);
    if (is_large && shmem_ft_include(words, (size_t)1 << 40) != SHMEM_FT_ERROR_OUT_OF_MEMORY) {
        app_fail(kProgram, "there is room for too much");
    }
    if (shmem_ft_include(generator, sizeof *generator) != SHMEM_FT_SUCCESS ||
        shmem_ft_include(&drawn, sizeof drawn) != SHMEM_FT_SUCCESS ||
        shmem_ft_include(words, WORDS * sizeof *words) != SHMEM_FT_SUCCESS ||
        shmem_ft_include(NULL, 0) != SHMEM_FT_SUCCESS) {
        app_fail(kProgram, "private memory is not included");
    }
    generator->state = 12345; /* of no use: what counts is set by the block, or comes back */
    const bool is_first = shmem_ft_algo_init() != 0;
    if (is_first) {
        *generator = (Generator){.state = (unsigned long)me};
        if (is_inside && shmem_ft_include(padding, 8) != SHMEM_FT_SUCCESS) {
            app_fail(kProgram, "private memory is not included");
        }
    }
    if (SHMEM_FT_ROLLBACK_POINT()) {
        shmem_ft_recover();
    }
    while (step < STEPS) {
        shmem_checkpoint_all();
        if (is_late && shmem_ft_include(padding, 1) != SHMEM_FT_FAILURE) {
            app_fail(kProgram, "memory is included behind the first version");
        }
        take_step(generator, words, step);
        if (dies(is_first)) {
            raise(SIGKILL);
        }
        step++;
        shmem_barrier_all();
    }
    shmem_checkpoint_all();
    const bool is_good = is_right(generator, words);
    printf("result %s PE %d %s\n", kProgram, me, is_good ? "right" : "wrong");
    fflush(stdout);
    shmem_finalize();
    free(words);
    free(generator);
    free(padding);
    return is_good ? 0 : 1;
}
