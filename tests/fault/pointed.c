/* Stores through pointers of shmem_ptr to objects that come and go at one address: the copy must have them all,
 * although nobody notes such stores. PE 0 writes into all of PE 1's object, which nobody else touches.
 *
 *     pointed      prints "result pointed PE SUM" on each PE */
#include "apps/app_support.h"

static const char kProgram[] = "pointed";

enum { SMALL = 64, LARGE = 1 << 17, ROUNDS = 4, STEPS = 4 };

int main(void) {
    shmem_init();
    const int me = shmem_my_pe();
    const int target = 1 % shmem_n_pes();
    long sum = 0;
    shmem_checkpoint_all();
    for (int round = 0; round < ROUNDS; round++) {
        /* Larger each time, where the one before was. */
        const size_t words = round == 0 ? SMALL : (size_t)LARGE << round;
        long* const object = shmem_malloc(words * sizeof *object);
        if (object == NULL) {
            app_fail(kProgram, "no memory");
        }
        for (int step = 0; step < STEPS; step++) {
            long* const there = me == 0 ? shmem_ptr(object, target) : NULL;
            for (size_t i = 0; there != NULL && i < words; i += 1000) {
                there[i] = (long)i + round + step;
            }
            shmem_barrier_all();
            shmem_checkpoint_all();
        }
        for (size_t i = 0; i < words; i += 1000) {
            sum += me == target ? object[i] : 0;
        }
        shmem_free(object);
    }
    printf("result %s %d %ld\n", kProgram, me, sum);
    shmem_finalize();
    return 0;
}
