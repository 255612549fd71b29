/* Does the library return with the upper halves of the vector registers in use (upper_halves.h)? Nothing else shows it:
 * results are right, and what is slow is the program's own code.
 *
 * This is a library to preload. It stands in front of every public routine (the wrappers come from the tables of the
 * interface) and asks the processor. It says so in the
 * file of REGISTERS_REPORT, one line each, written at once, so that nothing is lost with a process that is killed:
 *
 *     unusable REASON          this processor does not tell; nothing is looked at
 *     called ROUTINE           the first return from it in this process
 *     dirty behind ROUTINE     it has returned with upper halves in use
 *     dirty before ROUTINE     they were in use when it was called: by the program, or by what the library has called
 *                              or where it has jumped to outside of a routine
 *
 * REGISTERS_OFFENDER=ROUTINE, or `all`, makes a routine leave them in use on purpose: the control of the test.
 * */
#include "tests/registers/observer.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/registers/upper_halves.h"

enum { ROUTINES_MAX = 4096 };
enum { CALLED = 1, BEHIND = 2, BEFORE = 4 };

static atomic_uchar seen[ROUTINES_MAX]; /* what has been said of it in this process */
static bool is_offender[ROUTINES_MAX];
static bool is_on;

/* One write for a line: lines of several processes do not mix. */
static void say(const char* what, const char* name) {
    char line[256];
    const int length = snprintf(line, sizeof line, "%s %s\n", what, name);
    const int file = open(getenv("REGISTERS_REPORT"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || write(file, line, (size_t)length) != length) {
        fprintf(stderr, "observer: error: cannot write to REGISTERS_REPORT\n");
        _exit(99);
    }
    close(file);
}

static void say_once(size_t routine, unsigned char kind, const char* what) {
    if ((atomic_fetch_or(&seen[routine], kind) & kind) == 0) {
        say(what, observed_names[routine]);
        clear_upper_halves(); /* whatever saying it has done to the registers is not the library's */
    }
}

__attribute__((constructor)) static void begin(void) {
    const char* const offender = getenv("REGISTERS_OFFENDER");
    const char* const problem = observed_count > ROUTINES_MAX ? "ROUTINES_MAX is too small" : upper_halves_problem();
    if (getenv("REGISTERS_REPORT") == NULL) {
        return;
    }
    if (problem != NULL) {
        say("unusable", problem);
        return;
    }
    for (size_t i = 0; offender != NULL && i < observed_count; i++) {
        is_offender[i] = strcmp(offender, "all") == 0 || strcmp(offender, observed_names[i]) == 0;
    }
    is_on = true;
}

void observe_call(size_t routine) {
    if (is_on && upper_halves_in_use() != 0) {
        clear_upper_halves();
        say_once(routine, BEFORE, "dirty before");
    }
}

void observe_return(size_t routine) {
    if (!is_on) {
        return;
    }
    if (is_offender[routine]) {
        use_upper_halves();
    }
    if (upper_halves_in_use() != 0) {
        clear_upper_halves();
        say_once(routine, BEHIND, "dirty behind");
    }
    if ((atomic_load_explicit(&seen[routine], memory_order_relaxed) & CALLED) == 0) {
        say_once(routine, CALLED, "called");
    }
}

void* observed_routine(const char* name) {
    void* const routine = dlsym(RTLD_NEXT, name);
    if (routine == NULL) {
        fprintf(stderr, "observer: error: %s\n", dlerror());
        _exit(99);
    }
    return routine;
}
