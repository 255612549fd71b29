/* Every PE writes into the memory of all the others, without pause, until somebody has died; then all agree on other
 * contents and watch that nothing changes them any more.
 *
 *     stale --until FILE [--calm]
 *
 * A process that stood still in the middle of its writing, was declared dead for it, and goes on when the others are
 * watching has messages under way and more to send: none of them may arrive. "settled" is printed when the watch
 * begins; it ends when FILE exists. --calm begins with the watch, for the results of a run without a death. */
#include "apps/app_support.h"

static const char kProgram[] = "stale";

enum { WORDS = 600, PES_MAX = 16, TURNS = 25, STEPS_MAX = 5000 };

/* Symmetric state: what each PE has written here, by message and by atomics. */
static long words[PES_MAX][WORDS];
static long large[PES_MAX][16 * WORDS];
static long added[PES_MAX];
static uint64_t signals[PES_MAX];
static unsigned long step;

/* Of this process: somebody has died, and this process has been there when it was repaired. */
static int has_recovered SHMEM_FT_PRIVATE;

static long mine[16 * WORDS] SHMEM_FT_PRIVATE;

static void fill(unsigned long at) {
    for (int i = 0; i < 16 * WORDS; i++) {
        mine[i] = (long)(app_mix3(at, (uint64_t)shmem_my_pe(), (uint64_t)i) >> 8);
    }
}

static void write_to_all(unsigned long at) {
    const int me = shmem_my_pe(), n_pes = shmem_n_pes();
    fill(at);
    for (int pe = 0; pe < n_pes; pe++) {
        shmem_putmem(words[me], mine, sizeof words[me], pe);
        shmem_putmem_nbi(large[me], mine, sizeof large[me], pe);
        shmem_long_p(&words[me][0], mine[0], pe);
        shmem_long_atomic_add(&added[me], 1, pe);
        shmem_long_put_signal(&words[me][1], &mine[1], 1, &signals[me], at, SHMEM_SIGNAL_SET, pe);
    }
}

/* The contents that are to stay: what the last turn wrote, with other numbers in what was counted. */
static void settle(void) {
    const int me = shmem_my_pe(), n_pes = shmem_n_pes();
    shmem_barrier_all();
    write_to_all(~0UL);
    shmem_quiet();
    for (int pe = 0; pe < n_pes; pe++) {
        shmem_long_atomic_set(&added[me], -1 - me, pe);
    }
    shmem_barrier_all();
}

static uint64_t hash_of_all(void) {
    const size_t n_pes = (size_t)shmem_n_pes();
    uint64_t hash = app_hash(APP_HASH_START, words, n_pes * sizeof words[0]);
    hash = app_hash(hash, large, n_pes * sizeof large[0]);
    hash = app_hash(hash, added, n_pes * sizeof added[0]);
    return app_hash(hash, signals, n_pes * sizeof signals[0]);
}

static void watch(const char* until) {
    const uint64_t hash = hash_of_all();
    bool is_last = false;
    do {
        is_last = access(until, F_OK) == 0;
        app_sleep_ms(2);
        if (hash_of_all() != hash) {
            app_fail(kProgram, "memory has changed, and nobody in the job has written to it");
        }
    } while (!is_last);
}

int main(int argc, char** argv) {
    shmem_init();
    const char* until = NULL;
    bool is_calm = false;
    const AppOption table[] = {
        {.name = "until", .help = "watch until this file exists", .text = &until},
        {.name = "calm", .help = "nobody is going to die", .flag = &is_calm},
        {.name = NULL},
    };
    const AppCommandLine line = app_parse(argc, argv, table);
    app_stop_on_error(kProgram, line.error);
    if (until == NULL || shmem_n_pes() > PES_MAX) {
        app_fail(kProgram, "wants --until, and at most 16 PEs");
    }
    bool is_settled = false;
    while (!is_settled || step == 0) {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            app_recover();
            has_recovered = 1;
            is_settled = false;
        } else if (has_recovered || is_calm) {
            settle();
            is_settled = true;
            step++;
        } else {
            for (int turn = 0; turn < TURNS; turn++) {
                write_to_all(step * TURNS + (unsigned long)turn);
            }
            shmem_barrier_all();
            if (++step == STEPS_MAX) {
                app_fail(kProgram, "nobody has died");
            }
        }
    }
    if (shmem_my_pe() == 0) {
        printf("settled\n");
        fflush(stdout);
    }
    watch(until);
    printf("result %d %016llx\n", shmem_my_pe(), (unsigned long long)hash_of_all());
    fflush(stdout);
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}
