/* MPI and OpenSHMEM side by side, initialised in either order. With "die", PE 1 dies while the others wait in MPI. */
#include <mpi.h>
#include <shmem.h>
#include <shmem_ft.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static long cell;

int main(int argc, char** argv) {
    const int mpi_first = argc > 1 && strcmp(argv[1], "mpi-first") == 0;
    const int dies = argc > 2 && strcmp(argv[2], "die") == 0;
    if (mpi_first) {
        MPI_Init(&argc, &argv);
    }
    shmem_init();
    if (!mpi_first) {
        MPI_Init(&argc, &argv);
    }
    int rank = -1, size = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int me = shmem_my_pe(), n_pes = shmem_n_pes();
    long sum = 0;
    for (int round = 1; round <= 20; round++) {
        shmem_long_p(&cell, sum % 1000 + round * (me + 1), (me + 1) % n_pes);
        shmem_barrier_all();
        MPI_Allreduce(&cell, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        if (dies && round == 10 && shmem_checkpoint_all() == SHMEM_FT_SUCCESS && me == 1) {
            raise(SIGKILL);
        }
    }
    printf("result rank %d of %d, PE %d of %d: %ld\n", rank, size, me, n_pes, sum);
    fflush(stdout);
    if (mpi_first) {
        shmem_finalize();
        MPI_Finalize();
    } else {
        MPI_Finalize();
        shmem_finalize();
    }
    return 0;
}
