// The life of the job, as the C entry points call it. Implemented where the process is put together
// (shmem_ft/process/job.cpp), which is the only place that knows all layers. What a running job is asked for goes by
// the engine: its heap (heap_calls.hpp) and its fault tolerance (fault_calls.hpp).
#pragma once

#include <optional>

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
// Once more the library shall be the first to see an exit(), before what the program has registered meanwhile; and the
// same if this is the first time since shmem_init.
void watch_exit() noexcept;
void watch_exit_at_first_call() noexcept;
// Whether the next finalize is the one that ends it all.
[[nodiscard]] bool is_last_finalize() noexcept;
[[noreturn]] void global_exit(int status) noexcept;
// Ends the job on all PEs with this line.
[[noreturn]] void fail(const char* line) noexcept;
[[nodiscard]] bool is_initialized() noexcept;
[[nodiscard]] int thread_level() noexcept;
// A rollback has set the one in the engine: as on all PEs.
void take_thread_level() noexcept;

}  // namespace sft::job
