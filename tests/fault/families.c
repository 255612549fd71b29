/* Deaths in every family of calls, several in one job, each at a moment of its own.
 *
 *     families --modes NAME,NAME,... [--how kill|none] [--first PE] [--inside] [--action return|call|jump] [--list]
 *
 * Each step runs one mode (family_modes.c). While the others are in its call, or call it again and again, a PE dies,
 * which one depends on --first and the mode: in front of the call, or with --inside in the middle of its own calls. The
 * others must come back from their calls soon, which is measured, repair the damage, and reach the results of a run in
 * which nobody dies. The substitute has created none of the teams and contexts that it uses then. */
#include "tests/fault/families.h"

static const char kProgram[] = "families";

enum { MODES_MAX = 96, DELAY_MS = 40, NO_STEP = -1 };

/* Symmetric state. */
static unsigned long step;
static uint64_t sums[MODES_MAX];
static long arrived;     /* how many are past the barrier in front of the step */
static int64_t death_ns; /* when the victim of the step dies, as it has told before */

/* What this process has seen. */
static const char* called_for SHMEM_FT_PRIVATE = NULL; /* the first routine the handler was called for */

typedef struct {
    const Mode* modes[MODES_MAX];
    unsigned long n_modes;
    unsigned long first;
    bool kills;
    bool is_inside;
    const char* action;
} Plan;

bool was_called(void) { return called_for != NULL; }

void wrong(const char* what) { app_fail(kProgram, what); }

static void on_fault(const char* routine, void* ignored) {
    (void)ignored;
    if (called_for == NULL) {
        called_for = routine;
    }
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* SIGKILL from the kernel at that time, wherever the process is then. */
static void die_at(int64_t at_ns) {
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGKILL;
    timer_t timer;
    const struct itimerspec when = {.it_value = {at_ns / 1000000000, at_ns % 1000000000}};
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, TIMER_ABSTIME, &when, NULL) != 0) {
        wrong("no timer");
    }
}

/* Does not return, unless the mode wants the victim to die in its own call. */
static void begin_to_die(const Mode* mode, const Local* local, bool is_inside) {
    shmem_long_wait_until(&arrived, SHMEM_CMP_EQ, local->n_pes - 1);
    if ((mode->flags & MODE_HOLDS_LOCK) != 0) {
        take_lock();
        is_inside = false;
    }
    const int64_t at_ns = now_ns() + (int64_t)DELAY_MS * 1000000;
    for (int pe = 0; pe < local->n_pes; pe++) {
        shmem_putmem(&death_ns, &at_ns, sizeof at_ns, pe);
    }
    shmem_quiet(); /* who dies does not deliver any more */
    die_at(at_ns);
    while (!is_inside && (mode->flags & MODE_INSIDE) == 0) {
        pause();
    }
}

/* When the victim has ended is for oshrun to say: that may be long after the signal on a busy machine. */
static void tell_return(const Mode* mode, int me) {
    fprintf(stderr, "returned %s %d %lld %s\n", mode->name, me, (long long)now_ns(),
            called_for != NULL ? called_for : "-");
}

/* The call of the step until it meets the death, or once if there is none to wait for. */
static void run_mode(const Plan* plan, const Mode* mode, Local* local) {
    int told = 0;
    do {
        local->turn++;
        told = mode->run(local);
        if (told != 0 && !fault_seen()) {
            wrong("a call tells of a fault that is not there");
        }
    } while (local->awaits_death && !fault_seen());
    if (local->awaits_death) {
        tell_return(mode, local->me);
        if ((mode->flags & MODE_TELLS) != 0 && told == 0 && !plan->is_inside) {
            wrong("the call does not tell of the fault");
        }
        const bool was_named = called_for != NULL && mode->routine != NULL && !plan->is_inside;
        if (was_named && strcmp(called_for, mode->routine) != 0) {
            wrong("the handler was called for another routine");
        }
    }
}

