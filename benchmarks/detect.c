// How long it takes until a death is known: every PE checkpoints a small state in a loop, and says when it hears of a
// fault. detection.py does the killing and subtracts.
#include <shmem.h>
#include <shmem_ft.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long step;

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int argc, char** argv) {
    const long steps = argc > 1 ? atol(argv[1]) : 1000000;
    const struct timespec pause = {.tv_sec = 0, .tv_nsec = 1000000};
    shmem_init();
    if (shmem_ft_algo_init()) {
        step = 0;
    }
    do {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            const long long heard_ns = now_ns();
            int* pes;
            int* status;
            size_t n_pes;
            shmem_query_fault(&pes, &status, &n_pes);
            for (size_t i = 0; i < n_pes; ++i) {
                printf("heard %lld %d %d %d\n", heard_ns, shmem_my_pe(), pes[i], shmem_ft_status_kind(status[i]));
            }
            fflush(stdout);
            shmem_restart_pes(pes, n_pes);
            printf("resumed %lld %d\n", now_ns(), shmem_my_pe());
            fflush(stdout);
            free(pes);
            free(status);
        } else {
            nanosleep(&pause, NULL);
            ++step;
        }
    } while (step < steps);
    shmem_finalize();
    return 0;
}
