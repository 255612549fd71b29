/* A program with a static array of which it uses little, as scientific codes have them: every step writes to a place
 * where nothing was before, and reads all places, of which a rollback has to make zeros again what was written since
 * the version. It ends with an error if it takes much memory. */
#include "apps/app_support.h"

enum { STEPS = 12, PLACES = STEPS + 1 };
#define WORDS (UINT64_C(1) << 27) /* 1 GiB */
#define RSS_KIB_MAX (64L << 10)

/* Symmetric state. */
static uint64_t room[WORDS];
static long step;
static uint64_t sum;

static uint64_t* place(long number) {
    return &room[(WORDS / PLACES) * (uint64_t)number + (uint64_t)shmem_my_pe() * 777];
}

static long shared_kib(void) {
    char line[256];
    long kib = -1;
    FILE* file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        sscanf(line, "RssShmem: %ld", &kib);
    }
    if (file != NULL) {
        fclose(file);
    }
    return kib;
}

int main(void) {
    room[WORDS - 1] = 5; /* before the library makes the globals symmetric */
    shmem_init();
    bool finished = false;
    do {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            shmem_ft_recover();
        } else if (step < STEPS) {
            const int next = (shmem_my_pe() + 1) % shmem_n_pes();
            *place(step) += app_mix3((uint64_t)step, (uint64_t)shmem_my_pe(), 3);
            shmem_barrier_all();
            for (long number = 0; number < PLACES; number++) {
                sum = app_hash_number(sum, *place(number) + shmem_uint64_g(&room[WORDS - 1], next));
            }
            shmem_barrier_all();
            step++;
        } else {
            finished = true;
        }
    } while (!finished);
    const long kib = shared_kib();
    if (kib < 0 || kib > RSS_KIB_MAX) {
        fprintf(stderr, "roomy: error: PE %d uses %ld KiB of shared memory\n", shmem_my_pe(), kib);
        shmem_global_exit(1);
    }
    printf("result %d %016llx\n", shmem_my_pe(), (unsigned long long)sum);
    fflush(stdout);
    shmem_finalize();
    return 0;
}
