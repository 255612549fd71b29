/* Another program as the start-up of this one: its main is called program_main here, and its own shmem_init and
 * shmem_finalize are inner ones. */
#include "tests/startup/loop.h"

int program_main(int argc, char** argv);

static void nothing(void) {}

#undef main
int main(int argc, char** argv) {
    shmem_init();
    const int status = program_main(argc, argv);
    run_loop(5, nothing);
    shmem_finalize();
    return status;
}
