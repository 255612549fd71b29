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
        const int in_node = shmem_team_translate_pe(SHMEM_TEAM_WORLD, right, SHMEM_TEAM_SHARED) >= 0;
        CHECK(theirs != NULL || !in_node); /* inside a node everything can be loaded and stored */
        if (theirs != NULL) {
            *theirs = me + 40;
        } else {
            shmem_long_p(cells[i], me + 40, right);
        }
        shmem_barrier_all();
        CHECK(*cells[i] == left + 40);
    }
    shmem_free(heap_cell);
}

/* Inner pairs release nothing. */
static void check_nesting(void) {
    long* const kept = shmem_malloc(sizeof *kept);
    shmem_team_t team = SHMEM_TEAM_INVALID;
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;
    CHECK(kept != NULL && shmem_ctx_create(0, &ctx) == 0);
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, shmem_n_pes(), NULL, 0, &team) == 0);
    *kept = 17;
    int provided = -1;
    CHECK(shmem_init_thread(SHMEM_THREAD_FUNNELED, &provided) == 0 && provided >= SHMEM_THREAD_SINGLE);
    shmem_init();
    start_pes(0); /* no effect: initialised already */
    CHECK(shmem_init_thread(SHMEM_THREAD_SINGLE, &provided) == 0);
    const int me = shmem_my_pe(), npes = shmem_n_pes(), right = (me + 1) % npes, left = (me + npes - 1) % npes;
    for (int depth = 3; depth > 0; depth--) {
        /* An inner finalize is a barrier. */
        const long value = 100 * depth + me;
        delay_below(3000, (unsigned)depth);
        shmem_long_put_nbi(&global_cell, &value, 1, right);
        shmem_finalize();
        CHECK(global_cell == 100 * depth + left);
        CHECK(initialized() != 0 && *kept == 17 && shmem_team_sync(team) == 0);
        shmem_ctx_long_p(ctx, kept, 17, right);
        shmem_ctx_quiet(ctx);
        shmem_barrier_all();
    }
    /* Team, context and memory are left to the last finalize. */
}

/* What belongs to a life is new in the next one: the heap is empty, all handles are free, locks work. Data in globals
 * stays what it was. */
static void check_new_life(int life) {
    static int lives[10];
    static long lock, count;
    for (int i = 0; i < 10; i++) {
        CHECK(lives[i] == (i < life));
    }
    lives[life] = 1;
    count = 0;
    delay_below(2000, (unsigned)life);
    const size_t most = (size_t)300 << 20; /* more than half of the heap, which is left allocated */
    long* const block = shmem_malloc(most);
    CHECK(block != NULL);
    block[most / sizeof *block - 1] = life;
    shmem_set_lock(&lock);
    shmem_long_p(&count, shmem_long_g(&count, 0) + 1, 0);
    shmem_clear_lock(&lock);
    shmem_barrier_all();
    CHECK(shmem_long_g(&count, 0) == shmem_n_pes());
    for (int i = 0; i < 10; i++) {
        shmem_team_t row, column;
        shmem_ctx_t ctx;
        CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, NULL, 0, &row, NULL, 0, &column) == 0);
        CHECK(shmem_team_create_ctx(column, 0, &ctx) == 0);
        CHECK(shmem_team_sync(row) == 0);
    }
    /* As many more of both as in the first life. */
    static int more_teams, more_contexts;
    int n_teams = 0, n_contexts = 0;
    shmem_team_t team;
    shmem_ctx_t more;
    while (n_teams < 20000 && shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, shmem_n_pes(), NULL, 0, &team) == 0) {
        n_teams++;
    }
    while (n_contexts < 20000 && shmem_ctx_create(0, &more) == 0) {
        n_contexts++;
    }
    CHECK(life == 0 || (n_teams == more_teams && n_contexts == more_contexts));
    more_teams = n_teams;
    more_contexts = n_contexts;
    static long sum, terms;
    terms = life;
    CHECK(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &sum, &terms, 1) == 0 && sum == (long)life * shmem_n_pes());
}

/* A library inside the program asks for another level: it is never lowered. */
static void check_levels(int current) {
    for (int wanted = SHMEM_THREAD_SINGLE; wanted <= SHMEM_THREAD_MULTIPLE; wanted++) {
        int level = -1, provided = -1;
        CHECK(shmem_init_thread(wanted, &provided) == 0);
        current = wanted > current ? wanted : current;
        shmem_query_thread(&level);
        CHECK(provided == current && level == current);
        shmem_finalize();
    }
    int provided = -1;
    CHECK(shmem_init_thread(SHMEM_THREAD_MULTIPLE + 1, &provided) != 0); /* takes no part in the nesting */
}

int main(void) {
    int before = -1;
    shmem_query_initialized(&before);
    if (before != 0) {
        fprintf(stderr, "initialized before shmem_init\n");
        return 1;
    }
    shmem_init();
    int level = -1;
    shmem_query_thread(&level);
    CHECK(level == SHMEM_THREAD_MULTIPLE); /* what shmem_init gives */
    for (int life = 0; life < 6; life++) {
        CHECK(initialized() != 0);
        check_queries();
        check_access();
        check_nesting();
        check_new_life(life);
        shmem_finalize();
        if (initialized() != 0) {
            fprintf(stderr, "initialized after the last shmem_finalize\n");
            return 1;
        }
        /* The levels are asked for one after the other. */
        int provided = -1;
        level = -1;
        if (shmem_init_thread(life % 4, &provided) != 0) {
            fprintf(stderr, "shmem_init_thread failed after the last shmem_finalize\n");
            return 1;
        }
        shmem_query_thread(&level);
        CHECK(provided == life % 4 && provided == level);
        check_levels(level);
    }
    shmem_finalize();
    return 0;
}
