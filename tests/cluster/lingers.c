// PEs that have work of their own behind shmem_finalize: each waits for SIGUSR1 there, and then ends as it says.
#include <shmem.h>
#include <signal.h>
#include <stdio.h>

int main(void) {
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGUSR1);
    sigprocmask(SIG_BLOCK, &wanted, NULL);
    shmem_init();
    const int me = shmem_my_pe();
    shmem_barrier_all();
    shmem_finalize();
    printf("finalized %d\n", me);
    fflush(stdout);
    int number = 0;
    sigwait(&wanted, &number);
    return 0;
}
