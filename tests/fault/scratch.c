/* Symmetric memory that versions leave out (shmem_ft_exclude, SHMEM_FT_HINT_SCRATCH), while PEs die.
 *
 *     scratch [--outside]
 *
 * 24 steps with a call of shmem_checkpoint_all in each; PE 1 dies in step 9, PE 0 in step 17. In each step every PE
 * puts numbers into the scratch space of its neighbour: memory from the hint, the middle of a large array, and the
 * inside of a global, and adds up what it has got there in memory that is saved. Behind a recovery all scratch space is
 * zeros, and what lies at its ends is as it was. In step 12 the memory from the hint is given back, and the same place
 * is used for something that is saved. --outside: leaves out more than there is. */
#include "apps/app_support.h"

static const char kProgram[] = "scratch";

enum { STEPS = 24, WORDS = 20000, BLOCK = 16384 / sizeof(long) };
enum { MIDDLE = WORDS / 2 };

static long step, sum;    /* symmetric */
static long* kept;        /* symmetric: in the place that was scratch */
static long table[WORDS]; /* of which the middle is scratch */
static int me SHMEM_FT_PRIVATE, n SHMEM_FT_PRIVATE;

/* The words of table and of `large` that are certainly left out. */
static bool is_inside(long i) { return i >= MIDDLE / 2 + BLOCK && i < MIDDLE / 2 + MIDDLE - BLOCK; }
static bool is_outside(long i) { return i < MIDDLE / 2 || i >= MIDDLE / 2 + MIDDLE; }

static void expect(bool is_right, const char* what, long i) {
    if (!is_right) {
        printf("result scratch PE %d wrong: %s, word %ld in step %ld\n", me, what, i, step);
        shmem_global_exit(3);
    }
}

static void check_after_recovery(const long* scratch, const long* large) {
    for (long i = 0; i < WORDS; i++) {
        if (scratch != NULL && kept == NULL) {
            expect(scratch[i] == 0, "scratch", i);
        }
        if (is_inside(i)) {
            expect(table[i] == 0 && large[i] == 0, "the middle", i);
        } else if (is_outside(i)) {
            expect(table[i] == 7 * i + step && large[i] == 5 * i + step, "what is saved", i);
        }
    }
}

static void take_step(long* scratch, long* large, long* source) {
    const int next = (me + 1) % n;
    for (long i = 0; i < WORDS; i++) {
        source[i] = step * 1000 + i + me;
    }
    if (kept == NULL) {
        shmem_long_put(scratch, source, WORDS, next);
    }
    shmem_long_put(table + MIDDLE / 2, source, MIDDLE, next);
    shmem_long_put(large + MIDDLE / 2, source, MIDDLE, next);
    shmem_barrier_all();
    sum +=
        (kept == NULL ? scratch[step * 700] : kept[step * 700]) + table[MIDDLE / 2 + step] + large[MIDDLE / 2 + step];
    shmem_barrier_all();
    for (long i = 0; i < WORDS; i++) {
        if (is_outside(i)) {
            table[i] = 7 * i + step + 1;
            large[i] = 5 * i + step + 1;
        }
    }
}

static long expected_sum(void) {
    const int before = (me + n - 1) % n;
    long all = 0;
    for (long s = 0; s < STEPS; s++) {
        const long from = s * 1000 + before;
        all += (s < 12 ? from + s * 700 : 3 * s * 700) + 2 * (from + s);
    }
    return all;
}

static bool dies(bool is_first) { return is_first && ((step == 9 && me == 1) || (step == 17 && me == 0)); }

int main(int argc, char** argv) {
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    bool is_beyond = false;
    const AppOption options[] = {
        {.name = "outside", .help = "leave out more than there is", .flag = &is_beyond},
        {.name = NULL},
    };
    const AppCommandLine line = app_parse(argc, argv, options);
    app_stop_on_error(kProgram, line.error);

    long* const source = malloc(WORDS * sizeof *source);
    long* const scratch = shmem_malloc_with_hints(WORDS * sizeof *scratch, SHMEM_FT_HINT_SCRATCH);
    long* const large = shmem_malloc(WORDS * sizeof *large);
    if (shmem_ft_exclude(table + MIDDLE / 2, MIDDLE * sizeof *table) != SHMEM_FT_SUCCESS ||
        shmem_ft_exclude(large + MIDDLE / 2, (is_beyond ? WORDS : MIDDLE) * sizeof *large) != SHMEM_FT_SUCCESS ||
        shmem_ft_exclude(NULL, 0) != SHMEM_FT_SUCCESS) {
        app_fail(kProgram, "scratch space is not left out");
    }
    const bool is_first = shmem_ft_algo_init() != 0;
    if (is_first) {
        for (long i = 0; i < WORDS; i++) {
            table[i] = 7 * i;
            large[i] = 5 * i;
            scratch[i] = i;
        }
    }
    if (SHMEM_FT_ROLLBACK_POINT()) {
        shmem_ft_recover();
        check_after_recovery(scratch, large);
    }
    while (step < STEPS) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            shmem_ft_recover();
            check_after_recovery(scratch, large);
            continue;
        }
        if (dies(is_first)) {
            raise(SIGKILL);
        }
        if (step == 12) {
            shmem_free(scratch);
            kept = shmem_malloc(WORDS * sizeof *kept);
            expect(kept < scratch + BLOCK && kept + WORDS > scratch, "the place is not used again", kept - scratch);
            for (long i = 0; i < WORDS; i++) {
                kept[i] = 3 * i;
            }
        }
        take_step(scratch, large, source);
        step++;
    }
    expect(sum == expected_sum(), "the sum", 0);
    for (long i = 0; i < WORDS; i++) {
        expect(kept[i] == 3 * i, "what is saved now", i);
    }
    printf("result scratch PE %d right\n", me);
    shmem_finalize();
    free(source);
    return 0;
}
