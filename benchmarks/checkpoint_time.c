/* How much of an unchanged program's time passes inside shmem_checkpoint_all, and how much in its own code? A library
 * to preload, which stands in front of that routine and of the first and last one.
 *
 * Each PE appends a line of JSON to the file CHECKPOINT_TIME_REPORT when it finalizes. The rest is what passes from the
 * end of the first checkpoint to shmem_finalize outside of checkpoints: the same work with and without copies. Seconds
 * of the clock, processor seconds of the thread (which do not count waiting, nor the time that other programs take),
 * and page faults of the thread.
 *
 * CHECKPOINT_TIME_SWEEP_MIB=N: every checkpoint also copies N MiB of memory that nobody needs, within its own time. So
 * a run without copies leaves the caches as a run with copies does: what the program then loses is what any copying
 * costs the next steps. */
#define _GNU_SOURCE /* RUSAGE_THREAD */
#include <fcntl.h>
#include <pshmem.h>
#include <shmem_ft.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    double clock_s, processor_s;
    long faults;
} Sample;

static Sample begin;     /* the end of the first checkpoint */
static Sample inside;    /* sum over all later ones */
static double first_s;   /* how long the first one took */
static long checkpoints; /* the later ones */

static double seconds_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static Sample sample(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (Sample){seconds_of(CLOCK_MONOTONIC), seconds_of(CLOCK_THREAD_CPUTIME_ID), usage.ru_minflt};
}

static Sample difference(Sample a, Sample b) {
    return (Sample){a.clock_s - b.clock_s, a.processor_s - b.processor_s, a.faults - b.faults};
}

static void sweep(void) {
    static char* memory;
    static size_t half;
    if (memory == NULL) {
        const char* const text = getenv("CHECKPOINT_TIME_SWEEP_MIB");
        half = (text != NULL ? strtoul(text, NULL, 10) : 0) << 19;
        memory = calloc(2, half + 1);
    }
    if (memory != NULL && half > 0) {
        memory[0]++;
        memcpy(memory + half, memory, half);
    }
}

int shmem_checkpoint_all(void) {
    const Sample before = sample();
    const int result = pshmem_checkpoint_all();
    sweep();
    const Sample behind = sample();
    const Sample took = difference(behind, before);
    if (begin.clock_s == 0) {
        begin = behind;
        first_s = took.clock_s;
    } else {
        inside.clock_s += took.clock_s;
        inside.processor_s += took.processor_s;
        inside.faults += took.faults;
        checkpoints++;
    }
    return result;
}

void shmem_finalize(void) {
    const Sample rest = difference(difference(sample(), begin), inside);
    const char* const name = getenv("CHECKPOINT_TIME_REPORT");
    const int file = name != NULL ? open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (file >= 0 && begin.clock_s != 0) {
        dprintf(file,
                "{\"pe\": %d, \"rest_s\": %.6f, \"rest_processor_s\": %.6f, \"rest_faults\": %ld, \"first_s\": %.6f, "
                "\"checkpoints_s\": %.6f, \"checkpoints\": %ld}\n",
                pshmem_my_pe(), rest.clock_s, rest.processor_s, rest.faults, first_s, inside.clock_s, checkpoints);
        close(file);
    }
    pshmem_finalize();
}
