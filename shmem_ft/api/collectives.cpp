// Barriers, syncs and collective data movement: team forms of every type, and the old active-set forms.
#include "shmem_ft/ops/collectives.hpp"

#include <algorithm>

#include "shmem_ft/api/stamp.hpp"
#include "shmem_ft/ops/check_collective.hpp"
#include "shmem_ft/ops/reductions.hpp"
#include "shmem_ft/ops/teams.hpp"

namespace {

// The C interface counts success as 0.
int status(bool ok) noexcept { return ok ? 0 : 1; }

// What the deprecated forms have besides: a work array whose elements have the value that they start with.
sft::WorkArrays sync_array(const long* psync, std::size_t n) noexcept { return {psync, n, SHMEM_SYNC_VALUE}; }

// Who takes part in a call, and what is moved: for the checks.
struct Members {
    Members(const char* name, shmem_team_t team, std::size_t bytes = 0) noexcept
        : engine(sft::engine(name)),
          group(sft::team_group(engine, sft::team_id(team), name)),
          routine(name),
          element_bytes(bytes) {}
    Members(const char* name, sft::ActiveSet set, sft::WorkArrays arrays, std::size_t bytes = 0) noexcept
        : engine(sft::engine(name)),
          group(sft::active_group(engine, set, name)),
          routine(name),
          element_bytes(bytes),
          work(arrays) {}
    // The same again, for the record of the start-up: whatever is wrong is said elsewhere.
    Members(const sft::StartupCall& told, shmem_team_t team, std::size_t bytes) noexcept
        : engine(*sft::g_engine),
          group(sft::team_group(engine, sft::team_id(team), told.where.routine)),
          routine(told.where.routine),
          element_bytes(bytes) {}
    Members(const sft::StartupCall& told, sft::ActiveSet set, std::size_t bytes) noexcept
        : engine(*sft::g_engine),
          group(sft::active_group(engine, set, told.where.routine, sft::Outsider::known)),
          routine(told.where.routine),
          element_bytes(bytes) {}
    explicit Members(const char* name) noexcept : engine(sft::engine(name)), group(sft::world(engine)), routine(name) {}

    [[nodiscard]] sft::CollectiveCall call() const noexcept { return {routine, group, element_bytes, work}; }

