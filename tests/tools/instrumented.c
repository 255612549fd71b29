/* A program for tools that look into it: private memory comes and goes between checkpoints, globals lie beside each
 * other and are written to their last byte, and, if asked, one step reads behind a block of memory. */
#include <shmem.h>
#include <shmem_ft.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_STEPS = 40, N_BLOCKS = 200, N_WORDS = 3000 };

static char name[13];
static int step;
static long sums[N_STEPS];
static char last[5];
/* What the program has allocated is not taken back by a rollback, and neither is what it knows of that. */
static unsigned char* blocks[N_BLOCKS] SHMEM_FT_PRIVATE;
static size_t sizes[N_BLOCKS] SHMEM_FT_PRIVATE;
static uint32_t draw SHMEM_FT_PRIVATE = 1;

static uint32_t next_draw(void) {
    draw = draw * 1664525u + 1013904223u;
    return draw >> 8;
}

/* Every block still holds what was written into it when it was made. */
static void exchange_blocks(void) {
    for (int i = 0; i < 60; ++i) {
        const size_t which = next_draw() % N_BLOCKS;
        for (size_t k = 0; k < sizes[which]; ++k) {
            if (blocks[which][k] != (unsigned char)(which + 1)) {
                fprintf(stderr, "block %zu holds something else\n", which);
                abort();
            }
        }
        free(blocks[which]);
        sizes[which] = 1 + next_draw() % 5000;
        blocks[which] = malloc(sizes[which]);
        memset(blocks[which], (int)(which + 1), sizes[which]);
    }
}

static int read_behind(const char* what) {
    volatile char* short_block = malloc(8);
    memset((char*)short_block, 0, 8);
    const int found = short_block[what[0] == 'r' ? 8 : 7];
    free((void*)short_block);
    return found;
}

int main(int argc, char** argv) {
    const char* what = argc > 1 ? argv[1] : "";
    shmem_init();
    long* words = shmem_malloc(N_WORDS * sizeof *words);
    const int me = shmem_my_pe();
    const int n = shmem_n_pes();
    if (shmem_ft_algo_init()) {
        memset(words, 0, N_WORDS * sizeof *words);
        memset(name, 'n', sizeof name - 1);
        memset(last, 'x', sizeof last);
    }
    do {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            int* pes;
            int* status;
            size_t n_failed;
            shmem_query_fault(&pes, &status, &n_failed);
            shmem_restart_pes(pes, n_failed);
            shmem_barrier_all();
            free(pes);
            free(status);
            continue;
        }
        exchange_blocks();
        if (what[0] == 's') {
            nanosleep(&(struct timespec){.tv_nsec = 100 * 1000 * 1000}, NULL);
        }
        for (int i = 0; i < N_WORDS; ++i) {
            words[i] += me + i + step + name[11] + last[4];
        }
        shmem_barrier_all();
        long other = 0;
        shmem_long_get(&other, &words[step], 1, (me + 1) % n);
        sums[step] = other;
        shmem_barrier_all();
        if (step == 20 && me == 0) {
            sums[step] += read_behind(what);
        }
        ++step;
    } while (step < N_STEPS);
    unsigned long sum = 0;
    for (int i = 0; i < N_STEPS; ++i) {
        sum = sum * 31 + (unsigned long)sums[i];
    }
    printf("PE %d: %lu\n", me, sum);
    for (int i = 0; i < N_BLOCKS; ++i) {
        free(blocks[i]);
    }
    shmem_free(words);
    shmem_finalize();
    return 0;
}
