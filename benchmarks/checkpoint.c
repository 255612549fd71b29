/* What do a checkpoint and a recovery cost, over the size of the state, and what would the memory allow?
 *
 * Needs N >= 2 PEs, one spare, and 8 times MIB of memory for each PE. For a heap of MIB mebibytes per PE prints, one
 * JSON object a line:
 *
 *   memcpy      a warm copy of the same bytes by all PEs at the same time: the bound for one copy
 *   touch       the first touch of twice the bytes, which is what the first checkpoint touches
 *   first       the first checkpoint: pages of the copies are touched for the first time, if IDLE has not been enough
 *   dirty       a checkpoint of a heap in which every byte has changed (two copies are written)
 *   sparse      1 % of the 4 KiB pages changed since the last checkpoint but one
 *   stores      the stores that change these pages, in PE 0: the first one to a page that is watched costs a fault
 *   clean       nothing changed
 *   room        memory that the state and its copies take, and bytes that went over the loopback interface in one
 *               checkpoint of "dirty": both as multiples of the state. Of the whole machine, so it has to be idle
 *   recovery    PE 1 kills itself; from the survivors' failed checkpoint to the return of shmem_restart_pes
 * Times are those of the slowest PE, in ms; "bound_ms" is the copies' bytes at the memcpy speed of this run, of a first
 * checkpoint without IDLE the touches.
 *
 *   checkpoint MIB [IDLE [changed]]
 *               IDLE: seconds of idle time before the first checkpoint (0)
 *               changed: everything has changed since the last one when PE 1 dies, else nothing
 */
#define _GNU_SOURCE
#include <shmem.h>
#include <shmem_ft.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { REPEATS = 5, PAGE = 4096 };
enum Phase { FIRST, DIRTY, SPARSE = DIRTY + REPEATS + 1, CLEAN = SPARSE + REPEATS + 2, KILL = CLEAN + REPEATS, DONE };

static int phase;                        /* goes back with the data */
static double begin_ms SHMEM_FT_PRIVATE; /* of the last checkpoint; 0 in a substitute */
static double slowest_ms;
static double own_ms;

static double now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static double slowest(double ms) {
    own_ms = ms;
    shmem_barrier_all();
    shmem_double_max_reduce(SHMEM_TEAM_WORLD, &slowest_ms, &own_ms, 1);
    return slowest_ms;
}

static int by_value(const void* a, const void* b) {
    const double difference = *(const double*)a - *(const double*)b;
    return difference < 0 ? -1 : difference > 0;
}

static void report(const char* what, size_t mib, double* samples, int count, double bound_ms) {
    if (shmem_my_pe() == 0) {
        qsort(samples, (size_t)count, sizeof *samples, by_value);
        printf(
            "{\"what\": \"%s\", \"pes\": %d, \"mib\": %zu, \"median_ms\": %.3f, \"least_ms\": %.3f, \"most_ms\": %.3f, "
            "\"bound_ms\": %.3f}\n",
            what, shmem_n_pes(), mib, samples[count / 2], samples[0], samples[count - 1], bound_ms);
        fflush(stdout);
    }
}

/* The number behind `name` in a file of /proc. */
static double number_in(const char* path, const char* name, int column) {
    FILE* const file = fopen(path, "r");
    char line[512];
    double value = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char* at = strstr(line, name);
        if (at == NULL || (at != line && at[-1] != ' ')) {
            continue;
        }
        at += strlen(name);
        for (int i = 0; i <= column; i++) {
            value = strtod(at, &at);
        }
        break;
    }
    if (file != NULL) {
        fclose(file);
    }
    return value;
}

/* Of all PEs: what they have to themselves, and what memory files of the machine hold. */
static double used_bytes(void) {
    own_ms = number_in("/proc/self/smaps_rollup", "Pss_Anon:", 0) * 1024;
    shmem_barrier_all();
    shmem_double_sum_reduce(SHMEM_TEAM_WORLD, &slowest_ms, &own_ms, 1);
    return slowest_ms + number_in("/proc/meminfo", "Shmem:", 0) * 1024;
}

static double looped_bytes(void) {
    shmem_barrier_all();
    return number_in("/proc/net/dev", "lo:", 8);
}

/* used, looped: before anything was saved, and before the last REPEATS checkpoints. */
static void report_room(size_t mib, double used, double looped) {
    const double all = (double)(mib << 20) * shmem_n_pes();
    const double sent = (looped_bytes() - looped) / REPEATS;
    const double taken = used_bytes() - used;
    if (shmem_my_pe() == 0) {
        printf("{\"what\": \"room\", \"pes\": %d, \"mib\": %zu, \"memory_states\": %.2f, \"sent_states\": %.2f}\n",
               shmem_n_pes(), mib, taken / all, sent / all);
        fflush(stdout);
    }
}

