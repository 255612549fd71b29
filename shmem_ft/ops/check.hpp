// Checks of calls for misuse that the specification leaves undefined (SHMEM_FT_CHECK): one line with the PE, the
// routine and the argument.
//
// How a call comes here: while checks are on, g_fast_engine is null, so every entry of the C interface takes the branch
// that it has for calls outside init and finalize. That branch evaluates the entry's expression again with a
// CheckedTarget (ops/check_transfer.hpp) or asks one of the functions below first. Without checks nothing of this runs.
//
// Two kinds of misuse. What can still be carried out is reported, and then done as without checks (warn), or ends the
// job (abort). What cannot (an address that leads nowhere, a handle that names nothing, a collective call that others
// answer with another one) ends the job in both modes.
//
// Fault rule: while a fault is pending, which in a substitute is until it has joined, arguments may be what an earlier
// call has left undone. So nothing is said about them, and what is forgiven without checks is forgiven here, too
// (target.hpp, peer_table.hpp). PEs are not compared, because they are not at the same call.
//
// Thread safety: all of it may be called by any thread at any time, except start and forget_users. The level of threads
// that is checked is the one that the last initialisation has given.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "base/config.hpp"
#include "base/mutex.hpp"
#include "shmem_ft/ops/engine.hpp"
#include "symheap/block_table.hpp"

namespace sft {

// Values of SHMEM_THREAD_*, and bits of context options (SHMEM_CTX_*).
enum class ThreadLevel : int { single = 0, funneled = 1, serialized = 2, multiple = 3 };
enum class ContextOption : std::uint32_t { serialized = 1, is_private = 2, no_store = 4 };

// What a call does with an argument: `count` pieces of `bytes`, `step` bytes from one to the next.
struct Extent {
    std::size_t bytes = 0;
    std::size_t count = 1;
    std::size_t step = 0;
    std::size_t alignment = 1;

    [[nodiscard]] bool is_empty() const noexcept { return bytes == 0 || count == 0; }
    // From the first byte to the last; SIZE_MAX where it does not fit.
    [[nodiscard]] std::size_t span() const noexcept;
};

[[nodiscard]] Extent elements(std::size_t count, std::size_t bytes) noexcept;

struct Argument {
    const char* name;
    const void* address;
    Extent extent;
};

class Checker {
public:
    struct Options {
        CheckMode mode = CheckMode::off;
        AddressRange blocks_in;  // the part of the heap that blocks are in
        const BlockTable* blocks = nullptr;
    };

    // By the thread that initialises.
    void start(Engine& e, const Options& options) noexcept;
    // An initialisation may raise it. At first any thread may call.
    void set_thread_level(int level) noexcept { thread_level_.store(level); }
    // After a rollback: who created or uses contexts is not known any more.
    void forget_users() noexcept;

    // ---- addresses ----
    // A symmetric object of this PE.
    void check_symmetric(const char* routine, const Argument& argument) noexcept;
    // Any memory of this process.
    void check_local(const char* routine, const Argument& argument) noexcept;
    // `what` is written; the two must have no byte in common.
    void check_apart(const char* routine, const Argument& what, const Argument& other) noexcept;
    // A block of the heap, as shmem_free takes it.
    void check_block(const char* routine, const void* address) noexcept;

    // ---- threads ----
    [[nodiscard]] bool serves_one_thread() const noexcept {
        return thread_level_.load() < static_cast<int>(ThreadLevel::multiple);
    }
    void check_thread(const char* routine) noexcept;
    // True: this thread is inside now and has to leave.
    [[nodiscard]] bool enter(const char* routine) noexcept;
    void leave() noexcept { inside_.store(pthread_t{}, std::memory_order_release); }

