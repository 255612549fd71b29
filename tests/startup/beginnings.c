/* Start-ups as people write them: PE 0 reads the input, all get it by some call and keep it in local variables, compute
 * their share, allocate, fill, and enter the loop. Nothing in here knows of substitutes. The first argument chooses
 * one; the others, and standard input, are its input. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/startup/loop.h"

static long parameters[3];
static long received[3];
static double partial, whole;
static long arrived;
static long sum;

static long length;
static long factor;
static double* field;
static long* mine; /* private memory, filled before the loop and read in it */

static long private_length SHMEM_FT_PRIVATE;
static long private_factor SHMEM_FT_PRIVATE;
static long* private_mine SHMEM_FT_PRIVATE;

static void nothing(void) {}

static void do_step(void) {
    long part = 0;
    for (long i = 0; i < private_length; i++) {
        field[i] += (double)private_mine[i];
        part += private_mine[i] * private_factor;
    }
    shmem_long_atomic_add(&sum, part + loop_step, (shmem_my_pe() + 1) % shmem_n_pes());
}

static void allocate(long n, long k) {
    if (n <= 0 || (mine = malloc((size_t)n * sizeof *mine)) == NULL) {
        fprintf(stderr, "PE %d: no memory for %ld numbers\n", shmem_my_pe(), n);
        shmem_global_exit(4);
    }
    length = private_length = n;
    factor = private_factor = k;
    private_mine = mine;
    field = shmem_malloc((size_t)n * sizeof *field);
    for (long i = 0; i < n; i++) {
        mine[i] = i * k + shmem_my_pe();
        field[i] = 0.5 * (double)i;
    }
    shmem_barrier_all();
}

/* A length that is broadcast. */
static void by_broadcast(long n, long k) {
    if (shmem_my_pe() == 0) {
        parameters[0] = n;
        parameters[1] = k;
    }
    shmem_long_broadcast(SHMEM_TEAM_WORLD, received, parameters, 2, 0);
    allocate(received[0], received[1]);
}

/* Read by PE 0, put into all others, and looked at behind a barrier. */
static void by_put(long n, long k) {
    if (shmem_my_pe() == 0) {
        const long values[2] = {n, k};
        for (int pe = 0; pe < shmem_n_pes(); pe++) {
            shmem_long_put(received, values, 2, pe);
        }
    }
    shmem_barrier_all();
    allocate(received[0], received[1]);
}

/* Got from PE 0. The share is a division by what a reduction gives. */
static void by_get(long n, long k) {
    if (shmem_my_pe() == 0) {
        parameters[0] = n;
        parameters[1] = k;
    }
    shmem_barrier_all();
    const long all = shmem_long_g(&parameters[0], 0);
    long rest[2];
    shmem_long_get(rest, parameters, 2, 0);
    partial = 1.0 + shmem_my_pe();
    shmem_double_sum_reduce(SHMEM_TEAM_WORLD, &whole, &partial, 1);
    allocate(all * 10 / (long)whole + all % (long)whole, rest[1]);
}

/* PE 0 says by a flag that the numbers are there; the others poll it by atomics. */
static void by_polling(long n, long k) {
    if (shmem_my_pe() == 0) {
        const long values[2] = {n, k};
        for (int pe = 0; pe < shmem_n_pes(); pe++) {
            shmem_long_put(received, values, 2, pe);
            shmem_fence();
            shmem_long_atomic_set(&arrived, 1 + pe, pe);
        }
    }
    while (shmem_long_atomic_fetch(&arrived, shmem_my_pe()) == 0) {
    }
    allocate(received[0] + arrived, received[1]);
}

/* Heap calls whose number and sizes follow from what was received; and a wait. */
static void by_heap_calls(long n, long k) {
    if (shmem_my_pe() == 0) {
        parameters[0] = n % 7 + 1;
        parameters[1] = n;
        parameters[2] = k;
    }
    shmem_long_broadcast(SHMEM_TEAM_WORLD, received, parameters, 3, 0);
    for (long i = 0; i < received[0]; i++) {
        long* const block = shmem_malloc((size_t)(received[1] + i) * sizeof(long));
        shmem_long_p(&block[i], i + 1, (shmem_my_pe() + 1) % shmem_n_pes());
        shmem_long_wait_until(&block[i], SHMEM_CMP_EQ, i + 1);
        if (i % 2 == 1) {
            shmem_free(block);
        }
    }
    allocate(received[1], received[2]);
}

