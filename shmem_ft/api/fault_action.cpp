#include "shmem_ft/api/fault_action.hpp"

#include <csetjmp>

#include "shmem_ft/ops/job.hpp"

namespace sft {

void act_on_fault(const char* routine) noexcept {
    if (jmp_buf* const point = job::meet_fault(routine)) {
        std::longjmp(*point, 1);
    }
}

}  // namespace sft
