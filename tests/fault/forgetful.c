/* A program that is wrong on purpose: part of its state is kept out of the checkpoints. The campaign must find its
 * results wrong; if it does not, it would not find a fault of the library either. */
#include "apps/app_support.h"

/* Symmetric state. */
static unsigned long step;
static uint64_t hashes[16]; /* on PE 0 */

/* State as well, but neither saved nor rolled back. */
static uint64_t forgotten SHMEM_FT_PRIVATE = 1;

int main(int argc, char** argv) {
    app_install_exit_signals();
    shmem_init();
    unsigned long steps = 60;
    unsigned long pace_ms = 0;
    const AppOption table[] = {
        {.name = "steps", .help = "steps", .number = &steps, .minimum = 1, .maximum = 1000000},
        {.name = "pace", .help = "milliseconds to idle per step", .number = &pace_ms, .maximum = 1000},
        {.name = NULL},
    };
    const AppCommandLine line = app_parse(argc, argv, table);
    app_stop_on_error("forgetful", line.error);

    bool finished = false;
    do {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            app_recover();
        } else if (step < steps) {
            app_leave_if_asked();
            forgotten = app_mix3(forgotten, step, (uint64_t)shmem_my_pe());
            app_sleep_ms(pace_ms);
            step++;
            if (step == steps) {
                shmem_putmem(&hashes[shmem_my_pe()], &forgotten, sizeof forgotten, 0);
            }
        } else {
            finished = true;
        }
    } while (!finished);

    if (shmem_my_pe() == 0) {
        printf("result %016llx\n", (unsigned long long)app_hash(APP_HASH_START, hashes, sizeof hashes));
        fflush(stdout);
    }
    shmem_finalize();
    return 0;
}
