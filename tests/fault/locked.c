/* mlockall in front of shmem_init: every page of the heap is put into memory there. */
#include <shmem.h>
#include <stdio.h>
#include <sys/mman.h>

int main(void) {
    if (mlockall(MCL_FUTURE) != 0) {
        perror("mlockall");
        return 1;
    }
    shmem_init();
    printf("result %d\n", shmem_my_pe());
    fflush(stdout);
    shmem_finalize();
    return 0;
}
