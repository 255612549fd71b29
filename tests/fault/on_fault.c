/* Every action of shmem_ft_on_fault, in a program that checks each number it gets from another PE at once.
 *
 *     on_fault --action return|call|jump|abort|none [--kill MODE] [--steps N] [--pace MS] [--unreplaced abort|wait]
 *
 * With jump no wrong number is ever seen, whatever dies and whenever; with return there is one as soon as a PE dies in
 * the wrong moment, which --tolerant allows. --kill MODE lets PE 1 die in step 3 while the others are inside that call;
 * `none` chooses nothing, so that SHMEM_FT_ON_FAULT counts. */
#include "apps/app_support.h"

static const char kProgram[] = "on_fault";

enum { FATAL_STEP = 3, DELAY_MS = 100, VICTIM = 1, PES_MAX = 16 };

/* Symmetric state. */
static unsigned long step;
static long received[2]; /* by the parity of the step */
static long terms, total;
static uint64_t sum;
static uint64_t sums[PES_MAX]; /* on PE 0 */

typedef struct {
    unsigned long steps;
    unsigned long pace_ms;
    bool is_tolerant;
    const char* kill;
} Options;

static int handler_calls SHMEM_FT_PRIVATE;
static const char* handler_routine SHMEM_FT_PRIVATE;

static void on_fault(const char* routine, void* context) {
    ++*(int*)context;
    handler_routine = routine;
    shmem_barrier_all(); /* meets the fault as well, and does not call this function */
}

/* On a thread of the library, of the process that leads. */
static int on_unreplaced(int reason, const int* pes, size_t numpes, void* context) {
    fprintf(stderr, "handler: %s, %zu PEs, first %d\n", reason == SHMEM_FT_NO_SPARE ? "no spare" : "data lost", numpes,
            numpes == 0 ? -1 : pes[0]);
    return *(int*)context;
}

static int unreplaced_answer SHMEM_FT_PRIVATE;

static void choose_unreplaced(const char* answer) {
    unreplaced_answer = strcmp(answer, "wait") == 0 ? SHMEM_FT_UNREPLACED_WAIT : SHMEM_FT_UNREPLACED_ABORT;
    if (shmem_ft_on_unreplaced(on_unreplaced, &unreplaced_answer) != 0) {
        app_fail(kProgram, "shmem_ft_on_unreplaced failed");
    }
}

static void choose(const char* action) {
    static const char* const kNames[] = {"return", "call", "jump", "abort"};
    if (shmem_ft_on_fault(7, NULL, NULL) == 0 || shmem_ft_on_fault(SHMEM_FT_ON_FAULT_CALL, NULL, NULL) == 0) {
        app_fail(kProgram, "shmem_ft_on_fault accepts nonsense");
    }
    for (int i = 0; i < 4; i++) {
        if (strcmp(action, kNames[i]) == 0 && shmem_ft_on_fault(i, on_fault, &handler_calls) != 0) {
            app_fail(kProgram, "shmem_ft_on_fault does not accept an action");
        }
    }
}

static long number_of(unsigned long at, int pe) { return (long)(app_mix3(at, (uint64_t)pe, 7) >> 20); }

/* Lets the victim die where it alone is missing. */
static void die_here(const char* mode, const Options* options, int is_substitute) {
    if (options->kill != NULL && strcmp(mode, options->kill) == 0 && step == FATAL_STEP && !is_substitute &&
        shmem_my_pe() == VICTIM) {
        app_sleep_ms(DELAY_MS);
        raise(SIGKILL);
    }
}

static void compute_step(const Options* options, int is_substitute) {
    const int me = shmem_my_pe(), n_pes = shmem_n_pes();
    const int left = (me + n_pes - 1) % n_pes;
    long* const place = &received[step % 2];
    die_here("wait_until", options, is_substitute);
    shmem_long_p(place, number_of(step, me), (me + 1) % n_pes);
    shmem_long_wait_until(place, SHMEM_CMP_NE, 0);
    const bool is_first_right = *place == number_of(step, left);
    terms = *place;
    die_here("reduce", options, is_substitute);
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &total, &terms, 1);
    long expected = 0;
    for (int pe = 0; pe < n_pes; pe++) {
        expected += number_of(step, pe);
    }
    if (!options->is_tolerant && (!is_first_right || total != expected)) {
        app_fail(kProgram, "computes with a wrong number");
    }
    sum = app_hash_number(app_hash_number(sum, (uint64_t)total), (uint64_t)*place);
    *place = 0;
    app_sleep_ms(options->pace_ms);
    die_here("barrier_all", options, is_substitute);
    shmem_barrier_all();
    step++;
    if (step == options->steps) {
        shmem_putmem(&sums[me], &sum, sizeof sum, 0);
    }
}

int main(int argc, char** argv) {
    app_install_exit_signals();
    shmem_init();
    Options options = {.steps = 8};
    const char* action = "none";
    const char* unreplaced = NULL;
    const AppOption table[] = {
        {.name = "action", .help = "return, call, jump, abort or none", .text = &action},
        {.name = "unreplaced", .help = "what the handler answers: abort or wait", .text = &unreplaced},
        {.name = "kill", .help = "in which call", .text = &options.kill},
        {.name = "steps", .help = "steps", .number = &options.steps, .minimum = 1, .maximum = 1000000},
        {.name = "pace", .help = "milliseconds to idle per step", .number = &options.pace_ms, .maximum = 1000},
        {.name = "tolerant", .help = "do not look at the numbers", .flag = &options.is_tolerant},
        {.name = NULL},
    };
    const AppCommandLine line = app_parse(argc, argv, table);
    app_stop_on_error(kProgram, line.error);
    choose(action);
    if (unreplaced != NULL) {
        choose_unreplaced(unreplaced);
    }
    const int is_substitute = !shmem_ft_algo_init();

    if (SHMEM_FT_ROLLBACK_POINT()) {
        app_recover();
    }
    /* With a jump everybody comes here again; without one only a substitute does, alone, so it must not have joined. */
    shmem_barrier_all();
    bool finished = false;
    do {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            app_recover();
        } else if (step < options.steps) {
            app_leave_if_asked();
            compute_step(&options, is_substitute);
        } else {
            finished = true;
        }
    } while (!finished);

    if (handler_calls != 0) {
        printf("PE %d: handler called %d times, last for %s\n", shmem_my_pe(), handler_calls, handler_routine);
    }
    if (shmem_my_pe() == 0) {
        printf("result %016llx\n", (unsigned long long)app_hash(APP_HASH_START, sums, sizeof sums));
        fflush(stdout);
    }
    shmem_finalize();
    return 0;
}
