// Barriers, syncs and collective data movement: team forms of every type, and the old active-set forms.
#include "shmem_ft/ops/collectives.hpp"

#include "shmem_ft/api/stamp.hpp"
#include "shmem_ft/ops/teams.hpp"

namespace {

// The C interface counts success as 0.
int status(bool ok) noexcept { return ok ? 0 : 1; }

// Who takes part in a call.
struct Members {
    Members(const char* routine, shmem_team_t team) noexcept
        : engine(sft::engine(routine)), group(sft::team_group(engine, sft::team_id(team), routine)) {}
    Members(const char* routine, sft::ActiveSet set) noexcept
        : engine(sft::engine(routine)), group(sft::active_group(engine, set, routine)) {}
    explicit Members(const char* routine) noexcept : engine(sft::engine(routine)), group(sft::world(engine)) {}

    sft::Engine& engine;
    sft::PeGroup group;
};

// Reads as: one of the operations on these members.
template <class... Arguments>
bool on(const Members& members, bool (*operation)(sft::Engine&, const sft::PeGroup&, Arguments...) noexcept,
        std::type_identity_t<Arguments>... arguments) noexcept {
    return operation(members.engine, members.group, arguments...);
}

}  // namespace

SFT_WAITING_ENTRY(void, shmem_barrier_all, (void), void(on(Members("shmem_barrier_all"), sft::barrier)))
SFT_WAITING_ENTRY(void, shmem_sync_all, (void), void(on(Members("shmem_sync_all"), sft::sync)))
SFT_WAITING_ENTRY(int, shmem_team_sync, (shmem_team_t team), status(on(Members("shmem_team_sync", team), sft::sync)))
SFT_WAITING_ENTRY(void, shmem_barrier, (int PE_start, int logPE_stride, int PE_size, long*),
                  void(on(Members("shmem_barrier", sft::ActiveSet{PE_start, logPE_stride, PE_size}), sft::barrier)))
SFT_WAITING_ENTRY(void, shmem_sync, (int PE_start, int logPE_stride, int PE_size, long*),
                  void(on(Members("shmem_sync", sft::ActiveSet{PE_start, logPE_stride, PE_size}), sft::sync)))

// A routine that moves `nelems` elements of BYTES: for a team, and (32 and 64 bits only) for an active set.
#define TEAM(TAIL, TYPE, EXTRA, OPERATION, ...)                                                                \
    SFT_WAITING_ENTRY(int, shmem_##TAIL, (shmem_team_t team, TYPE * dest, const TYPE* source, SFT_OPEN EXTRA), \
                      status(on(Members("shmem_" #TAIL, team), sft::OPERATION, dest, source, __VA_ARGS__)))
#define ACTIVE(TAIL, EXTRA, OPERATION, ...)                                                                         \
    SFT_WAITING_ENTRY(void, shmem_##TAIL,                                                                           \
                      (void* dest, const void* source, SFT_OPEN EXTRA, int PE_start, int logPE_stride, int PE_size, \
                       long*),                                                                                      \
                      void(on(Members("shmem_" #TAIL, sft::ActiveSet{PE_start, logPE_stride, PE_size}),             \
                              sft::OPERATION, dest, source, __VA_ARGS__)))

#define SIMPLE(NAME, TYPE, BYTES, OPERATION) TEAM(NAME, TYPE, (std::size_t nelems), OPERATION, nelems* BYTES)
#define BROADCAST(NAME, TYPE, BYTES)                                              \
    TEAM(NAME, TYPE, (std::size_t nelems, int PE_root), broadcast, nelems* BYTES, \
         sft::BroadcastRoot{PE_root, sft::RootDest::written})
#define ALLTOALLS(NAME, TYPE, BYTES)                                                          \
    TEAM(NAME, TYPE, (std::ptrdiff_t dst, std::ptrdiff_t sst, std::size_t nelems), alltoalls, \
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

#define SIZED(BITS)                                                                                  \
    ACTIVE(fcollect##BITS, (std::size_t nelems), fcollect, nelems*(BITS / 8))                        \
    ACTIVE(collect##BITS, (std::size_t nelems), collect, nelems*(BITS / 8))                          \
    ACTIVE(alltoall##BITS, (std::size_t nelems), alltoall, nelems*(BITS / 8))                        \
    ACTIVE(broadcast##BITS, (std::size_t nelems, int PE_root), broadcast, nelems*(BITS / 8),         \
           sft::BroadcastRoot{PE_root, sft::RootDest::untouched})                                    \
    ACTIVE(alltoalls##BITS, (std::ptrdiff_t dst, std::ptrdiff_t sst, std::size_t nelems), alltoalls, \
           sft::StridedBlock{nelems, {dst, sst}, BITS / 8})
SIZED(32)
SIZED(64)
