// The fault-tolerance calls of shmem_ft.h.
#include <cstdio>
#include <string>

#include "include/shmem_ft.h"
#include "shmem_ft/api/stamp.hpp"
#include "shmem_ft/base/process_watch.hpp"
#include "shmem_ft/ops/job.hpp"

namespace {

using sft::FailureKind;
using sft::FailureReason;

static_assert(SHMEM_FT_KILLED_BY_SIGNAL == static_cast<int>(FailureKind::signal));
static_assert(SHMEM_FT_EXITED == static_cast<int>(FailureKind::exited));
static_assert(SHMEM_FT_HUNG == static_cast<int>(FailureKind::hung));
static_assert(SHMEM_FT_NODE_LOST == static_cast<int>(FailureKind::node_lost));
static_assert(SHMEM_FT_UNREACHABLE == static_cast<int>(FailureKind::unreachable));
static_assert(SHMEM_FT_DIED == static_cast<int>(FailureKind::died));

void* checked(const char* routine) noexcept { return &sft::engine(routine); }

int code_of(int status, FailureKind kind, int otherwise) noexcept {
    const FailureReason reason = FailureReason::from_status(status);
    return reason.kind == kind ? reason.code : otherwise;
}

char* write_text(int status, char* buffer, std::size_t size) noexcept {
    if (size != 0) {
        std::snprintf(buffer, size, "%s", sft::describe(FailureReason::from_status(status)).c_str());
    }
    return buffer;
}

}  // namespace

SFT_ENTRY(int, shmem_checkpoint_all, (void),
          sft::job::is_initialized() ? sft::job::checkpoint_all() : SHMEM_FT_ERROR_NOT_INITIALIZED)
SFT_ENTRY(void, shmem_query_fault, (int** pes, int** pes_status, std::size_t* numpes),
          (checked("shmem_query_fault"), sft::job::query_fault(pes, pes_status, numpes)))
SFT_ENTRY(void, shmem_restart_pes, (int* pes, std::size_t numpes),
          (checked("shmem_restart_pes"), sft::job::restart_pes(pes, numpes)))
SFT_ENTRY(int, shmem_ft_algo_init, (void), (checked("shmem_ft_algo_init"), sft::job::algo_init()))
SFT_ENTRY(int, shmem_ft_protected, (void), (checked("shmem_ft_protected"), sft::job::protected_losses()))

extern "C" int shmem_ft_status_kind(int status) { return static_cast<int>(FailureReason::from_status(status).kind); }
extern "C" int shmem_ft_status_signal(int status) { return code_of(status, FailureKind::signal, 0); }
extern "C" int shmem_ft_status_exit_code(int status) { return code_of(status, FailureKind::exited, -1); }
extern "C" char* shmem_ft_status_text(int status, char* buffer, std::size_t size) {
    return write_text(status, buffer, size);
}
