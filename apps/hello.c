/* The first program of the README: a rod whose ends are kept hot and cold, computed until nothing changes any more, in
 * a job that survives the death of any of its PEs. */
#include <math.h>
#include <shmem.h>
#include <shmem_ft.h>
#include <stdio.h>

enum { CELLS = 5 };
/* Globals are symmetric memory: other PEs reach them, checkpoints save them. */
double heat[CELLS + 2]; /* a part of the rod, and at each end a cell of the neighbour */
double change = 1, local_change;
long sweeps;

void sweep(int me, int n) {
    if (me > 0) shmem_double_p(&heat[CELLS + 1], heat[1], me - 1);
    if (me < n - 1) shmem_double_p(&heat[0], heat[CELLS], me + 1);
    shmem_barrier_all(); /* the neighbours' cells have come */
    local_change = 0;
    for (int i = 1; i <= CELLS; i++) {
        double before = heat[i];
        heat[i] = (heat[i - 1] + heat[i + 1]) / 2;
        if (fabs(heat[i] - before) > local_change) local_change = fabs(heat[i] - before);
    }
    shmem_double_max_reduce(SHMEM_TEAM_WORLD, &change, &local_change, 1);
    sweeps++;
}

int main(void) {
    shmem_init(); /* spares sleep in here until they are needed */
    int me = shmem_my_pe(), n = shmem_n_pes();
    if (me == 0) heat[0] = 100;
    if (SHMEM_FT_ROLLBACK_POINT()) { /* a PE has died: every call that misses it comes back here */
        shmem_ft_recover();          /* a spare takes its place, and everybody goes back to the last checkpoint */
    }
    while (change > 1e-9) { /* decided by what goes back as well */
        shmem_checkpoint_all();
        sweep(me, n);
    }
    shmem_checkpoint_all(); /* what is printed is safe, too */
    printf("PE %d of %d: %ld sweeps, %.6f to %.6f degrees\n", me, n, sweeps, heat[1], heat[CELLS]);
    shmem_finalize();
    return 0;
}
