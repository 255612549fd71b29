// What a program can choose for a fault: what a call does that meets it, and what the job does if nobody is left to
// take over; and what it does itself when a version is made or gone back to. The values are those of shmem_ft.h.
#pragma once

#include <setjmp.h>

#include <cstddef>

namespace sft {

enum class FaultAction : int {
    go_on = 0,  // the call returns
    call = 1,   // the application's handler is called, then the call returns
    jump = 2,   // to the application's rollback point
    abort = 3,  // the job ends
    leave = 4,  // the application's handler is called, which throws
};

using FaultHandler = void (*)(const char* routine, void* context);

// How an entry is left whose call has met a fault. Neither: it returns.
struct WayOut {
    jmp_buf* point = nullptr;        // to jump to
    FaultHandler thrower = nullptr;  // to be called with context
    void* context = nullptr;
};

// Called when these PEs cannot be replaced (SHMEM_FT_UNREPLACED=handler). Not 0: the job waits for a spare.
using UnreplacedHandler = int (*)(int reason, const int* pes, std::size_t numpes, void* context);
inline constexpr int kNoSpare = 1;
inline constexpr int kDataLost = 2;

enum class VersionEvent : int {
    before_checkpoint = 1,
    after_checkpoint = 2,
    after_restore = 3,
};
// Not 0: it cannot, and the job ends.
using VersionHandler = int (*)(int event, unsigned long long version, void* context);

}  // namespace sft