    sft::Engine& engine;
    sft::PeGroup group;
    const char* routine;
    std::size_t element_bytes = 0;
    sft::WorkArrays work;
};

// What is to be checked before an operation: told from its parameters.
using Sync = bool (*)(sft::Engine&, const sft::PeGroup&) noexcept;
using Move = bool (*)(sft::Engine&, const sft::PeGroup&, void*, const void*, std::size_t) noexcept;
using Broadcast = bool (*)(sft::Engine&, const sft::PeGroup&, void*, const void*, std::size_t,
                           sft::BroadcastRoot) noexcept;
using MoveStrided = bool (*)(sft::Engine&, const sft::PeGroup&, void*, const void*, sft::StridedBlock) noexcept;

void look_at(const Members& members, Sync) noexcept { sft::check_sync(members.engine, members.call()); }

void look_at(const Members& members, Move operation, void* dest, const void* source, std::size_t bytes) noexcept {
    const auto shape = operation == sft::alltoall ? sft::CollectiveShape::exchanged : sft::CollectiveShape::gathered;
    sft::check_data(members.engine, members.call(),
                    {dest, source, bytes / members.element_bytes, shape, operation != sft::collect, {}});
}

void look_at(const Members& members, Broadcast, void* dest, const void* source, std::size_t bytes,
             sft::BroadcastRoot root) noexcept {
    sft::check_broadcast(members.engine, members.call(),
                         {dest, source, bytes / members.element_bytes, sft::CollectiveShape::same, true, {}}, root);
}

void look_at(const Members& members, MoveStrided, void* dest, const void* source, sft::StridedBlock block) noexcept {
    sft::check_data(members.engine, members.call(),
                    {dest, source, block.nelems, sft::CollectiveShape::exchanged, true, block.strides});
}

// What the record of the start-up has to know: where the data arrives.
sft::StartupCall gives(const sft::StartupCall& told, const Members& members, Move operation, void* dest, const void*,
                       std::size_t bytes) noexcept {
    const auto size = static_cast<std::size_t>(std::max(members.group.size, 0));
    const sft::StartupCall call = told.with_symmetric(members.engine, dest).with(bytes);
    if (operation != sft::collect) {
        return call.filling(dest, bytes * size);
    }
    // Only all of them together know how much that is. A substitute finds it in the record.
    sft::StartupCall all = call;
    all.out = {dest, SIZE_MAX, 1, 0};
    if (members.engine.startup->is_recording()) {
        std::uint64_t own = bytes;
        std::uint64_t total = 0;
        all.out.bytes =
            sft::reduce(members.engine, members.group, &total, &own, 1, sft::element_kind<sft::Sum, std::uint64_t>())
                ? total
                : 0;
    }
    return all;
}

sft::StartupCall gives(const sft::StartupCall& told, const Members& members, Broadcast, void* dest, const void*,
                       std::size_t bytes, sft::BroadcastRoot root) noexcept {
    const sft::StartupCall call =
        told.with_symmetric(members.engine, dest).with(bytes).with(static_cast<std::uint64_t>(root.index));
    const bool is_filled = root.dest == sft::RootDest::written || root.index != members.group.me;
    return is_filled ? call.filling(dest, bytes) : call;
}

sft::StartupCall gives(const sft::StartupCall& told, const Members& members, MoveStrided, void* dest, const void*,
                       sft::StridedBlock block) noexcept {
    const auto size = static_cast<std::size_t>(std::max(members.group.size, 0));
    const auto step = static_cast<std::size_t>(block.strides.dest) * block.element_bytes;
    return told.with_symmetric(members.engine, dest)
        .filling_pieces({dest, block.element_bytes, block.nelems * size, step});
}

template <class... Arguments>
sft::StartupCall given(const sft::StartupCall& told, const Members& members,
                       bool (*operation)(sft::Engine&, const sft::PeGroup&, Arguments...) noexcept,
                       std::type_identity_t<Arguments>... arguments) noexcept {
    return members.group.me < 0 ? told : gives(told, members, operation, arguments...);
}

// Reads as: this call of one of the operations on these members.
template <class Call, class... Arguments>
bool on(const Call&, const Members& members,
        bool (*operation)(sft::Engine&, const sft::PeGroup&, Arguments...) noexcept,
        std::type_identity_t<Arguments>... arguments) noexcept {
    if (members.group.me < 0) [[unlikely]] {
        return false;  // not a member of the active set: nothing to do; or a group of nobody because of a fault
    }
    if constexpr (std::is_same_v<Call, sft::CheckedCall>) {
        if (members.engine.checker != nullptr) {
            look_at(members, operation, arguments...);
        }
    }
    // A copy, because the operation may look at all of an object of which it is given a part.
    const sft::PeGroup group = members.group;
    return operation(members.engine, group, arguments...);
}

}  // namespace

SFT_WAITING_ENTRY(void, shmem_barrier_all, (void), void(on(call, Members("shmem_barrier_all"), sft::barrier)))
SFT_WAITING_ENTRY(void, shmem_sync_all, (void), void(on(call, Members("shmem_sync_all"), sft::sync)))
SFT_WAITING_ENTRY(int, shmem_team_sync, (shmem_team_t team),
                  status(on(call, Members("shmem_team_sync", team), sft::sync)))

