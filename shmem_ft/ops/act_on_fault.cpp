#include "shmem_ft/ops/act_on_fault.hpp"

#include <csetjmp>

#include "shmem_ft/ops/engine.hpp"
#include "shmem_ft/ops/fault_calls.hpp"

namespace sft {

void act_on_fault(const char* routine) {
    const WayOut way_out = g_engine->fault_calls->meet_fault(routine);
    if (way_out.point != nullptr) {
        std::longjmp(*way_out.point, 1);
    }
    if (way_out.thrower != nullptr) {
        way_out.thrower(routine, way_out.context);
    }
}

}  // namespace sft