static double measure_memcpy(const char* heap, size_t bytes, size_t mib) {
    char* copy = malloc(bytes);
    double samples[REPEATS];
    memset(copy, 1, bytes);
    for (int i = 0; i < REPEATS; i++) {
        shmem_barrier_all();
        const double begin = now_ms();
        memcpy(copy, heap, bytes);
        __asm__ volatile("" : : "r"(copy) : "memory"); /* somebody might read the copy */
        samples[i] = slowest(now_ms() - begin);
    }
    free(copy);
    qsort(samples, REPEATS, sizeof *samples, by_value);
    const double median = samples[REPEATS / 2];
    report("memcpy", mib, samples, REPEATS, median);
    return median;
}

static double touch(size_t bytes) {
    const int file = memfd_create("touch", MFD_CLOEXEC);
    shmem_barrier_all();
    const double begin = now_ms();
    char* memory = ftruncate(file, (off_t)bytes) != 0 ? MAP_FAILED
                                                      : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
        perror("checkpoint: error: memory to be touched");
        shmem_global_exit(2);
    }
    memset(memory, 1, bytes);
    const double ms = slowest(now_ms() - begin);
    munmap(memory, bytes);
    close(file);
    shmem_barrier_all();
    return ms;
}

/* On a virtual machine the machine below has to find the memory first: so all that will be needed is touched before. */
static double measure_touch(size_t bytes, size_t mib) {
    touch(4 * bytes);
    double ms = touch(2 * bytes);
    report("touch", mib, &ms, 1, ms);
    return ms;
}

static void change(char* heap, size_t bytes, enum Phase now) {
    if (now < SPARSE) {
        memset(heap, (int)now + 1, bytes);
    } else if (now < CLEAN) {
        for (size_t page = 0; page < bytes / PAGE; page += 100) {
            heap[page * PAGE] = (char)(now + 1);
        }
    }
}

int main(int argc, char** argv) {
    shmem_init();
    const size_t mib = argc > 1 ? (size_t)atol(argv[1]) : 64;
    const size_t bytes = mib << 20;
    char* const heap = shmem_malloc(bytes);
    if (heap == NULL || shmem_n_pes() < 2) {
        fprintf(stderr, "checkpoint: error: needs at least 2 PEs and SHMEM_SYMMETRIC_SIZE above %zu MiB\n", mib);
        shmem_global_exit(2);
    }
    double samples[DONE];
    double stores[DONE];
    double copy_ms = 0;
    double touch_ms = 0;
    double looped = 0;
    const unsigned idle_s = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
    double used = 0;
    if (shmem_ft_algo_init()) {
        used = used_bytes();
        memset(heap, 1, bytes);
        copy_ms = measure_memcpy(heap, bytes, mib);
        touch_ms = measure_touch(bytes, mib);
        shmem_barrier_all();
        sleep(idle_s);
    }
    if (SHMEM_FT_ROLLBACK_POINT()) {
        shmem_ft_recover();
        double recovery = now_ms() - begin_ms;
        shmem_barrier_all();
        if (begin_ms > 0) { /* a survivor; the substitute copies the state once and folds it once */
            report("recovery", mib, &recovery, 1, 2 * copy_ms);
        }
        phase = DONE;
    }
    while (phase < DONE) {
        if (phase < KILL) {
            const double begin = now_ms();
            change(heap, bytes, (enum Phase)phase);
            stores[phase] = now_ms() - begin;
        }
        shmem_barrier_all();
        begin_ms = now_ms();
        phase++; /* what is committed is the state after this step */
        shmem_checkpoint_all();
        samples[phase - 1] = slowest(now_ms() - begin_ms);
        if (phase == DIRTY) {
            report("first", mib, samples, 1, idle_s > 0 ? 2 * copy_ms : touch_ms);
        } else if (phase == DIRTY + 1) {
            looped = looped_bytes();
        } else if (phase == SPARSE) {
            report("dirty", mib, samples + DIRTY + 1, REPEATS, 2 * copy_ms);
            report_room(mib, used, looped);
        } else if (phase == CLEAN) {
            report("sparse", mib, samples + SPARSE + 2, REPEATS, 0.02 * copy_ms);
            report("stores", mib, stores + SPARSE + 2, REPEATS, 0);
        } else if (phase == KILL) {
            report("clean", mib, samples + CLEAN + 1, REPEATS - 1, 0);
            if (argc > 3 && strcmp(argv[3], "changed") == 0) {
                change(heap, bytes, DIRTY);
                shmem_barrier_all();
                begin_ms = now_ms();
            }
            if (shmem_my_pe() == 1) {
                kill(getpid(), SIGKILL);
            }
        }
    }
    shmem_finalize();
    return 0;
}
