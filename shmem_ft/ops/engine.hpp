// What the communication routines need to know, and nothing else: they never see backup or recovery.
// Fault tolerance reaches them through the peer table (a dead PE is unreachable), the waiter (a wait ends when a
// fault is pending) and the channels (reset inside a recovery).
#pragma once

#include "shmem_ft/base/ids.hpp"
#include "shmem_ft/base/private_data.hpp"
#include "shmem_ft/ops/copy.hpp"
#include "shmem_ft/ops/handles.hpp"
#include "shmem_ft/transport/shm/channels.hpp"
#include "shmem_ft/transport/shm/peer_table.hpp"
#include "shmem_ft/transport/shm/wait.hpp"

namespace sft {

struct Engine {
    PeerTable peers;
    Channels channels;
    Waiter waiter;
    FaultGate gate;
    Copier copy;
    // From here to contexts: saved and restored as bytes with a version; reset_handles (ops/teams.hpp) starts them.
    TeamTable teams;
    std::uint64_t init_calls = 0;  // of shmem_ft_algo_init, as of that version
    std::uint64_t init_depth = 0;  // of shmem_init without shmem_finalize
    ContextTable contexts;
    HandleReplay replay;
    std::atomic<std::uint32_t> turn{0};  // varies where any/some searches begin; failed tests yield now and then
};

// Set by the runtime between init and the last finalize, null otherwise. The only global of the C interface.
extern Engine* g_engine;

[[noreturn]] void report_not_initialized(const char* routine) noexcept;

// The engine for a C entry point; a call outside init/finalize ends the process with one line.
inline Engine& engine(const char* routine) noexcept {
    if (g_engine == nullptr) [[unlikely]] {
        report_not_initialized(routine);
    }
    return *g_engine;
}

}  // namespace sft