static void compute_step(const Plan* plan, long safe_step) {
    const Mode* const mode = plan->modes[step];
    Local local = {.me = shmem_my_pe(), .n_pes = shmem_n_pes()};
    local.victim = ((int)plan->first + mode_number(mode)) % local.n_pes;
    local.awaits_death = plan->kills && (long)step != safe_step;
    fill(mode);
    arrived = 0;
    shmem_barrier_all();
    if (local.awaits_death && local.me == local.victim) {
        begin_to_die(mode, &local, plan->is_inside);
    } else {
        shmem_long_atomic_inc(&arrived, local.victim);
    }
    run_mode(plan, mode, &local);
    shmem_barrier_all();
    sums[step] = hash_of_results();
    step++;
}

static void recover(void) {
    app_recover();
    called_for = NULL;
}

static void run(const Plan* plan) {
    volatile long safe_step = NO_STEP; /* the one that has had its death */
    if (SHMEM_FT_ROLLBACK_POINT()) {
        if (step < plan->n_modes && death_ns != 0) {
            tell_return(plan->modes[step], shmem_my_pe());
        }
        recover();
        safe_step = (long)step;
    }
    bool finished = false;
    do {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            recover();
            safe_step = (long)step;
        } else if (step < plan->n_modes) {
            compute_step(plan, safe_step);
        } else {
            finished = true;
        }
    } while (!finished);
}

static void choose(const char* action, char* error) {
    int chosen = SHMEM_FT_ON_FAULT_RETURN;
    if (strcmp(action, "call") == 0) {
        chosen = SHMEM_FT_ON_FAULT_CALL;
    } else if (strcmp(action, "jump") == 0) {
        chosen = SHMEM_FT_ON_FAULT_JUMP;
    } else if (strcmp(action, "return") != 0) {
        snprintf(error, APP_ERROR_LENGTH, "--action %.40s: expected return, call or jump", action);
    }
    shmem_ft_on_fault(chosen, on_fault, NULL);
}

static void read_modes(Plan* plan, const char* names, char* error) {
    char name[40];
    for (const char* at = names; *at != '\0' && plan->n_modes < MODES_MAX; at += *at == ',') {
        const size_t length = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        at += length;
        plan->modes[plan->n_modes] = mode_named(name);
        if (plan->modes[plan->n_modes++] == NULL) {
            snprintf(error, APP_ERROR_LENGTH, "--modes: there is no mode %s", name);
        }
    }
}

int main(int argc, char** argv) {
    shmem_init();
    Plan plan = {.first = 1, .action = "return"};
    const char *modes = "barrier_all", *how = "kill";
    bool is_list = false;
    const AppOption table[] = {
        {.name = "modes", .help = "names with commas between", .text = &modes},
        {.name = "how", .help = "kill or none", .text = &how},
        {.name = "first",
         .help = "PE that dies in the first mode of the list",
         .number = &plan.first,
         .maximum = PES_MAX - 1},
        {.name = "inside", .help = "die in the middle of the calls", .flag = &plan.is_inside},
        {.name = "action", .help = "return, call or jump", .text = &plan.action},
        {.name = "list", .help = "print the modes", .flag = &is_list},
        {.name = NULL},
    };
    AppCommandLine line = app_parse(argc, argv, table);
    if (is_list) {
        print_modes();
        shmem_finalize();
        return 0;
    }
    plan.kills = strcmp(how, "none") != 0;
    choose(plan.action, line.error);
    read_modes(&plan, modes, line.error);
    if (shmem_n_pes() > PES_MAX || shmem_n_pes() < 2) {
        snprintf(line.error, sizeof line.error, "%d PEs: 2 to %d are right", shmem_n_pes(), (int)PES_MAX);
    }
    app_stop_on_error(kProgram, line.error);
    if (shmem_ft_algo_init()) {
        create_handles();
    }
    run(&plan);
    for (unsigned long i = 0; i < plan.n_modes; i++) {
        printf("result %s %d %016llx\n", plan.modes[i]->name, shmem_my_pe(), (unsigned long long)sums[i]);
    }
    fflush(stdout);
    shmem_finalize();
    return 0;
}