/* Lines of standard input, which PE 0 alone has. */
static void by_input(long n, long k) {
    (void)n;
    (void)k;
    if (shmem_my_pe() == 0 && scanf("%ld %ld", &parameters[0], &parameters[1]) != 2) {
        fprintf(stderr, "PE 0: no input\n");
        shmem_global_exit(5);
    }
    shmem_long_broadcast(SHMEM_TEAM_WORLD, received, parameters, 2, 0);
    allocate(received[0], received[1]);
}

/* As many bytes of standard input as it is told, and what they add up to. The rest is read behind the loop. */
static int reads_rest;
static void by_all_input(long n, long k) {
    long bytes = 0;
    long values = 0;
    if (shmem_my_pe() == 0) {
        char block[1000];
        ssize_t got = 0;
        while (bytes < n && (got = read(0, block, n - bytes < 1000 ? (size_t)(n - bytes) : sizeof block)) > 0) {
            for (ssize_t i = 0; i < got; i++) {
                values = (values * 31 + block[i]) % 1000003;
            }
            bytes += got;
        }
        parameters[0] = 100 + bytes % 100;
        parameters[1] = values + bytes;
        reads_rest = 1;
    }
    shmem_long_broadcast(SHMEM_TEAM_WORLD, received, parameters, 2, 0);
    allocate(received[0], received[1] + k);
}

static void read_rest(void) {
    char block[1000];
    long bytes = 0;
    char last = '-';
    ssize_t got = 0;
    while ((got = read(0, block, sizeof block)) > 0) {
        bytes += got;
        last = block[got - 1];
    }
    printf("%ld bytes are left, the last is %c\n", bytes, last);
}

/* ---- and some that are not the same each time ---- */

enum { MOST = 1000 };
static long elsewhere[MOST];
static long copies[MOST] SHMEM_FT_PRIVATE;

static void by_time(long n, long k) {
    for (int i = 0; i < 3; i++) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        shmem_long_get(copies, elsewhere, (size_t)(now.tv_nsec / 10 % MOST), 0);
    }
    allocate(n, k);
}

static void by_random(long n, long k) {
    unsigned numbers[3];
    FILE* const device = fopen("/dev/urandom", "rb");
    if (device == NULL || fread(numbers, sizeof numbers, 1, device) != 1) {
        shmem_global_exit(6);
    }
    fclose(device);
    for (int i = 0; i < 3; i++) {
        shmem_long_get(copies, elsewhere, numbers[i] % MOST, 0);
    }
    allocate(n, k);
}

/* The file named by the last argument is gone when it is looked at again. */
static const char* file_name;
static void by_file(long n, long k) {
    if (access(file_name, F_OK) == 0) {
        shmem_sync_all();
    }
    shmem_barrier_all();
    if (shmem_my_pe() == 0) {
        unlink(file_name);
    }
    allocate(n, k);
}

/* More than the record may take. */
static void too_large(long n, long k) {
    enum { MANY = 1 << 16 };
    long* const big = shmem_malloc(MANY * sizeof *big);
    long* const copy = malloc(MANY * sizeof *copy);
    for (long i = 0; i < MANY; i++) {
        big[i] = i * k;
    }
    shmem_barrier_all();
    shmem_long_get(copy, big, MANY, 0);
    free(copy);
    allocate(n, k);
}

int main(int argc, char** argv) {
    static const struct {
        const char* name;
        void (*begin)(long n, long k);
    } table[] = {{"broadcast", by_broadcast}, {"put", by_put},     {"get", by_get},       {"polling", by_polling},
                 {"heap", by_heap_calls},     {"input", by_input}, {"all", by_all_input}, {"time", by_time},
                 {"random", by_random},       {"file", by_file},   {"large", too_large}};
    const char* const name = argc > 1 ? argv[1] : "";
    const long n = argc > 2 ? atol(argv[2]) : 100;
    const long k = argc > 3 ? atol(argv[3]) : 3;
    file_name = argc > 4 ? argv[4] : "";
    shmem_init();
    size_t i = 0;
    while (i < sizeof table / sizeof *table && strcmp(table[i].name, name) != 0) {
        i++;
    }
    if (i == sizeof table / sizeof *table) {
        fprintf(stderr, "no start-up is called '%s'\n", name);
        shmem_global_exit(2);
    }
    table[i].begin(n, k);
    run_loop(6, do_step, nothing);
    double total = 0;
    for (long j = 0; j < length; j++) {
        total += field[j];
    }
    printf("PE %d: %ld numbers, %.1f, %ld\n", shmem_my_pe(), length, total, sum + factor);
    if (reads_rest) {
        read_rest();
    }
    shmem_finalize();
    return 0;
}
