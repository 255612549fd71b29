/* A call outside init and finalize must end the process with a line that names the routine. The argument says which
 * one to call, and whether before or after. */
#include <shmem.h>
#include <stdio.h>
#include <string.h>

static long cell;

int main(int argc, char** argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: %s before|after put|malloc|barrier|my_pe|lock|context\n", argv[0]);
        return 2;
    }
    if (strcmp(argv[1], "after") == 0) {
        shmem_init();
        shmem_finalize();
    }
    if (strcmp(argv[2], "put") == 0) {
        shmem_long_p(&cell, 1, 0);
    } else if (strcmp(argv[2], "malloc") == 0) {
        shmem_malloc(8);
    } else if (strcmp(argv[2], "barrier") == 0) {
        shmem_barrier_all();
    } else if (strcmp(argv[2], "my_pe") == 0) {
        shmem_my_pe();
    } else if (strcmp(argv[2], "lock") == 0) {
        shmem_set_lock(&cell);
    } else {
        shmem_ctx_t ctx;
        shmem_ctx_create(0, &ctx);
    }
    return 0;
}
