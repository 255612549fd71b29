/* shmem_global_exit(STATUS) from PE WHO ends everybody, whatever the others are doing. Arguments: WHO STATUS WHERE. In
 * "all" every PE calls it, with STATUS + its number; in "threads" several threads of WHO do, while its main thread
 * takes a checkpoint, and its exit handlers are run to their end, once. */
#include <pthread.h>
#include <shmem.h>
#include <shmem_ft.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static long flag, dest, source;
static uint64_t signal_word;

/* Long enough for the others to be where they are to be found. */
static void compute_a_while(void) {
    struct timespec now, end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += 30000000;
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - end.tv_sec) * 1000000000L + now.tv_nsec - end.tv_nsec < 0);
}

static void say_slowly(void) {
    compute_a_while();
    printf("exit handlers are run\n");
}

static void* exit_from_thread(void* status) {
    compute_a_while();
    shmem_global_exit(*(int*)status);
}

static void exit_from_threads(int status) {
    pthread_t threads[4];
    atexit(say_slowly);
    for (int i = 0; i < 4; i++) {
        pthread_create(&threads[i], NULL, exit_from_thread, &status);
    }
    shmem_checkpoint_all();
    fprintf(stderr, "PE %d went on after its own shmem_global_exit\n", shmem_my_pe());
}

int main(int argc, char** argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: %s WHO STATUS barrier|wait|signal|compute|lock|reduce|heap|finalize|all|threads\n",
                argv[0]);
        return 2;
    }
    shmem_init();
    static long lock;
    const int who = atoi(argv[1]) % shmem_n_pes();
    if (shmem_my_pe() == who && strcmp(argv[3], "lock") == 0) {
        shmem_set_lock(&lock);
    }
    shmem_barrier_all();
    if (strcmp(argv[3], "all") == 0) {
        printf("buffered output is flushed");
        shmem_global_exit(atoi(argv[2]) + shmem_my_pe());
    }
    if (shmem_my_pe() == who && strcmp(argv[3], "threads") == 0) {
        exit_from_threads(atoi(argv[2]));
    }
    if (shmem_my_pe() == who) {
        compute_a_while();
        printf("buffered output is flushed"); /* no newline: the driver looks for it */
        shmem_global_exit(atoi(argv[2]));
    }
    if (strcmp(argv[3], "barrier") == 0 || strcmp(argv[3], "threads") == 0) {
        shmem_barrier_all();
    } else if (strcmp(argv[3], "wait") == 0) {
        shmem_long_wait_until(&flag, SHMEM_CMP_NE, 0);
    } else if (strcmp(argv[3], "signal") == 0) {
        shmem_signal_wait_until(&signal_word, SHMEM_CMP_NE, 0);
    } else if (strcmp(argv[3], "lock") == 0) {
        shmem_set_lock(&lock);
    } else if (strcmp(argv[3], "reduce") == 0) {
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &dest, &source, 1);
    } else if (strcmp(argv[3], "heap") == 0) {
        shmem_malloc(100);
    } else if (strcmp(argv[3], "finalize") == 0) {
        shmem_finalize();
    } else {
        for (volatile unsigned long i = 0;; i++) {
        }
    }
    fprintf(stderr, "PE %d went on after shmem_global_exit of PE %d\n", shmem_my_pe(), who);
    return 3;
}
