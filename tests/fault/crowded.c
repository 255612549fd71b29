/* Symmetric memory that comes to need more than there is: FIRST MiB of each PE are written before the first checkpoint,
 * MORE in the middle. It goes on where a checkpoint finds no room, and says at which steps that was. All PEs must get
 * the same answer. */
#include "apps/app_support.h"

enum { STEPS = 12, GROWS = 6, MIB = 1 << 20 };

/* Symmetric state. */
static long step;
static uint64_t sum;
static uint64_t* room;
static long answers[2]; /* of this PE, and the largest */

static void fill(size_t begin, size_t end) {
    for (size_t word = begin; word < end; word++) {
        room[word] = app_mix3(word, (uint64_t)shmem_my_pe(), 7);
    }
}

static void check_alike(long answer) {
    answers[0] = answer;
    for (int sign = 1; sign >= -1; sign -= 2) {
        answers[0] = sign * answer;
        shmem_barrier_all();
        if (shmem_max_reduce(SHMEM_TEAM_WORLD, &answers[1], &answers[0], 1) != 0) {
            return; /* a fault */
        }
        if (answers[1] != sign * answer) {
            fprintf(stderr, "crowded: error: PE %d got %ld, another one %ld\n", shmem_my_pe(), answer,
                    sign * answers[1]);
            shmem_global_exit(1);
        }
    }
}

int main(int argc, char** argv) {
    const size_t first = argc > 1 ? strtoul(argv[1], NULL, 10) * MIB / sizeof(uint64_t) : 0;
    const unsigned long pace_ms = argc > 3 ? strtoul(argv[3], NULL, 10) : 0; /* a step takes that long */
    const size_t more = argc > 2 ? strtoul(argv[2], NULL, 10) * MIB / sizeof(uint64_t) : 0;
    if (first == 0) {
        fprintf(stderr, "usage: crowded FIRST [MORE [MS]]\n");
        return 2;
    }
    shmem_init();
    if (shmem_ft_algo_init() != 0) {
        room = shmem_malloc((first + more) * sizeof(uint64_t));
        fill(0, first);
    }
    bool finished = false;
    do {
        const int answer = shmem_checkpoint_all();
        if (answer == SHMEM_FT_FAILURE) {
            shmem_ft_recover();
            continue;
        }
        check_alike(answer);
        if (answer == SHMEM_FT_ERROR_OUT_OF_MEMORY && shmem_my_pe() == 0) {
            printf("no room at %ld\n", step);
            fflush(stdout);
        }
        if (step < STEPS) {
            app_sleep_ms(pace_ms);
            if (step == GROWS) {
                fill(first, first + more);
            }
            room[(size_t)step * 1000] += (uint64_t)step;
            shmem_barrier_all();
            const int next = (shmem_my_pe() + 1) % shmem_n_pes();
            const size_t used = step < GROWS ? first : first + more; /* what is only read exists, too */
            for (size_t word = 0; word < used; word += 1000) {
                sum = app_hash_number(sum, room[word]);
            }
            sum += shmem_uint64_g(&room[(size_t)step * 1000], next);
            shmem_barrier_all();
            step++;
        } else {
            finished = true;
        }
    } while (!finished);
    printf("result %d %016llx\n", shmem_my_pe(), (unsigned long long)sum);
    fflush(stdout);
    shmem_finalize();
    return 0;
}
