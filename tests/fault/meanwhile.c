/* Declares an array as soon as shmem_ft_checkpoint_nb has returned, and ends with two versions in files: one that was
 * begun before that, and one of behind it. */
#include <poll.h>
#include <shmem.h>
#include <shmem_ft.h>

enum { CELLS = 100 };

static void make(int result) {
    if (result != SHMEM_FT_SUCCESS) {
        shmem_global_exit(4);
    }
}

int main(void) {
    shmem_init();
    const size_t first = CELLS * (size_t)shmem_my_pe();
    long* const early = shmem_calloc(CELLS, sizeof *early);
    long* const late = shmem_calloc(CELLS, sizeof *late);
    shmem_ft_declare_array("early", early, sizeof *early, first, CELLS);
    make(shmem_checkpoint_all());
    make(shmem_ft_checkpoint_nb()); /* version 2 */
    shmem_ft_declare_array("late", late, sizeof *late, first, CELLS);
    make(shmem_ft_checkpoint_wait());
    poll(NULL, 0, 500); /* for its file; else version 4 has none */
    make(shmem_checkpoint_all());
    make(shmem_checkpoint_all()); /* version 4 */
    poll(NULL, 0, 500);
    shmem_barrier_all();
    shmem_global_exit(3);
}