#define SYNC(NAME, PSYNC_ELEMENTS, OPERATION)                                                                       \
    SFT_WAITING_ENTRY(                                                                                              \
        void, NAME, (int PE_start, int logPE_stride, int PE_size, long* pSync),                                     \
        void(on(call,                                                                                               \
                Members(#NAME, sft::ActiveSet{PE_start, logPE_stride, PE_size}, sync_array(pSync, PSYNC_ELEMENTS)), \
                sft::OPERATION)))
SYNC(shmem_barrier, SHMEM_BARRIER_SYNC_SIZE, barrier)
SYNC(shmem_sync, SHMEM_SYNC_SIZE, sync)

// A routine that moves `nelems` elements of BYTES: for a team, and (32 and 64 bits only) for an active set.
#define TEAM(TAIL, TYPE, BYTES, EXTRA, OPERATION, ...)                                           \
    SFT_WAITING_TOLD_ENTRY(                                                                      \
        int, shmem_##TAIL, (shmem_team_t team, TYPE * dest, const TYPE* source, SFT_OPEN EXTRA), \
        given(told, Members(told, team, BYTES), sft::OPERATION, dest, source, __VA_ARGS__),      \
        status(on(call, Members("shmem_" #TAIL, team, BYTES), sft::OPERATION, dest, source, __VA_ARGS__)))
#define ACTIVE(TAIL, BITS, EXTRA, PSYNC_ELEMENTS, OPERATION, ...)                                                 \
    SFT_WAITING_TOLD_ENTRY(void, shmem_##TAIL##BITS,                                                              \
                           (void* dest, const void* source, SFT_OPEN EXTRA, int PE_start, int logPE_stride,       \
                            int PE_size, long* pSync),                                                            \
                           given(told, Members(told, sft::ActiveSet{PE_start, logPE_stride, PE_size}, BITS / 8),  \
                                 sft::OPERATION, dest, source, __VA_ARGS__),                                      \
                           void(on(call,                                                                          \
                                   Members("shmem_" #TAIL #BITS, sft::ActiveSet{PE_start, logPE_stride, PE_size}, \
                                           sync_array(pSync, PSYNC_ELEMENTS), BITS / 8),                          \
                                   sft::OPERATION, dest, source, __VA_ARGS__)))

#define SIMPLE(NAME, TYPE, BYTES, OPERATION) TEAM(NAME, TYPE, BYTES, (std::size_t nelems), OPERATION, nelems* BYTES)
#define BROADCAST(NAME, TYPE, BYTES)                                                     \
    TEAM(NAME, TYPE, BYTES, (std::size_t nelems, int PE_root), broadcast, nelems* BYTES, \
         sft::BroadcastRoot{PE_root, sft::RootDest::written})
#define ALLTOALLS(NAME, TYPE, BYTES)                                                                 \
    TEAM(NAME, TYPE, BYTES, (std::ptrdiff_t dst, std::ptrdiff_t sst, std::size_t nelems), alltoalls, \
         sft::StridedBlock{nelems, {dst, sst}, BYTES})

#define TYPED(N, T)                              \
    SIMPLE(N##_fcollect, T, sizeof(T), fcollect) \
    SIMPLE(N##_collect, T, sizeof(T), collect)   \
    SIMPLE(N##_alltoall, T, sizeof(T), alltoall) \
    BROADCAST(N##_broadcast, T, sizeof(T))       \
    ALLTOALLS(N##_alltoalls, T, sizeof(T))
SFT_FOR_RMA(TYPED)

SIMPLE(fcollectmem, void, 1, fcollect)
SIMPLE(collectmem, void, 1, collect)
SIMPLE(alltoallmem, void, 1, alltoall)
BROADCAST(broadcastmem, void, 1)
ALLTOALLS(alltoallsmem, void, 1)

#define SIZED(BITS)                                                                                                  \
    ACTIVE(fcollect, BITS, (std::size_t nelems), SHMEM_COLLECT_SYNC_SIZE, fcollect, nelems*(BITS / 8))               \
    ACTIVE(collect, BITS, (std::size_t nelems), SHMEM_COLLECT_SYNC_SIZE, collect, nelems*(BITS / 8))                 \
    ACTIVE(alltoall, BITS, (std::size_t nelems), SHMEM_ALLTOALL_SYNC_SIZE, alltoall, nelems*(BITS / 8))              \
    ACTIVE(broadcast, BITS, (std::size_t nelems, int PE_root), SHMEM_BCAST_SYNC_SIZE, broadcast, nelems*(BITS / 8),  \
           sft::BroadcastRoot{PE_root, sft::RootDest::untouched})                                                    \
    ACTIVE(alltoalls, BITS, (std::ptrdiff_t dst, std::ptrdiff_t sst, std::size_t nelems), SHMEM_ALLTOALLS_SYNC_SIZE, \
           alltoalls, sft::StridedBlock{nelems, {dst, sst}, BITS / 8})
SIZED(32)
SIZED(64)

#undef SYNC
#undef TEAM
#undef ACTIVE
#undef SIMPLE
#undef BROADCAST
#undef ALLTOALLS
#undef TYPED
#undef SIZED
