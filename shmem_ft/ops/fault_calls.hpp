// The calls of shmem_ft.h, as the entry points make them. Operations never see backup or recovery: whoever knows both
// (shmem_ft/process/recovery_calls.hpp) is in the engine behind this interface.
#pragma once

#include <setjmp.h>

#include <cstddef>

#include "base/fault_action.hpp"

namespace sft {

// Elements of an array of the job.
struct ArrayShape {
    std::size_t element_bytes = 0;
    std::size_t first = 0;
    std::size_t count = 0;
};

// Results of checkpoints, as in shmem_ft.h.
inline constexpr int kFailure = 1;
inline constexpr int kPending = 2;
inline constexpr int kOutOfMemory = -1;

class FaultCalls {
public:
    virtual ~FaultCalls() = default;

    // 0: committed; kFailure, kOutOfMemory.
    [[nodiscard]] virtual int checkpoint_all() noexcept = 0;
    // 0: begun, or committed already.
    [[nodiscard]] virtual int checkpoint_nb() noexcept = 0;
    // 0: what was begun last is committed; kFailure.
    [[nodiscard]] virtual int checkpoint_wait() noexcept = 0;
    // The same, or kPending: it is not known yet.
    [[nodiscard]] virtual int checkpoint_test() noexcept = 0;
    // The arrays are the caller's, by malloc(); null if nobody has failed.
    virtual void query_fault(int** pes, int** pes_status, std::size_t* numpes) noexcept = 0;
    virtual void restart_pes(const int* pes, std::size_t numpes) noexcept = 0;
    // query_fault and restart_pes.
    virtual void recover() noexcept = 0;
    [[nodiscard]] virtual int algo_init() noexcept = 0;
    [[nodiscard]] virtual int protected_losses() noexcept = 0;

    // False: no such action, or one that needs a handler without one.
    [[nodiscard]] virtual bool on_fault(FaultAction action, FaultHandler handler, void* context) noexcept = 0;
    virtual void on_unreplaced(UnreplacedHandler handler, void* context) noexcept = 0;
    // False: no handler, or no memory is left.
    [[nodiscard]] virtual bool on_version(VersionHandler handler, void* context) noexcept = 0;
    // Private memory can still be included: there is no version yet, or this is a substitute on its way.
    [[nodiscard]] virtual bool may_include() noexcept = 0;
    // False: no memory for it. `place`: as many bytes of the symmetric heap, the same on all PEs.
    [[nodiscard]] virtual bool include(void* memory, void* place, std::size_t bytes) noexcept = 0;
    // From the stored version that SHMEM_FT_LOAD names; why it failed has been told then.
    [[nodiscard]] virtual bool load_array(const char* name, void* to, const ArrayShape& shape) noexcept = 0;
    // 0: there is no such array, or no version.
    [[nodiscard]] virtual std::size_t stored_elements(const char* name) noexcept = 0;
    // For setjmp in the caller's own frame: where a jump goes, from this thread.
    [[nodiscard]] virtual jmp_buf* rollback_point() noexcept = 0;
    // A substitute that has not joined has passed its rollback point: as if it had jumped there.
    [[nodiscard]] virtual bool must_recover() noexcept = 0;
    // A call has met the fault: how it is left.
    [[nodiscard]] virtual WayOut meet_fault(const char* routine) noexcept = 0;
};

}  // namespace sft
