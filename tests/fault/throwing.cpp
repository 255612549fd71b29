// shmem_ft::protect: a fault comes as an exception, so destructors run. PE 1 kills itself in step 3, in front of the
// call that --in names, while the others wait for it in there.
//
//     throwing CALL [nb]    reduce, wait or checkpoint; nb: versions are made while the program goes on
#include <poll.h>
#include <shmem.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <shmem_ft.hpp>
#include <vector>

namespace {

constexpr long kSteps = 6;
constexpr long kFatalStep = 3;

// Symmetric state. The condition of the loop is false from the beginning, but for what a checkpoint brings back.
long steps_left;
long token;
long term;
long total;
long sum;

int n_alive SHMEM_FT_PRIVATE = 0;
int n_faults SHMEM_FT_PRIVATE = 0;

struct Counted {
    Counted() { ++n_alive; }
    ~Counted() { --n_alive; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
};

void fail(const char* what) {
    std::fprintf(stderr, "throwing: error: PE %d: %s\n", shmem_my_pe(), what);
    shmem_global_exit(1);
}

void die_in(const char* call, const char* chosen, bool may_die) {
    if (may_die && steps_left == kSteps - kFatalStep && shmem_my_pe() == 1 && std::strcmp(call, chosen) == 0) {
        poll(nullptr, 0, 100);
        std::raise(SIGKILL);
    }
}

void compute_step(const char* chosen, bool may_die) {
    const auto on_heap = std::make_unique<Counted>();
    const std::vector<long> scratch(1000, steps_left);
    const int me = shmem_my_pe();
    const int n_pes = shmem_n_pes();
    const long number = kSteps - steps_left + 1;
    die_in("wait", chosen, may_die);
    shmem_long_p(&token, number, (me + 1) % n_pes);
    shmem_long_wait_until(&token, SHMEM_CMP_EQ, number);
    term = token * (me + 1);
    die_in("reduce", chosen, may_die);
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &sum, &term, 1);
    if (sum != number * n_pes * (n_pes + 1) / 2 || scratch[999] != steps_left) {
        fail("computes with a wrong number");
    }
    total += sum;
    --steps_left;
}

}  // namespace

int main(int argc, char** argv) {
    const shmem_ft::Job job;
    const char* chosen = argc > 1 ? argv[1] : "none";
    const bool is_nb = argc > 2 && std::strcmp(argv[2], "nb") == 0;
    const bool may_die = shmem_ft_algo_init() != 0;
    if (may_die) {
        steps_left = kSteps;
    }
    shmem_ft::protect(
        [&] {
            const Counted on_stack;
            while (steps_left > 0) {
                is_nb ? shmem_ft::checkpoint_nb() : shmem_ft::checkpoint();
                compute_step(chosen, may_die);
                die_in("checkpoint", chosen, may_die);
            }
            is_nb ? shmem_ft::checkpoint_nb() : shmem_ft::checkpoint();
            shmem_ft::checkpoint_wait();
            if (!shmem_ft::checkpoint_test()) {
                fail("is told that what it has waited for is not there");
            }
        },
        [](const shmem_ft::FaultList& faults) {
            ++n_faults;
            if (faults.size() != 1 || faults.pes()[0] != 1) {
                fail("has another list of the failed");
            }
        });
    const bool was_killed = std::strcmp(chosen, "none") != 0;
    if (n_alive != 0 || n_faults != (was_killed ? 1 : 0)) {
        fail("destructors have not run, or there was not one exception");
    }
    std::printf("result %d %ld\n", job.my_pe(), total);
    std::fflush(stdout);
    return 0;
}
