/* Set-up, queries, accessibility and pointers, nesting of init and finalize, and a second life after the last one. */
#include "tests/conformance/check.h"

static long global_cell;
static int initialized(void) {
    int answer = -1;
    shmem_query_initialized(&answer);
    return answer;
}

static void check_queries(void) {
    int major = 0, minor = 0;
    shmem_info_get_version(&major, &minor);
    CHECK(major == 1 && minor == 6);
    CHECK(major == SHMEM_MAJOR_VERSION && minor == SHMEM_MINOR_VERSION);
    char name[SHMEM_MAX_NAME_LEN];
    shmem_info_get_name(name);
    CHECK(strcmp(name, SHMEM_VENDOR_STRING) == 0 && strlen(name) < SHMEM_MAX_NAME_LEN);
    CHECK(shmem_my_pe() >= 0 && shmem_my_pe() < shmem_n_pes());
    CHECK(SHMEM_THREAD_SINGLE < SHMEM_THREAD_FUNNELED && SHMEM_THREAD_FUNNELED < SHMEM_THREAD_SERIALIZED &&
          SHMEM_THREAD_SERIALIZED < SHMEM_THREAD_MULTIPLE);
    int level = -1;
    shmem_query_thread(&level);
    CHECK(level >= SHMEM_THREAD_SINGLE && level <= SHMEM_THREAD_MULTIPLE);
    shmem_pcontrol(1);
    shmem_pcontrol(3, "anything", 1.5);
}

static void check_access(void) {
    long local = 0;
    long* const heap_cell = shmem_malloc(sizeof *heap_cell);
    CHECK(heap_cell != NULL);
    const int me = shmem_my_pe(), npes = shmem_n_pes(), right = (me + 1) % npes, left = (me + npes - 1) % npes;
    for (int pe = 0; pe < npes; pe++) {
        CHECK(shmem_pe_accessible(pe) == 1);
        CHECK(shmem_addr_accessible(&global_cell, pe) == 1);
        CHECK(shmem_addr_accessible(heap_cell, pe) == 1);
        CHECK(shmem_addr_accessible(&local, pe) == 0);
        CHECK(shmem_ptr(&local, pe) == NULL);
        CHECK(shmem_team_ptr(SHMEM_TEAM_WORLD, heap_cell, pe) == shmem_ptr(heap_cell, pe));
        CHECK(shmem_team_ptr(SHMEM_TEAM_INVALID, heap_cell, pe) == NULL);
    }
    CHECK(shmem_pe_accessible(-1) == 0 && shmem_pe_accessible(npes) == 0);
    CHECK(shmem_ptr(heap_cell, me) == heap_cell && shmem_ptr(&global_cell, me) == &global_cell);
    long* const cells[] = {heap_cell, &global_cell};
    for (int i = 0; i < 2; i++) {
        *cells[i] = -1;
        shmem_barrier_all();
        long* const theirs = shmem_ptr(cells[i], right);
        CHECK(theirs != NULL); /* one node: everything can be loaded and stored */
        *theirs = me + 40;
        shmem_barrier_all();
        CHECK(*cells[i] == left + 40);
    }
    shmem_free(heap_cell);
}

int main(void) {
    int before = -1;
    shmem_query_initialized(&before);
    if (before != 0) {
        fprintf(stderr, "initialized before shmem_init\n");
        return 1;
    }
    shmem_init();
    CHECK(initialized() != 0);
    check_queries();
    check_access();

    /* Inner pairs release nothing. */
    long* const kept = shmem_malloc(sizeof *kept);
    CHECK(kept != NULL);
    *kept = 17;
    int provided = -1;
    CHECK(shmem_init_thread(SHMEM_THREAD_FUNNELED, &provided) == 0);
    shmem_init();
    shmem_finalize();
    CHECK(initialized() != 0 && *kept == 17);
    shmem_finalize();
    CHECK(initialized() != 0 && *kept == 17);
    const long same = 17;
    shmem_long_put(kept, &same, 1, (shmem_my_pe() + 1) % shmem_n_pes());
    shmem_finalize();
    if (initialized() != 0) {
        fprintf(stderr, "initialized after the last shmem_finalize\n");
        return 1;
    }

    /* A second life, with a thread level. */
    int level = -1;
    provided = -1;
    if (shmem_init_thread(SHMEM_THREAD_SERIALIZED, &provided) != 0) {
        fprintf(stderr, "shmem_init_thread failed after the last shmem_finalize\n");
        return 1;
    }
    shmem_query_thread(&level);
    CHECK(provided >= SHMEM_THREAD_SINGLE && provided == level);
    check_queries();
    check_access();
    shmem_finalize();
    return 0;
}
