/* Checkpoints in the background, by a program that writes everywhere as soon as it may.
 *
 *     background [--pages N] [--steps N] [--part N] [--wait N] [--handler N] [--mixed]
 *
 * Every page of the field carries the step in which it was written last, and which page is written in which step is
 * known beforehand. As soon as shmem_ft_checkpoint_nb has returned, the next step's pages are written: by their owner,
 * by puts, through shmem_ptr, and by atomics from the neighbour; memory is allocated and freed. So a version that has a
 * page of a later step than its own, or lacks one, shows after a rollback. */
#include <signal.h>

#include "apps/app_support.h"

static const char kProgram[] = "background";

enum { PAGE = 4096, WORDS = PAGE / sizeof(uint64_t), WAYS = 4, EXTRA = 200 };

typedef struct {
    unsigned long pages;
    unsigned long steps;
    unsigned long part;
    unsigned long wait;
    unsigned long handler;
    bool mixed;
} Options;

/* Symmetric state. */
static unsigned long step;
static uint64_t in_globals[64 * WORDS];
static uint64_t counter; /* the neighbour adds one in each step */
static uint64_t digest;
static unsigned long scratch_step;
static unsigned long recoveries; /* behind each of which one more version is made of its step */

static uint64_t* extra; /* there from step 5 n + 1 to 5 n + 2 */

static uint64_t* field;
static unsigned long long version SHMEM_FT_PRIVATE; /* gone back to */

static int on_version(int event, unsigned long long which, void* context) {
    (void)context;
    version = event == SHMEM_FT_AFTER_RESTORE ? which : version;
    return 0;
}

/* Whether that page of a PE is written in that step. */
static bool is_written(unsigned long page, unsigned long in_step, const Options* options) {
    return in_step == 0 || app_mix3(page, in_step, 7) % options->part == 0;
}

static unsigned long last_written(unsigned long page, const Options* options) {
    unsigned long last = step;
    while (!is_written(page, last, options)) {
        last--;
    }
    return last;
}

static uint64_t stamp(unsigned long page, unsigned long in_step, int pe) {
    return app_mix3(in_step + 1, page, (uint64_t)pe + 11) | 1;
}

/* The pages of PE `pe`, in `way` of WAYS: each page is written in the one that is its number modulo WAYS. */
static void write_pages(int pe, unsigned long way, unsigned long in_step, const Options* options) {
    const int me = shmem_my_pe();
    for (unsigned long page = way; page < options->pages; page += WAYS) {
        if (!is_written(page, in_step, options)) {
            continue;
        }
        uint64_t* const place = field + page * WORDS;
        const uint64_t value = stamp(page, in_step, pe);
        uint64_t* const seen = way == 3 ? shmem_ptr(place, pe) : NULL;
        if (pe == me) {
            place[0] = place[WORDS - 1] = value;
        } else if (seen != NULL) {
            seen[0] = seen[WORDS - 1] = value;
        } else if (way == 2) {
            shmem_uint64_atomic_set(place, value, pe);
            shmem_uint64_atomic_swap(place + WORDS - 1, value, pe);
        } else {
            uint64_t whole[WORDS] = {0};
            whole[0] = whole[WORDS - 1] = value;
            shmem_putmem_nbi(place, whole, PAGE, pe);
            shmem_quiet();
        }
    }
}

/* Everything of the next step: nobody has to be waited for, since all have copied. */
static void write_step(const Options* options) {
    const unsigned long next = step + 1;
    const int me = shmem_my_pe(), right = (me + 1) % shmem_n_pes();
    if (next % (unsigned long)shmem_n_pes() == (unsigned long)me) {
        app_sleep_ms(10); /* the others are at their next checkpoint before this one has written to their memory */
    }
    write_pages(right, 1, next, options);
    write_pages(right, 2, next, options);
    write_pages(right, 3, next, options);
    shmem_uint64_atomic_inc(&counter, right);
    shmem_uint64_p(&in_globals[(next % 64) * WORDS], stamp(next, next, right), right);
    write_pages(me, 0, next, options);
    if (next % 5 == 1) { /* holes come and go */
        extra = shmem_calloc(EXTRA, PAGE);
        for (unsigned long page = 0; extra != NULL && page < EXTRA; page++) {
            extra[page * WORDS] = stamp(page, next, me);
        }
    } else if (next % 5 == 2) {
        shmem_free(extra);
        extra = NULL;
    }
    scratch_step = next;
}