    // ---- contexts and teams ----
    // A context that an operation goes by, of the handles there are; true: this thread uses it now and has to leave it.
    [[nodiscard]] bool enter_context(const char* routine, CtxId context) noexcept;
    void leave_context(CtxId context) noexcept;
    void note_creator(CtxId context) noexcept;
    // For calls that do nothing with SHMEM_CTX_INVALID, and with SHMEM_TEAM_INVALID.
    void check_context_handle(const char* routine, CtxId context) noexcept;
    void check_team_handle(const char* routine, TeamId team) noexcept;
    void check_destroyed_context(const char* routine, CtxId context) noexcept;
    void check_destroyed_team(const char* routine, TeamId team) noexcept;
    // team: kTeamInvalid means all.
    void check_no_private_contexts(const char* routine, TeamId team) noexcept;

    // ---- locks ----
    void check_set_lock(const char* routine, const long* lock) noexcept;
    void check_test_lock(const char* routine, const long* lock) noexcept;
    void note_lock(const long* lock) noexcept;
    void check_clear_lock(const char* routine, const long* lock) noexcept;

    // ---- lines ----
    // A misuse that can be carried out. Nothing is said while a fault is pending.
    void report(const char* routine, const char* format, ...) noexcept __attribute__((format(printf, 3, 4)));
    // One that cannot.
    [[noreturn]] void fail(const char* routine, const char* format, ...) noexcept __attribute__((format(printf, 3, 4)));

private:
    struct ContextUse {
        std::atomic<pthread_t> creator;
        std::atomic<pthread_t> inside;
    };

    [[nodiscard]] bool holds(const long* lock) noexcept;
    [[nodiscard]] bool is_fault_pending() const noexcept { return engine_->gate.is_pending(); }
    void check_in_heap(const char* routine, const Argument& argument) noexcept;
    void check_alignment(const char* routine, const Argument& argument) noexcept;
    [[nodiscard]] PeId owner_of_window(const void* address) const noexcept;

    Engine* engine_ = nullptr;
    Options options_;
    std::atomic<int> thread_level_{static_cast<int>(ThreadLevel::multiple)};
    pthread_t main_thread_{};
    std::atomic<pthread_t> inside_{};
    std::atomic<std::uint32_t> lines_{0};
    ContextUse uses_[kContextsMax] = {};
    Mutex locks_mutex_{MutexRank::checks};  // the engine's held_locks
};

// ---- collective calls ----

// An argument that must be the same on all members.
struct CommonArgument {
    const char* name;
    std::uint64_t value;
    enum class Form { number, signed_number, address } form = Form::number;
};
inline constexpr std::size_t kCommonArgumentsMax = 7;

// The members tell the first one what they call, and wait for its answer. At most kCommonArgumentsMax arguments.
void compare_calls(Engine& e, const PeGroup& group, const char* routine,
                   std::initializer_list<CommonArgument> arguments) noexcept;

// ---- what the expression of an entry that may wait finds in `call` ----

struct UncheckedCall {};

// While it lives, its thread counts as inside the library.
class CheckedCall {
public:
    explicit CheckedCall(const char* routine) noexcept
        : is_inside_(running_engine(routine).checker != nullptr && g_engine->checker->enter(routine)) {}
    ~CheckedCall() {
        if (is_inside_) {
            g_engine->checker->leave();
        }
    }
    CheckedCall(const CheckedCall&) = delete;
    CheckedCall& operator=(const CheckedCall&) = delete;

private:
    const bool is_inside_;
};

// Variables of this PE that a wait or test looks at, and further arrays of the call; the address of the variables
// stands for a form that has no such array.
struct Watched {
    const char* name;
    const void* variables;
    std::size_t nelems;
    std::size_t bytes;
    int comparison;
    const void* indices;
    const void* operands;
};
// The engine, after a look at them.
[[nodiscard]] Engine& engine(const CheckedCall& call, const char* routine, const Watched& watched) noexcept;
[[nodiscard, gnu::always_inline]] inline Engine& engine(UncheckedCall, const char* routine, const Watched&) noexcept {
    return engine(routine);
}

}  // namespace sft
