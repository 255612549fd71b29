// A program with a defect of the library in it: in step 3 an assertion fails in PE 1, in the program's own thread or in
// one beside it (--thread), while the others wait for it. A substitute would go on, so a result shows a recovery.
#include <shmem.h>

#include <cstdio>
#include <cstring>
#include <shmem_ft.hpp>
#include <thread>

#include "base/assert.hpp"

namespace {

long step;
long token;

void fail(long at) { SFT_ASSERT(at < 3); }

void compute_step(bool is_substitute, bool has_thread) {
    const int me = shmem_my_pe();
    if (me == 1 && !is_substitute) {
        if (has_thread) {
            std::thread(fail, step).join();
        } else {
            fail(step);
        }
    }
    shmem_long_atomic_inc(&token, (me + 1) % shmem_n_pes());
    shmem_barrier_all();
    ++step;
}

}  // namespace

int main(int argc, char** argv) {
    const shmem_ft::Job job;
    const bool is_substitute = shmem_ft_algo_init() == 0;
    const bool has_thread = argc > 1 && std::strcmp(argv[1], "--thread") == 0;
    shmem_ft_on_fault(SHMEM_FT_ON_FAULT_RETURN, nullptr, nullptr);
    while (step < 6) {
        if (shmem_ft::checkpoint_or_recover()) {
            compute_step(is_substitute, has_thread);
        }
    }
    std::printf("result %d %ld\n", job.my_pe(), token);
    std::fflush(stdout);
}
