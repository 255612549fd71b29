/* The size of the symmetric heap. Argument: a number of bytes that must fit in it; twice that must not. */
#include "tests/conformance/check.h"

int main(int argc, char** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s BYTES\n", argv[0]);
        return 2;
    }
    const size_t bytes = strtoull(argv[1], NULL, 10);
    shmem_init();
    unsigned char* const block = shmem_malloc(bytes);
    CHECK_FOR(heap, block != NULL);
    memset(block, 1, bytes);
    const unsigned char last = block[bytes - 1];
    shmem_putmem(block, &last, 1, (shmem_my_pe() + 1) % shmem_n_pes());
    shmem_free(block);
    CHECK_FOR(heap, shmem_malloc(2 * bytes) == NULL);
    shmem_finalize();
    return 0;
}
