/* fork(), system() and popen() in a program must neither disturb its symmetric memory nor end its job.
 *
 * Globals are shared memory that other PEs map. A forked child must nevertheless have a copy of its own, as always
 * after fork: it sees the values of that moment, and its stores stay its own. When a child ends, even through
 * exit() and the exit handlers it inherited, no PE has ended. All of this must hold across a recovery, too. */
#include <sys/wait.h>

#include "apps/app_support.h"

static const char kProgram[] = "forking";

/* Symmetric state. */
static unsigned long step;
static long global_words[2000]; /* more than a page */
static long* heap_words;
static uint64_t hash_of_all[64]; /* on PE 0 */

enum { WORDS = 2000 };

/* In the child. Exit code 0: saw what the parent had, wrote what it liked. */
static int child_body(unsigned long at_step) {
    int wrong = 0;
    for (int i = 0; i < WORDS; i++) {
        wrong += global_words[i] != (long)app_mix3(at_step, (uint64_t)i, 3);
    }
    wrong += step != at_step;
    for (int i = 0; i < WORDS; i++) {
        global_words[i] = -1;
    }
    step = 1000000;
    return wrong == 0 && global_words[WORDS - 1] == -1 ? 0 : 1;
}

static void check_child(pid_t child, const char* what) {
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        app_fail(kProgram, what);
    }
}

static void fork_children(void) {
    fflush(stdout);
    const pid_t quick = fork();
    if (quick == 0) {
        _exit(child_body(step));
    }
    check_child(quick, "a forked child saw or kept wrong globals");
    const pid_t tidy = fork();
    if (tidy == 0) {
        exit(child_body(step)); /* runs the exit handlers, the library's among them */
    }
    check_child(tidy, "a forked child that left through exit() saw or kept wrong globals");
}

static void run_commands(void) {
    if (system("exit 0") != 0) {
        app_fail(kProgram, "system() failed");
    }
    FILE* pipe = popen("echo 4711", "r");
    int number = 0;
    if (pipe == NULL || fscanf(pipe, "%d", &number) != 1 || number != 4711 || pclose(pipe) != 0) {
        app_fail(kProgram, "popen() failed");
    }
}

static void compute_step(void) {
    for (int i = 0; i < WORDS; i++) {
        global_words[i] = (long)app_mix3(step, (uint64_t)i, 3);
    }
    const int right = (shmem_my_pe() + 1) % shmem_n_pes();
    fork_children();
    shmem_long_put(heap_words, global_words, WORDS, right); /* shared memory still works after a fork */
    run_commands();
    for (int i = 0; i < WORDS; i++) {
        if (global_words[i] != (long)app_mix3(step, (uint64_t)i, 3)) {
            app_fail(kProgram, "a child's store reached the parent");
        }
    }
    step++;
}

static void make_report(void) {
    shmem_barrier_all();
    uint64_t hash = app_hash(APP_HASH_START, heap_words, WORDS * sizeof *heap_words);
    hash = app_hash(hash, global_words, sizeof global_words);
    shmem_putmem(&hash_of_all[shmem_my_pe()], &hash, sizeof hash, 0);
}

int main(int argc, char** argv) {
    app_install_exit_signals();
    shmem_init();
    unsigned long steps = 20;
    const AppOption table[] = {
        {.name = "steps", .help = "steps", .number = &steps, .minimum = 1, .maximum = 1000000},
        {.name = NULL},
    };
    AppCommandLine line = app_parse(argc, argv, table);
    app_stop_on_error(kProgram, line.error);
    heap_words = shmem_calloc(WORDS, sizeof *heap_words);

    bool finished = false;
    do {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            app_recover();
        } else if (step < steps) {
            app_leave_if_asked();
            compute_step();
            if (step == steps) {
                make_report();
            }
        } else {
            finished = true;
        }
    } while (!finished);

    if (shmem_my_pe() == 0) {
        printf("result %016llx\n", (unsigned long long)app_hash(APP_HASH_START, hash_of_all, sizeof hash_of_all));
        fflush(stdout);
    }
    shmem_finalize();
    return 0;
}
