// Every PE writes to, reads from and counts at every other one, with barriers in between, and checks all of it.
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>

enum { kWords = 3000 };

static long counter;
static long flags[64];

static void require(int holds, const char* what) {
    if (!holds) {
        printf("PE %d: %s\n", shmem_my_pe(), what);
        fflush(stdout);
        shmem_global_exit(1);
    }
}

static long value_of(int from, int to, int i) { return from * 1000003L + to * 1009L + i; }

int main(void) {
    shmem_init();
    const int me = shmem_my_pe();
    const int n = shmem_n_pes();
    long* words = shmem_malloc((size_t)n * kWords * sizeof *words);
    long* mine = malloc(kWords * sizeof *mine);
    for (int pe = 0; pe < n; ++pe) {
        for (int i = 0; i < kWords; ++i) {
            mine[i] = value_of(me, pe, i);
        }
        shmem_long_put(words + me * kWords, mine, kWords, pe);
        shmem_long_atomic_inc(&counter, pe);
        shmem_long_p(&flags[me], me + 1, pe);
    }
    shmem_barrier_all();
    require(counter == n, "a count is missing");
    for (int pe = 0; pe < n; ++pe) {
        require(flags[pe] == pe + 1, "a single put has not come");
        for (int i = 0; i < kWords; ++i) {
            require(words[pe * kWords + i] == value_of(pe, me, i), "a put has not come");
        }
        shmem_long_get(mine, words + me * kWords, kWords, pe);
        for (int i = 0; i < kWords; ++i) {
            require(mine[i] == value_of(me, pe, i), "a get has brought something else");
        }
        require(shmem_long_atomic_fetch(&counter, pe) == n, "a fetch has brought something else");
    }
    shmem_barrier_all();
    // One word that all count at, at the same time.
    for (int i = 0; i < 100; ++i) {
        shmem_long_atomic_fetch_add(&counter, 1, 0);
    }
    shmem_barrier_all();
    require(me != 0 || counter == n + 100L * n, "counts got lost");
    free(mine);
    shmem_free(words);
    printf("result %d\n", n);
    shmem_finalize();
    return 0;
}
