/* The profiling interface: a program that redefines some of the routines and calls the real ones by their other name.
 * Both ways of linking must let its definitions win, and nothing of the library may go through them. */
#include <pshmem.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static int barriers, puts_seen, adds, levels;

void shmem_barrier_all(void) {
    barriers++;
    pshmem_barrier_all();
}

void shmem_long_put(long* dest, const long* source, size_t nelems, int pe) {
    puts_seen++;
    pshmem_long_put(dest, source, nelems, pe);
}

void shmem_ctx_int_atomic_add(shmem_ctx_t ctx, int* dest, int value, int pe) {
    adds++;
    pshmem_ctx_int_atomic_add(ctx, dest, value, pe);
}

void shmem_pcontrol(int level, ...) {
    levels += level;
    pshmem_pcontrol(level);
}

static void fail(int line) {
    fprintf(stderr, "PE %d: %s:%d: an interposed routine was not called as expected\n", pshmem_my_pe(), __FILE__, line);
    pshmem_global_exit(1);
}

int main(void) {
    static long cell;
    static int counter;
    shmem_init();
    const int me = shmem_my_pe(), npes = shmem_n_pes(), right = (me + 1) % npes;
    const long value = me + 1;
    if (barriers != 0) {
        fail(__LINE__);
    }
    shmem_barrier_all();
    void* const block = shmem_malloc(8);
    shmem_free(block);
    if (barriers != 1) { /* the barriers inside the heap routines are not ours */
        fail(__LINE__);
    }
    shmem_long_put(&cell, &value, 1, right);
    shmem_long_put_nbi(&cell, &value, 1, right);
    shmem_ctx_int_atomic_add(SHMEM_CTX_DEFAULT, &counter, 5, right);
    pshmem_ctx_int_atomic_add(SHMEM_CTX_DEFAULT, &counter, 5, right);
    shmem_barrier_all();
    if (puts_seen != 1 || adds != 1 || barriers != 2 || cell != (me + npes - 1) % npes + 1 || counter != 10) {
        fail(__LINE__);
    }
    shmem_pcontrol(2);
    if (levels != 2) {
        fail(__LINE__);
    }
    p_my_pe();
    if (p_num_pes() != npes) {
        fail(__LINE__);
    }
    shmem_finalize();
    if (barriers != 2) {
        fprintf(stderr, "shmem_finalize called shmem_barrier_all of the program\n");
        return 1;
    }
    return 0;
}
