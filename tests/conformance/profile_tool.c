/* A profiling tool, as a library of its own: it redefines routines of every family, counts their calls and calls the
 * real ones by their profiling names. What it has counted is printed when the program finalizes, one line for each PE.
 * The level that shmem_pcontrol sets switches the counting on (1) and off (0). */
#include <pshmem.h>
#include <stdio.h>

static int level = 1;
static unsigned long puts_seen, gets_seen, atomics, barriers, collectives, waits, allocations, signals, locks, fences;
static unsigned long bytes_put;

static void count(unsigned long* counter) { *counter += level > 0; }

void shmem_init(void) { pshmem_init(); }

void shmem_finalize(void) {
    char line[256];
    snprintf(line, sizeof line,
             "tool: PE %d: puts %lu of %lu bytes, gets %lu, atomics %lu, barriers %lu, collectives %lu, waits %lu, "
             "allocations %lu, signals %lu, locks %lu, fences %lu\n",
             pshmem_my_pe(), puts_seen, bytes_put, gets_seen, atomics, barriers, collectives, waits, allocations,
             signals, locks, fences);
    pshmem_finalize();
    fputs(line, stdout);
}

void shmem_pcontrol(int new_level, ...) { level = new_level; }

void shmem_long_put(long* dest, const long* source, size_t nelems, int pe) {
    count(&puts_seen);
    bytes_put += level > 0 ? nelems * sizeof *dest : 0;
    pshmem_long_put(dest, source, nelems, pe);
}

void shmem_ctx_double_put_nbi(shmem_ctx_t ctx, double* dest, const double* source, size_t nelems, int pe) {
    count(&puts_seen);
    bytes_put += level > 0 ? nelems * sizeof *dest : 0;
    pshmem_ctx_double_put_nbi(ctx, dest, source, nelems, pe);
}

long shmem_long_g(const long* source, int pe) {
    count(&gets_seen);
    return pshmem_long_g(source, pe);
}

void shmem_getmem(void* dest, const void* source, size_t nelems, int pe) {
    count(&gets_seen);
    pshmem_getmem(dest, source, nelems, pe);
}

long shmem_long_atomic_fetch_add(long* dest, long value, int pe) {
    count(&atomics);
    return pshmem_long_atomic_fetch_add(dest, value, pe);
}

void shmem_barrier_all(void) {
    count(&barriers);
    pshmem_barrier_all();
}

void shmem_sync_all(void) {
    count(&barriers);
    pshmem_sync_all();
}

int shmem_team_sync(shmem_team_t team) {
    count(&barriers);
    return pshmem_team_sync(team);
}

int shmem_long_sum_reduce(shmem_team_t team, long* dest, const long* source, size_t nreduce) {
    count(&collectives);
    return pshmem_long_sum_reduce(team, dest, source, nreduce);
}

int shmem_broadcastmem(shmem_team_t team, void* dest, const void* source, size_t nelems, int PE_root) {
    count(&collectives);
    return pshmem_broadcastmem(team, dest, source, nelems, PE_root);
}

void shmem_long_wait_until(long* ivar, int cmp, long cmp_value) {
    count(&waits);
    pshmem_long_wait_until(ivar, cmp, cmp_value);
}

void* shmem_malloc(size_t size) {
    count(&allocations);
    return pshmem_malloc(size);
}

void shmem_free(void* ptr) {
    count(&allocations);
    pshmem_free(ptr);
}

#undef shmem_signal_add /* the C11 macro of the same name */
void shmem_signal_add(uint64_t* sig_addr, uint64_t signal, int pe) {
    count(&signals);
    pshmem_signal_add(sig_addr, signal, pe);
}

void shmem_set_lock(long* lock) {
    count(&locks);
    pshmem_set_lock(lock);
}

void shmem_fence(void) {
    count(&fences);
    pshmem_fence();
}

void shmem_quiet(void) {
    count(&fences);
    pshmem_quiet();
}
