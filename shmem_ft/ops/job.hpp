// Life of the job and of the symmetric heap, as the C entry points call it. Implemented by the composition root
// (shmem_ft/process/runtime*.cpp), which is the only place that knows all layers.
#pragma once

#include <setjmp.h>

#include <cstddef>
#include <optional>

#include "base/fault_action.hpp"
#include "base/ids.hpp"
#include "transport/shm/peer_table.hpp"

namespace sft::job {

// shmem_init, shmem_init_thread, start_pes. Returns 0, or non-zero after one line on stderr (only when
// report_failure is set; otherwise a failure ends the process).
inline constexpr int kThreadMultiple = 3;
struct InitOptions {
    std::optional<int> requested_thread_level = std::nullopt;  // none: the highest, or what there is already
    bool report_failure = false;
    bool finalize_at_exit = false;  // start_pes
};
int init(const InitOptions& options, int* provided_thread_level) noexcept;
void finalize() noexcept;
// Once more the library shall be the first to see an exit(), before what the program has registered meanwhile.
void watch_exit() noexcept;
// Whether the next finalize is the one that ends it all.
[[nodiscard]] bool is_last_finalize() noexcept;
[[noreturn]] void global_exit(int status) noexcept;
// Ends the job on all PEs with this line.
[[noreturn]] void fail(const char* line) noexcept;
[[nodiscard]] bool is_initialized() noexcept;
[[nodiscard]] int thread_level() noexcept;

// Collective heap routines: include the barriers the specification demands, and the replay in a substitute.
void* heap_malloc(std::size_t bytes) noexcept;
void* heap_calloc(std::size_t count, std::size_t bytes) noexcept;
void* heap_align(std::size_t alignment, std::size_t bytes) noexcept;
void* heap_realloc(void* address, std::size_t bytes) noexcept;
void* heap_malloc_with_hints(std::size_t bytes, long hints) noexcept;
void heap_free(void* address) noexcept;

// Of the start-up (ops/startup.hpp). Zeros in a block of the heap. The object that the address lies in; no bytes: not
// known. And what shmem_ptr gives in a substitute that has not joined yet: the place where the memory of that PE will
// be, and where nothing is until then.
void zero_symmetric(void* block, std::size_t bytes) noexcept;
[[nodiscard]] AddressRange symmetric_object(const void* address) noexcept;
[[nodiscard]] void* pointer_before_joining(const void* address, PeId pe) noexcept;

// shmem_ft.h
int checkpoint_all() noexcept;
void query_fault(int** pes, int** pes_status, std::size_t* numpes) noexcept;
void restart_pes(const int* pes, std::size_t numpes) noexcept;
int algo_init() noexcept;
int protected_losses() noexcept;
// False: no such action, or one that needs a handler without one.
[[nodiscard]] bool on_fault(FaultAction action, FaultHandler handler, void* context) noexcept;
void on_unreplaced(UnreplacedHandler handler, void* context) noexcept;
// For setjmp in the caller's own frame: where a jump goes, from this thread.
[[nodiscard]] jmp_buf* rollback_point() noexcept;
// A substitute that has not joined has passed its rollback point: as if it had jumped there.
[[nodiscard]] bool must_recover() noexcept;
// query_fault and restart_pes.
void recover() noexcept;
[[nodiscard]] WayOut meet_fault(const char* routine) noexcept;

}  // namespace sft::job
