// What a call does that has met a fault: nothing, or what shmem_ft_on_fault has chosen.
#pragma once

namespace sft {

// Comes back, unless the chosen action is a jump, an exception or the end of the job. So no frame between this and the
// entry may have an object with a destructor alive, hold a lock or be noexcept.
void act_on_fault(const char* routine);

}  // namespace sft