static void check_memory(const char* when, const Options* options) {
    const int me = shmem_my_pe();
    if (version != 0 && step + recoveries + 1 != version) {
        fprintf(stderr, "%s: error: PE %d, %s: version %llu is of step %lu\n", kProgram, me, when, version, step);
        shmem_global_exit(9);
    }
    version = 0;
    for (unsigned long page = 0; page < options->pages; page++) {
        const uint64_t expected = stamp(page, last_written(page, options), me);
        const uint64_t* const place = field + page * WORDS;
        if (place[0] != expected || place[WORDS - 1] != expected) {
            unsigned long seen = 0;
            while (seen <= step + 2 && stamp(page, seen, me) != place[0]) {
                seen++;
            }
            fprintf(stderr, "%s: error: PE %d, %s, step %lu: page %lu (way %lu) is of step %lu instead of %lu\n",
                    kProgram, me, when, step, page, page % WAYS, seen, last_written(page, options));
            shmem_global_exit(9);
        }
    }
    for (unsigned long page = 0; step % 5 == 1 && page < EXTRA; page++) {
        if (extra == NULL || extra[page * WORDS] != stamp(page, step, me)) {
            fprintf(stderr, "%s: error: PE %d, %s, step %lu: page %lu of a block that is freed later is lost\n",
                    kProgram, me, when, step, page);
            shmem_global_exit(9);
        }
    }
    if (counter != step || scratch_step != step) {
        fprintf(stderr, "%s: error: PE %d, %s, step %lu: the counter is %llu, the other step %lu\n", kProgram, me, when,
                step, (unsigned long long)counter, scratch_step);
        shmem_global_exit(9);
    }
    for (unsigned long at = step > 63 ? step - 63 : 1; at <= step; at++) {
        if (in_globals[(at % 64) * WORDS] != stamp(at, at, me)) {
            fprintf(stderr, "%s: error: PE %d, %s, step %lu: a global is not of step %lu\n", kProgram, me, when, step,
                    at);
            shmem_global_exit(9);
        }
    }
}

static void on_segv(int signal_number) {
    (void)signal_number;
    abort();
}

static AppCommandLine read_options(int argc, char** argv, Options* options) {
    const AppOption table[] = {
        {.name = "pages", .help = "of the field", .number = &options->pages, .minimum = WAYS, .maximum = 1UL << 24},
        {.name = "steps", .help = "steps to do", .number = &options->steps, .minimum = 1, .maximum = 1UL << 20},
        {.name = "part",
         .help = "one page of so many is written",
         .number = &options->part,
         .minimum = 1,
         .maximum = 1000},
        {.name = "wait",
         .help = "0: never; 1: shmem_ft_checkpoint_wait; 2: _test",
         .number = &options->wait,
         .maximum = 2},
        {.name = "handler",
         .help = "PE 1 takes SIGSEGV in that step (never)",
         .number = &options->handler,
         .maximum = 1UL << 20},
        {.name = "mixed", .help = "every third checkpoint is shmem_checkpoint_all", .flag = &options->mixed},
        {.name = NULL},
    };
    return app_parse(argc, argv, table);
}

static int checkpoint(const Options* options) {
    return options->mixed && step % 3 == 2 ? shmem_checkpoint_all() : shmem_ft_checkpoint_nb();
}

/* What was begun, in the way that was asked for. */
static int hear(const Options* options) {
    if (options->wait == 1) {
        return shmem_ft_checkpoint_wait();
    }
    int result = SHMEM_FT_SUCCESS;
    while (options->wait == 2 && (result = shmem_ft_checkpoint_test()) == SHMEM_FT_PENDING) {
        app_sleep_ms(1);
    }
    return result;
}

static void recover_and_check(const Options* options) {
    do {
        shmem_ft_recover();
        check_memory("after a rollback", options);
        recoveries++;
        shmem_barrier_all(); /* nobody writes before all have looked */
    } while (shmem_ft_checkpoint_wait() != SHMEM_FT_SUCCESS);
}

static void run(const Options* options) {
    bool is_done = false;
    while (!is_done) {
        if (checkpoint(options) != SHMEM_FT_SUCCESS) {
            recover_and_check(options);
            continue;
        }
        is_done = step == options->steps;
        if (options->handler != 0 && step >= options->handler && shmem_my_pe() == 1 &&
            shmem_ft_checkpoint_wait() == SHMEM_FT_SUCCESS) {
            signal(SIGSEGV, on_segv); /* not while something of this version may be held */
        }
        if (!is_done) {
            write_step(options);
        }
        if (hear(options) != SHMEM_FT_SUCCESS || (is_done && shmem_ft_checkpoint_wait() != SHMEM_FT_SUCCESS)) {
            recover_and_check(options);
            is_done = false;
            continue;
        }
        if (is_done) {
            break;
        }
        if (step % 2 == 0) {
            shmem_barrier_all(); /* the checkpoint is one as well */
        }
        step++;
    }
}

int main(int argc, char** argv) {
    shmem_init();
    Options options = {.pages = 512, .steps = 40, .part = 1};
    app_stop_on_error(kProgram, read_options(argc, argv, &options).error);
    shmem_ft_on_fault(SHMEM_FT_ON_FAULT_RETURN, NULL, NULL);
    if (shmem_ft_on_version(on_version, NULL) != 0) {
        app_fail(kProgram, "a handler is refused");
    }
    field = shmem_malloc(options.pages * PAGE);
    if (field == NULL) {
        app_stop_on_error(kProgram, "no symmetric memory for the field");
    }
    if (shmem_ft_algo_init()) {
        for (unsigned long page = 0; page < options.pages; page++) {
            field[page * WORDS] = field[page * WORDS + WORDS - 1] = stamp(page, 0, shmem_my_pe());
        }
    }
    run(&options);
    check_memory("at the end", &options);
    digest = app_hash(APP_HASH_START, field, options.pages * PAGE);
    printf("result %d %016llx\n", shmem_my_pe(), (unsigned long long)digest);
    fflush(stdout);
    shmem_finalize();
    return 0;
}
