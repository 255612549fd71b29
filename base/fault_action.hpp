// What a call of the application does when it meets a fault. The values are those of SHMEM_FT_ON_FAULT_*.
#pragma once

namespace sft {

enum class FaultAction : int {
    go_on = 0,  // the call returns
    call = 1,   // the application's handler is called, then the call returns
    jump = 2,   // to the application's rollback point
    abort = 3,  // the job ends
    leave = 4,  // the application's handler is called, which throws
};

}  // namespace sft
