// What the communication routines need to know, and nothing else: they never see backup or recovery.
// Fault tolerance reaches them through the peer table (a dead PE is unreachable), the waiter (a wait ends when a
// fault is pending) and the channels (reset inside a recovery). Other nodes are reached through the network, which is
// asked where the gate, or an address that is not mapped here, says that there is more to be done.
#pragma once

#include "base/ids.hpp"
#include "base/private_data.hpp"
#include "shmem_ft/ops/copy.hpp"
#include "shmem_ft/ops/handles.hpp"
#include "shmem_ft/ops/nodes.hpp"
#include "symheap/array_table.hpp"
#include "symheap/exclusions.hpp"
#include "transport/shm/channels.hpp"
#include "transport/shm/peer_table.hpp"
#include "transport/shm/wait.hpp"

namespace sft {

class Checker;
class FaultCalls;
class HeapCalls;
class Startup;

// The locks that this PE holds, for the checks (ops/check.hpp). Part of the saved state, because a rollback takes locks
// back as well.
struct HeldLocks {
    static constexpr std::size_t kMax = 62;
    std::uint32_t count = 0;
    std::uint32_t is_incomplete = 0;  // there were more than kMax
    const long* locks[kMax] = {};
};

static_assert(std::is_trivially_copyable_v<HeldLocks> && sizeof(HeldLocks) == 504);
static_assert(std::has_unique_object_representations_v<HeldLocks>, "it is saved as bytes, and has checksums");

struct Engine {
    PeerTable peers;
    Channels channels;
    Waiter waiter;
    FaultGate gate;
    Copier copy;
    Network* network = nullptr;  // null: all PEs are on this node. Set by connect_nodes.
    PeNodes nodes;               // of a job with a network
    Checker* checker = nullptr;  // null: calls are not checked
    Startup* startup = nullptr;  // null: the first checkpoint is committed (ops/startup.hpp)
    HeapCalls* heap = nullptr;
    FaultCalls* fault_calls = nullptr;
    // From here to contexts: saved and restored as bytes with a version; reset_handles (ops/teams.hpp) starts them.
    TeamTable teams;
    std::uint64_t init_calls = 0;       // of shmem_ft_algo_init, as of that version
    std::uint64_t init_depth = 0;       // of shmem_init without shmem_finalize
    std::uint64_t included_pieces = 0;  // of private memory (shmem_ft_include), and their bytes
    std::uint64_t included_bytes = 0;
    std::uint64_t thread_level = 0;
    Exclusions excluded;  // of symmetric memory
    ArrayTable arrays;    // the same
    HeldLocks held_locks;
    ContextTable contexts;
    HandleReplay replay;
    std::atomic<std::uint32_t> turn{0};  // varies where any/some searches begin; failed tests yield now and then
};

// Set by the runtime between init and the last finalize, null otherwise.
extern Engine* g_engine;
// The one that entries look at first: the same, or null while calls are looked at, because they are checked or because
// the first checkpoint is not committed yet. Such a call takes the branch that every entry has anyway for calls outside
// init and finalize, so all of that costs nothing while off.
extern Engine* g_fast_engine;

// Null detaches. Again when a checker or a startup has been set or taken away.
void attach_engine(Engine* e) noexcept;

// The network to the other nodes and which PE is where; again whenever PEs have moved, inside a restart. Whether a job
// has a network never changes. Once e.peers.me is set.
void connect_nodes(Engine& e, Network& network, std::span<const NodeId> node_of_pe);

[[nodiscard]] inline bool is_looked_at() noexcept { return g_fast_engine == nullptr; }
[[nodiscard]] inline bool is_checking() noexcept {
    return g_fast_engine == nullptr && g_engine != nullptr && g_engine->checker != nullptr;
}

// For entries that found g_fast_engine to be null: the engine, after a look at the calling thread. A call outside init
// and finalize ends the process with one line.
[[nodiscard]] Engine& checked_engine(const char* routine) noexcept;
// The same without the look.
[[nodiscard]] Engine& running_engine(const char* routine) noexcept;

[[noreturn]] void report_not_initialized(const char* routine) noexcept;

// The engine for a C entry point; a call outside init/finalize ends the process with one line.
inline Engine& engine(const char* routine) noexcept {
    if (g_fast_engine == nullptr) [[unlikely]] {
        return checked_engine(routine);
    }
    return *g_fast_engine;
}

}  // namespace sft
