// Reductions over teams and active sets, and scans.
#include "shmem_ft/ops/reductions.hpp"

#include <algorithm>

#include "shmem_ft/api/stamp.hpp"
#include "shmem_ft/ops/check_collective.hpp"
#include "shmem_ft/ops/teams.hpp"

namespace {

// Looks at the arguments, if calls are checked.
void look_at(sft::Engine& e, const sft::CollectiveCall& call, void* dest, const void* source,
             std::size_t count) noexcept {
    if (sft::is_checking()) [[unlikely]] {
        sft::check_data(e, call, {dest, source, count, sft::CollectiveShape::same, true, {}});
    }
}

int reduce_team(const char* routine, shmem_team_t team, void* dest, const void* source, std::size_t count,
                sft::ElementKind kind) noexcept {
    sft::Engine& e = sft::engine(routine);
    const sft::PeGroup& group = sft::team_group(e, sft::team_id(team), routine);
    look_at(e, {routine, group, kind.bytes, {}}, dest, source, count);
    return sft::reduce(e, group, dest, source, count, kind) ? 0 : 1;
}

struct SetWork {
    const void* pwrk;
    const long* psync;
};

void reduce_set(const char* routine, sft::ActiveSet set, void* dest, const void* source, int count,
                sft::ElementKind kind, SetWork work) noexcept {
    sft::Engine& e = sft::engine(routine);
    const std::size_t nreduce = count > 0 ? static_cast<std::size_t>(count) : 0;
    const sft::PeGroup group = sft::active_group(e, set, routine);
    if (group.me < 0) [[unlikely]] {
        return;
    }
    const std::size_t pwrk_elements = std::max<std::size_t>(nreduce / 2 + 1, SHMEM_REDUCE_MIN_WRKDATA_SIZE);
    look_at(e,
            {routine,
             group,
             kind.bytes,
             {work.psync, SHMEM_REDUCE_SYNC_SIZE, SHMEM_SYNC_VALUE, work.pwrk, nreduce == 0 ? 0 : pwrk_elements}},
            dest, source, nreduce);
    // The old form has no way to tell of a fault; the next status check does.
    static_cast<void>(sft::reduce(e, group, dest, source, nreduce, kind));
}

int scan_team(const char* routine, shmem_team_t team, void* dest, const void* source, std::size_t count,
              sft::ElementKind kind, sft::ScanKind scan_kind) noexcept {
    sft::Engine& e = sft::engine(routine);
    const sft::PeGroup& group = sft::team_group(e, sft::team_id(team), routine);
    look_at(e, {routine, group, kind.bytes, {}}, dest, source, count);
    return sft::scan(e, group, dest, source, count, kind, scan_kind) ? 0 : 1;
}

// For the record of the start-up. A PE outside of the set gets nothing.
sft::StartupCall set_result(const sft::StartupCall& told, sft::Engine& e, sft::ActiveSet set, void* dest, int count,
                            std::size_t bytes) noexcept {
    const bool is_member = sft::active_group(e, set, told.where.routine, sft::Outsider::known).me >= 0;
    const std::size_t n = count > 0 && is_member ? static_cast<std::size_t>(count) : 0;
    return told.with_symmetric(e, dest).filling(dest, n * bytes);
}

}  // namespace

#define TEAM(N, T, OPERATION, OPERATOR)                                                                   \
    SFT_WAITING_TOLD_ENTRY(int, shmem_##N##_##OPERATION##_reduce,                                         \
                           (shmem_team_t team, T * dest, const T* source, std::size_t nreduce),           \
                           told.with_symmetric(e, dest).filling(dest, nreduce * sizeof(T)),               \
                           reduce_team("shmem_" #N "_" #OPERATION "_reduce", team, dest, source, nreduce, \
                                       sft::element_kind<sft::OPERATOR, T>()))
#define ACTIVE(N, T, OPERATION, OPERATOR)                                                                            \
    SFT_WAITING_TOLD_ENTRY(void, shmem_##N##_##OPERATION##_to_all,                                                   \
                           (T * dest, const T* source, int nreduce, int PE_start, int logPE_stride, int PE_size,     \
                            T* pWrk, long* pSync),                                                                   \
                           set_result(told, e, {PE_start, logPE_stride, PE_size}, dest, nreduce, sizeof(T)),         \
                           reduce_set("shmem_" #N "_" #OPERATION "_to_all", {PE_start, logPE_stride, PE_size}, dest, \
                                      source, nreduce, sft::element_kind<sft::OPERATOR, T>(), {pWrk, pSync}))
#define SCAN(N, T, OPERATION, KIND)                                                              \
    SFT_WAITING_TOLD_ENTRY(int, shmem_##N##_sum_##OPERATION,                                     \
                           (shmem_team_t team, T * dest, const T* source, std::size_t nelems),   \
                           told.with_symmetric(e, dest).filling(dest, nelems * sizeof(T)),       \
                           scan_team("shmem_" #N "_sum_" #OPERATION, team, dest, source, nelems, \
                                     sft::element_kind<sft::Sum, T>(), sft::ScanKind::KIND))

#define LOGIC(FORM, N, T) \
    FORM(N, T, and, And)  \
    FORM(N, T, or, Or)    \
    FORM(N, T, xor, Xor)
#define MINMAX(FORM, N, T)   \
    FORM(N, T, max, Maximum) \
    FORM(N, T, min, Minimum)
#define SUM(FORM, N, T)  \
    FORM(N, T, sum, Sum) \
    FORM(N, T, prod, Product)

#define TEAM_LOGIC(N, T) LOGIC(TEAM, N, T)
#define TEAM_MINMAX(N, T) MINMAX(TEAM, N, T)
#define TEAM_SUM(N, T) SUM(TEAM, N, T)
SFT_FOR_LOGIC(TEAM_LOGIC)
SFT_FOR_MINMAX(TEAM_MINMAX)
SFT_FOR_SUM(TEAM_SUM)

#define ACTIVE_LOGIC(N, T) LOGIC(ACTIVE, N, T)
#define ACTIVE_MINMAX(N, T) MINMAX(ACTIVE, N, T)
#define ACTIVE_SUM(N, T) SUM(ACTIVE, N, T)
SFT_FOR_LOGIC_ALL(ACTIVE_LOGIC)
SFT_FOR_MINMAX_ALL(ACTIVE_MINMAX)
SFT_FOR_SUM_ALL(ACTIVE_SUM)

#define SCANS(N, T)               \
    SCAN(N, T, inscan, inclusive) \
    SCAN(N, T, exscan, exclusive)
SFT_FOR_SUM(SCANS)

#undef TEAM
#undef ACTIVE
#undef SCAN
#undef LOGIC
#undef MINMAX
#undef SUM
#undef TEAM_LOGIC
#undef TEAM_MINMAX
#undef TEAM_SUM
#undef ACTIVE_LOGIC
#undef ACTIVE_MINMAX
#undef ACTIVE_SUM
#undef SCANS
