// The fault-tolerance calls of shmem_ft.h.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/process_watch.hpp"
#include "base/report.hpp"
#include "include/shmem_ft.h"
#include "shmem_ft/api/stamp.hpp"
#include "shmem_ft/ops/collectives.hpp"
#include "shmem_ft/ops/fault_calls.hpp"
#include "shmem_ft/ops/heap_calls.hpp"
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
static_assert(SHMEM_FT_RESTARTED == static_cast<int>(FailureKind::restarted));
static_assert(SHMEM_FT_FAILURE == sft::kFailure && SHMEM_FT_PENDING == sft::kPending);
static_assert(SHMEM_FT_ERROR_OUT_OF_MEMORY == sft::kOutOfMemory);
static_assert(SHMEM_FT_NO_SPARE == sft::kNoSpare);
static_assert(SHMEM_FT_DATA_LOST == sft::kDataLost);
static_assert(SHMEM_FT_BEFORE_CHECKPOINT == static_cast<int>(sft::VersionEvent::before_checkpoint));
static_assert(SHMEM_FT_AFTER_CHECKPOINT == static_cast<int>(sft::VersionEvent::after_checkpoint));
static_assert(SHMEM_FT_AFTER_RESTORE == static_cast<int>(sft::VersionEvent::after_restore));
static_assert(SHMEM_FT_ON_FAULT_RETURN == static_cast<int>(sft::FaultAction::go_on));
static_assert(SHMEM_FT_ON_FAULT_CALL == static_cast<int>(sft::FaultAction::call));
static_assert(SHMEM_FT_ON_FAULT_JUMP == static_cast<int>(sft::FaultAction::jump));
static_assert(SHMEM_FT_ON_FAULT_ABORT == static_cast<int>(sft::FaultAction::abort));
static_assert(SHMEM_FT_ON_FAULT_THROW == static_cast<int>(sft::FaultAction::leave));

sft::FaultCalls& calls(const char* routine) noexcept { return *sft::engine(routine).fault_calls; }

// Its place in the heap is an allocation like any other, recorded and repeated as such.
int include_memory(void* memory, std::size_t bytes) noexcept {
    sft::FaultCalls& fault_calls = calls("shmem_ft_include");
    if (memory == nullptr && bytes != 0) {
        sft::report_bad_argument("shmem_ft_include", "memory", 0);
    }
    if (!fault_calls.may_include()) {
        return SHMEM_FT_FAILURE;
    }
    if (bytes == 0) {
        return SHMEM_FT_SUCCESS;
    }
    void* const place = pshmem_malloc(bytes);
    return place != nullptr && fault_calls.include(memory, place, bytes) ? SHMEM_FT_SUCCESS
                                                                         : SHMEM_FT_ERROR_OUT_OF_MEMORY;
}

static_assert(SHMEM_FT_HINT_SCRATCH == sft::kHintScratch);
int exclude_memory(const void* memory, std::size_t bytes) noexcept {
    sft::Engine& e = sft::engine("shmem_ft_exclude");
    return bytes == 0 || e.heap->exclude(memory, bytes) ? SHMEM_FT_SUCCESS : SHMEM_FT_ERROR_OUT_OF_MEMORY;
}

// Ends the job if it is no name, or the numbers make no sense.
void check_array(const char* routine, const char* name, const void* memory, const sft::ArrayShape& shape) noexcept {
    if (name == nullptr || !sft::is_array_name(name)) {
        sft::job::fail(sft::format("%s: \"%s\" is no name of an array: 1 to %zu letters without spaces", routine,
                                   name == nullptr ? "(null)" : name, sft::ArrayPiece::kNameBytes - 1)
                           .c_str());
    }
    constexpr std::size_t kMost = INT64_MAX;  // that a manifest can say
    std::size_t bytes = 0;
    if (shape.element_bytes == 0) {
        sft::report_bad_argument(routine, "element_bytes", 0);
    }
    if (__builtin_mul_overflow(shape.element_bytes, shape.count, &bytes) || bytes > kMost ||
        shape.first > kMost - shape.count) {
        sft::report_bad_argument(routine, "count", static_cast<long long>(shape.count));
    }
    if (memory == nullptr && bytes != 0) {
        sft::report_bad_argument(routine, "array", 0);
    }
}

int declare_array(const char* name, const void* array, const sft::ArrayShape& shape) noexcept {
    sft::Engine& e = sft::engine("shmem_ft_declare_array");
    check_array("shmem_ft_declare_array", name, array, shape);
    sft::ArrayPiece piece;
    std::memcpy(piece.name, name, std::strlen(name));  // which fits: check_array()
    piece.address = reinterpret_cast<std::uintptr_t>(array);
    piece.element_bytes = shape.element_bytes;
    piece.first = shape.first;
    piece.count = shape.count;
    return shape.count == 0 || e.heap->declare(piece) ? SHMEM_FT_SUCCESS : SHMEM_FT_ERROR_OUT_OF_MEMORY;
}

int load_array(const char* name, void* to, const sft::ArrayShape& shape) noexcept {
    sft::FaultCalls& fault_calls = calls("shmem_ft_load_array");
    check_array("shmem_ft_load_array", name, to, shape);
    return shape.count == 0 || fault_calls.load_array(name, to, shape) ? SHMEM_FT_SUCCESS : SHMEM_FT_FAILURE;
}

