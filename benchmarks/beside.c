/* What a program would do otherwise to keep its state: an MPI program without this library (beside.py compiles it).
 *
 * Every process has MIB mebibytes, all of which change before each save. Prints one JSON object a line, times of the
 * slowest process in ms:
 *
 *   memcpy      a warm copy of the same bytes by all processes at the same time
 *   dev_shm     written to a file in /dev/shm, which takes the place of the one before when it is complete
 *   sendrecv    exchanged with a partner, into one of two buffers in turn
 *   mpi_file    written by MPI_File_write_at_all to one file of all processes in DIRECTORY, not synchronised to the
 * disk
 *
 *   beside MIB DIRECTORY
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REPEATS = 7, WARM = 2 };

static int rank;
static int size;
static size_t bytes;
static char* state;
static char* copies[2];
static const char* directory;

static void fail(const char* what) {
    perror(what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void copy(int turn) { memcpy(copies[turn % 2], state, bytes); }

static void write_to_dev_shm(int turn) {
    (void)turn;
    char name[64];
    char next[sizeof name + 8];
    snprintf(name, sizeof name, "/dev/shm/beside-%ld-%d", (long)getppid(), rank);
    snprintf(next, sizeof next, "%s.next", name);
    FILE* const file = fopen(next, "wb");
    if (file == NULL || setvbuf(file, NULL, _IONBF, 0) != 0 || fwrite(state, 1, bytes, file) != bytes ||
        fclose(file) != 0 || rename(next, name) != 0) {
        fail(next);
    }
}

static void exchange(int turn) {
    const int partner = (rank ^ 1) < size ? rank ^ 1 : rank;
    MPI_Sendrecv(state, (int)bytes, MPI_BYTE, partner, 0, copies[turn % 2], (int)bytes, MPI_BYTE, partner, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void write_file(int turn) {
    char name[4096];
    snprintf(name, sizeof name, "%s/beside-%d", directory, turn % 2);
    MPI_File file;
    if (MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file) != MPI_SUCCESS ||
        MPI_File_write_at_all(file, (MPI_Offset)bytes * rank, state, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE) !=
            MPI_SUCCESS ||
        MPI_File_close(&file) != MPI_SUCCESS) {
        fail(name);
    }
}

static int by_value(const void* a, const void* b) {
    const double difference = *(const double*)a - *(const double*)b;
    return (difference > 0) - (difference < 0);
}

static void measure(const char* what, void (*save)(int turn)) {
    double times[REPEATS];
    for (int turn = -WARM; turn < REPEATS; ++turn) {
        memset(state, turn + WARM, bytes);
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = MPI_Wtime();
        save(turn + WARM);
        const double own_ms = (MPI_Wtime() - begin) * 1e3;
        double slowest_ms = 0;
        MPI_Allreduce(&own_ms, &slowest_ms, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (turn >= 0) {
            times[turn] = slowest_ms;
        }
    }
    qsort(times, REPEATS, sizeof times[0], by_value);
    if (rank == 0) {
        printf(
            "{\"what\": \"%s\", \"pes\": %d, \"mib\": %zu, \"median_ms\": %.3f, \"least_ms\": %.3f, \"most_ms\": "
            "%.3f}\n",
            what, size, bytes >> 20, times[REPEATS / 2], times[0], times[REPEATS - 1]);
        fflush(stdout);
    }
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 3 || atol(argv[1]) < 1 || atol(argv[1]) > 1024) {
        fprintf(stderr, "usage: beside MIB DIRECTORY (1 to 1024 MiB)\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    bytes = (size_t)atol(argv[1]) << 20;
    directory = argv[2];
    state = malloc(bytes);
    copies[0] = malloc(bytes);
    copies[1] = malloc(bytes);
    if (state == NULL || copies[0] == NULL || copies[1] == NULL) {
        fail("malloc");
    }
    measure("memcpy", copy);
    measure("dev_shm", write_to_dev_shm);
    measure("sendrecv", exchange);
    measure("mpi_file", write_file);
    char name[64];
    snprintf(name, sizeof name, "/dev/shm/beside-%ld-%d", (long)getppid(), rank);
    unlink(name);
    MPI_Finalize();
    return 0;
}
