/* fence, quiet and pe_quiet as a third PE sees them, and locks. */
#include "tests/conformance/check.h"

enum { COUNT = 1000, TURNS = 50, MOST_PES = 64 };
static int me, npes, right, left;
static long data[COUNT], flag;

/* Data and flag to one PE: fence is enough. */
static void check_fence(shmem_ctx_t ctx) {
    static long source[COUNT];
    for (long turn = 1; turn <= TURNS; turn++) {
        for (int i = 0; i < COUNT; i++) {
            source[i] = turn * COUNT + i + me;
        }
        shmem_ctx_long_put_nbi(ctx, data, source, COUNT, right);
        if (ctx == SHMEM_CTX_DEFAULT) {
            shmem_fence();
        } else {
            shmem_ctx_fence(ctx);
        }
        shmem_ctx_long_atomic_set(ctx, &flag, turn, right);
        shmem_long_wait_until(&flag, SHMEM_CMP_GE, turn);
        for (int i = 0; i < COUNT; i++) {
            CHECK(data[i] == turn * COUNT + i + left);
        }
        shmem_ctx_quiet(ctx);
        shmem_barrier_all();
    }
    flag = 0;
    shmem_barrier_all();
}

/* Data to one PE, word of it to another, who fetches the data from there: that takes a quiet. */
static void check_quiet(void) {
    const int after_right = (me + 2) % npes, two_left = (me + 2 * npes - 2) % npes;
    for (long turn = 1; turn <= TURNS; turn++) {
        const long value = turn * 1000 + me;
        shmem_long_put_nbi(data, &value, 1, right);
        switch (turn % 3) {
            case 0: shmem_quiet(); break;
            case 1: shmem_pe_quiet(&right, 1); break;
            default: {
                int all[MOST_PES + 2] = {right, right};
                for (int pe = 0; pe < npes; pe++) {
                    all[pe + 2] = pe;
                }
                shmem_pe_quiet(NULL, 0);
                shmem_pe_quiet(all, 0);
                shmem_ctx_pe_quiet(SHMEM_CTX_INVALID, all, 1);
                shmem_ctx_pe_quiet(SHMEM_CTX_DEFAULT, all, (size_t)npes + 2);
            }
        }
        shmem_long_atomic_set(&flag, turn, after_right);
        shmem_long_wait_until(&flag, SHMEM_CMP_GE, turn);
        CHECK(shmem_long_g(data, left) == turn * 1000 + two_left);
        shmem_barrier_all();
    }
    flag = 0;
    shmem_barrier_all();
}

/* The counter is only protected by the lock; what was put in the critical section is there for the next holder. */
static void check_locks(void) {
    static long locks[3], counters[3];
    for (int turn = 0; turn < TURNS; turn++) {
        const int which = turn % 3;
        if (turn % 2 == 0) {
            shmem_set_lock(&locks[which]);
        } else {
            while (shmem_test_lock(&locks[which]) != 0) {
            }
        }
        const long next = shmem_long_g(&counters[which], 0) + 1;
        shmem_long_put_nbi(&counters[which], &next, 1, 0);
        shmem_clear_lock(&locks[which]);
    }
    shmem_barrier_all();
    for (int which = 0; which < 3; which++) {
        CHECK(shmem_long_g(&counters[which], 0) == (long)npes * (TURNS / 3 + (which < TURNS % 3)));
    }
    shmem_barrier_all();
}

static void check_test_lock(void) {
    long* const lock = shmem_calloc(1, sizeof *lock);
    CHECK(lock != NULL);
    if (me == 0) {
        CHECK(shmem_test_lock(lock) == 0);
    }
    shmem_barrier_all();
    if (me != 0) {
        CHECK(shmem_test_lock(lock) == 1);
    }
    shmem_barrier_all();
    if (me == 0) {
        shmem_clear_lock(lock);
    }
    shmem_barrier_all();
    if (me == npes - 1) {
        CHECK(shmem_test_lock(lock) == 0);
        shmem_clear_lock(lock);
    }
    shmem_free(lock);
}

/* The instances of a lock on all PEs. What is in them is the library's own business, which is why a program must not
 * look; here it is the only way to know that another PE stands in the queue. */
struct instances {
    long words[MOST_PES];
};

static struct instances look_at(const long* lock) {
    struct instances seen = {{0}};
    for (int pe = 0; pe < npes; pe++) {
        seen.words[pe] = shmem_long_g(lock, pe);
    }
    return seen;
}

/* PE 0 holds the lock until all others have queued up, one behind the other; then they must get it in that order. Who
 * is about to ask for it sends what the lock looks like to the next one, who asks when that has changed. */
static struct instances sent;
static uint64_t is_sent;

static void wait_for_the_one_before(const long* lock) {
    shmem_signal_wait_until(&is_sent, SHMEM_CMP_EQ, 1);
    struct instances now;
    do {
        now = look_at(lock);
    } while (memcmp(&now, &sent, sizeof now) == 0);
}

static void check_first_come(int backwards) {
    static long lock, served;
    const int place = backwards ? (npes - me) % npes : me;
    served = 0;
    is_sent = 0;
    shmem_barrier_all();
    if (place != 0) {
        wait_for_the_one_before(&lock);
    }
    const struct instances before = look_at(&lock);
    shmem_putmem_signal(&sent, &before, sizeof before, &is_sent, 1, SHMEM_SIGNAL_SET, backwards ? left : right);
    shmem_set_lock(&lock);
    CHECK_FOR(first come first served, shmem_long_atomic_fetch_inc(&served, 0) == place);
    if (place == 0 && npes > 1) {
        wait_for_the_one_before(&lock); /* the last one */
    }
    shmem_clear_lock(&lock);
    shmem_barrier_all();
}

int main(void) {
    shmem_init();
    me = shmem_my_pe();
    npes = shmem_n_pes();
    CHECK(npes <= MOST_PES);
    right = (me + 1) % npes;
    left = (me + npes - 1) % npes;
    shmem_ctx_t ctx;
    CHECK(shmem_ctx_create(0, &ctx) == 0);
    check_fence(SHMEM_CTX_DEFAULT);
    check_fence(ctx);
    check_quiet();
    check_locks();
    check_test_lock();
    check_first_come(0);
    check_first_come(1);
    shmem_ctx_destroy(ctx);
    shmem_finalize();
    return 0;
}
