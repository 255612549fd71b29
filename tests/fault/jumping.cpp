// The jump of shmem_ft_on_fault in C++, and the other way to write the program: a bare rollback point in front of the
// loop, whose status check repairs the damage. PE 1 kills itself in step 3, while the others wait for it.
#include <poll.h>
#include <shmem.h>

#include <csignal>
#include <cstdio>
#include <shmem_ft.hpp>

namespace {

constexpr long kSteps = 6;
constexpr long kFatalStep = 3;

// Symmetric state.
long step;
long token;
long total;

void compute_step(bool may_die) {
    const int me = shmem_my_pe();
    const int n_pes = shmem_n_pes();
    if (may_die && step == kFatalStep && me == 1) {
        poll(nullptr, 0, 100);
        std::raise(SIGKILL);
    }
    shmem_long_atomic_inc(&token, (me + 1) % n_pes);
    shmem_barrier_all();
    if (token != step + 1) {
        std::fprintf(stderr, "jumping: error: PE %d computes with a wrong number\n", me);
        shmem_global_exit(1);
    }
    total += token * (me + 1);
    ++step;
}

void run(bool is_substitute) {
    shmem_ft_on_fault(SHMEM_FT_ON_FAULT_JUMP, nullptr, nullptr);
    volatile int jumps = 0;  // changed behind the point
    if (SHMEM_FT_ROLLBACK_POINT()) {
        jumps = jumps + 1;
    }
    while (step < kSteps) {
        if (shmem_ft::checkpoint_or_recover()) {
            compute_step(!is_substitute);
        }
    }
    if (jumps == 0 && !is_substitute) {
        std::fprintf(stderr, "jumping: error: PE %d has not jumped\n", shmem_my_pe());
        shmem_global_exit(1);
    }
}

}  // namespace

int main() {
    const shmem_ft::Job job;
    run(shmem_ft_algo_init() == 0);
    std::printf("result %d %ld\n", job.my_pe(), total);
    std::fflush(stdout);
    return 0;
}
