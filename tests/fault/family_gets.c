/* Gets of every kind from the PE that dies. Each turn looks at what has come at once, as a program would that divides
 * by it: where nothing has, the get must have met the fault. */
#include "tests/fault/families.h"

enum { STRIDE = 2 };

/* Symmetric, the same on all PEs, never changed, no zero among them. */
static long offered[STRIDE * SMALL] = {11, 21, 12, 22, 13, 23, 14, 24, 15, 25};

/* apart: which of the elements were asked for. */
static void look(const long* got, size_t count, size_t apart) {
    for (size_t i = 0; i < count && !was_called(); i++) {
        if (got[i] != offered[i * apart]) {
            wrong("a get from a dead PE has brought nothing and met no fault");
        }
    }
}

#define GETTING(NAME, COUNT, STEP, ...)                 \
    int NAME(const Local* local) {                      \
        do {                                            \
            long got[STRIDE * SMALL] = {0};             \
            __VA_ARGS__;                                \
            look(got, COUNT, STEP);                     \
        } while (local->awaits_death && !was_called()); \
        return 0;                                       \
    }
GETTING(get_dead, SMALL, 1, shmem_long_get(got, offered, SMALL, local->victim))
GETTING(get_one_dead, 1, 1, shmem_get64(got, offered, 1, local->victim))
GETTING(getmem_dead, SMALL, 1, shmem_getmem(got, offered, SMALL * sizeof got[0], local->victim))
GETTING(ctx_get_dead, SMALL, 1, shmem_ctx_long_get(SHMEM_CTX_DEFAULT, got, offered, SMALL, local->victim))
GETTING(g_dead, 1, 1, got[0] = shmem_long_g(offered, local->victim))
GETTING(iget_dead, SMALL, STRIDE, shmem_long_iget(got, offered, 1, STRIDE, SMALL, local->victim))
GETTING(ibget_dead, SMALL, STRIDE, shmem_long_ibget(got, offered, 1, STRIDE, 1, SMALL, local->victim))
GETTING(get_nbi_dead, SMALL, 1, shmem_long_get_nbi(got, offered, SMALL, local->victim), shmem_quiet())
