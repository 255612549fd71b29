/* What the kernels share. They are plain OpenSHMEM programs for any library of version 1.4 (teams: 1.5) or later. Only
 * with FAULT_TOLERANT defined are they programs of this library that survive the death of their PEs; every line that
 * this takes stands between `#ifdef FAULT_TOLERANT` and `#endif`.
 *
 * State that a checkpoint has to save lies in symmetric memory: the heap and the globals. The plain programs keep it
 * there for the other PEs to reach, the fault-tolerant ones so that it comes back. */
#ifndef APPS_KERNELS_KERNEL_H
#define APPS_KERNELS_KERNEL_H

#include "apps/app_common.h"

#ifdef FAULT_TOLERANT
#include "apps/app_support.h"
#endif

/* What the verification has found. */
typedef struct {
    uint64_t digest; /* of the result; does not depend on the number of PEs */
    uint64_t errors; /* places where the result is wrong */
} KernelVerdict;

/* How n things are divided: whoever has index `part` has those from first to first + count. The first ones get one
 * more if there is a remainder. */
static inline size_t kernel_first(size_t n, size_t parts, size_t part) {
    const size_t longer = n % parts;
    return part * (n / parts) + (part < longer ? part : longer);
}

static inline size_t kernel_count(size_t n, size_t parts, size_t part) {
    return kernel_first(n, parts, part + 1) - kernel_first(n, parts, part);
}

/* Which part thing `index` belongs to. */
static inline size_t kernel_part_of(size_t n, size_t parts, size_t index) {
    const size_t shorter = n / parts, longer = n % parts, in_longer = longer * (shorter + 1);
    return index < in_longer ? index / (shorter + 1) : longer + (index - in_longer) / shorter;
}

/* Seconds of a clock that all processes of a node share, so that a substitute can go on with what the PE before it
 * has read. */
static inline double kernel_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Collective, the same size on every PE. */
static inline void *kernel_allocate(const char *program, size_t bytes) {
    void *memory = shmem_malloc(bytes == 0 ? 1 : bytes);
    if (memory == NULL) {
        char error[APP_ERROR_LENGTH];
        snprintf(error, sizeof error, "no symmetric memory for %zu bytes: raise SHMEM_SYMMETRIC_SIZE", bytes);
        app_stop_on_error(program, error);
    }
    return memory;
}

/* Collective: adds up what all PEs have found, on every PE. REQUIRES: mine is symmetric. */
static inline void kernel_gather(KernelVerdict *mine) {
    KernelVerdict all = {0, 0};
    shmem_barrier_all(); /* everybody's verdict is there */
    for (int pe = 0; pe < shmem_n_pes(); pe++) {
        KernelVerdict theirs = {0, 0};
        shmem_getmem(&theirs, mine, sizeof theirs, pe);
        all.digest += theirs.digest;
        all.errors += theirs.errors;
    }
    shmem_barrier_all(); /* everybody has read them */
    *mine = all;
}

/* PE 0 prints what has come out, after what the kernel itself has to say. Returns the exit code. */
static inline int kernel_report(const char *program, const KernelVerdict *verdict) {
    if (shmem_my_pe() == 0) {
        printf("result %s %016llx errors %llu\n", program, (unsigned long long)verdict->digest,
               (unsigned long long)verdict->errors);
        fflush(stdout);
        if (verdict->errors != 0) {
            fprintf(stderr, "%s: error: the result is wrong in %llu places\n", program,
                    (unsigned long long)verdict->errors);
        }
    }
    return verdict->errors == 0 ? 0 : 1;
}

/* Ends the program of somebody who asked for help or gave a wrong option; else does nothing. Collective. */
static inline void kernel_end_unless_runnable(const char *program, const AppCommandLine *line) {
    app_stop_on_error(program, line->error);
    if (line->help) {
        shmem_finalize();
        exit(0);
    }
}

#endif