using CheckpointCall = int (sft::FaultCalls::*)() noexcept;

// Only a failure of it is one that the program meets: who died after a commit is the next call's business.
int ask_checkpoint(const char* routine, CheckpointCall call) {
    if (!sft::job::is_initialized()) {
        return SHMEM_FT_ERROR_NOT_INITIALIZED;
    }
    const int result = (sft::g_engine->fault_calls->*call)();
    if (result == SHMEM_FT_FAILURE) {
        sft::act_on_fault(routine);
    }
    return result;
}

int checkpoint(const char* routine, CheckpointCall call, const void* from) {
    if (!sft::job::is_initialized()) {
        return SHMEM_FT_ERROR_NOT_INITIALIZED;
    }
    if (sft::g_engine->startup != nullptr) [[unlikely]] {
        sft::g_engine->startup->end_replay(sft::Startup::End::checkpoint, {routine, from});
    }
    if (sft::is_checking()) {
        sft::compare_calls(*sft::g_engine, sft::world(*sft::g_engine), routine, {});
    }
    return ask_checkpoint(routine, call);
}

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

// The start-up is over here, also for a substitute, which has to be at the same call as its predecessor then.
extern "C" int pshmem_checkpoint_all() {
    return checkpoint("shmem_checkpoint_all", &sft::FaultCalls::checkpoint_all, __builtin_return_address(0));
}
SFT_ALIAS(int, shmem_checkpoint_all, (void))
extern "C" int pshmem_ft_checkpoint_nb() {
    return checkpoint("shmem_ft_checkpoint_nb", &sft::FaultCalls::checkpoint_nb, __builtin_return_address(0));
}
SFT_ALIAS(int, shmem_ft_checkpoint_nb, (void))
extern "C" int pshmem_ft_checkpoint_wait() {
    return ask_checkpoint("shmem_ft_checkpoint_wait", &sft::FaultCalls::checkpoint_wait);
}
SFT_ALIAS(int, shmem_ft_checkpoint_wait, (void))
extern "C" int pshmem_ft_checkpoint_test() {
    return ask_checkpoint("shmem_ft_checkpoint_test", &sft::FaultCalls::checkpoint_test);
}
SFT_ALIAS(int, shmem_ft_checkpoint_test, (void))
SFT_ENTRY(void, shmem_query_fault, (int** pes, int** pes_status, std::size_t* numpes),
          (calls("shmem_query_fault").query_fault(pes, pes_status, numpes)))
SFT_ENTRY(void, shmem_restart_pes, (int* pes, std::size_t numpes),
          (calls("shmem_restart_pes").restart_pes(pes, numpes)))
SFT_ENTRY(void, shmem_ft_recover, (void), (calls("shmem_ft_recover").recover()))
SFT_TOLD_ENTRY(int, shmem_ft_algo_init, (void), told.of_kind(sft::CallKind::algo_init),
               (calls("shmem_ft_algo_init").algo_init()))
SFT_TOLD_ENTRY(int, shmem_ft_protected, (void), told, (calls("shmem_ft_protected").protected_losses()))
SFT_ENTRY(int, shmem_ft_on_fault, (int action, shmem_ft_fault_handler_t handler, void* context),
          (calls("shmem_ft_on_fault").on_fault(static_cast<sft::FaultAction>(action), handler, context) ? 0 : 1))
SFT_ENTRY(int, shmem_ft_on_unreplaced, (shmem_ft_unreplaced_handler_t handler, void* context),
          (calls("shmem_ft_on_unreplaced").on_unreplaced(handler, context), 0))
SFT_ENTRY(int, shmem_ft_on_version, (shmem_ft_version_handler_t handler, void* context),
          (calls("shmem_ft_on_version").on_version(handler, context) ? 0 : 1))
SFT_ENTRY(int, shmem_ft_include, (void* memory, std::size_t bytes), (include_memory(memory, bytes)))
SFT_ENTRY(int, shmem_ft_exclude, (const void* memory, std::size_t bytes), (exclude_memory(memory, bytes)))
SFT_ENTRY(int, shmem_ft_declare_array,
          (const char* name, const void* array, std::size_t element_bytes, std::size_t first, std::size_t count),
          (declare_array(name, array, {element_bytes, first, count})))
SFT_ENTRY(int, shmem_ft_load_array,
          (const char* name, void* to, std::size_t element_bytes, std::size_t first, std::size_t count),
          (load_array(name, to, {element_bytes, first, count})))
SFT_ENTRY(std::size_t, shmem_ft_stored_elements, (const char* name),
          (calls("shmem_ft_stored_elements").stored_elements(name)))
SFT_ENTRY(jmp_buf*, shmem_ft_rollback_point, (void), (calls("shmem_ft_rollback_point").rollback_point()))
SFT_ENTRY(int, shmem_ft_must_recover, (void), (calls("shmem_ft_must_recover").must_recover() ? 1 : 0))

extern "C" int shmem_ft_status_kind(int status) { return static_cast<int>(FailureReason::from_status(status).kind); }
extern "C" int shmem_ft_status_signal(int status) { return code_of(status, FailureKind::signal, 0); }
extern "C" int shmem_ft_status_exit_code(int status) { return code_of(status, FailureKind::exited, -1); }
extern "C" char* shmem_ft_status_text(int status, char* buffer, std::size_t size) {
    return write_text(status, buffer, size);
}
