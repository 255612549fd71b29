// Reductions over teams and active sets, and scans.
#include "shmem_ft/ops/reductions.hpp"

#include "shmem_ft/api/stamp.hpp"
#include "shmem_ft/ops/teams.hpp"

namespace {

int reduce_team(const char* routine, shmem_team_t team, void* dest, const void* source, std::size_t count,
                sft::ElementKind kind) noexcept {
    sft::Engine& e = sft::engine(routine);
    return sft::reduce(e, sft::team_group(e, sft::team_id(team), routine), dest, source, count, kind) ? 0 : 1;
}

void reduce_set(const char* routine, sft::ActiveSet set, void* dest, const void* source, int count,
                sft::ElementKind kind) noexcept {
    sft::Engine& e = sft::engine(routine);
    const std::size_t elements = count > 0 ? static_cast<std::size_t>(count) : 0;
    // The old form has no way to tell of a fault; the next status check does.
    static_cast<void>(sft::reduce(e, sft::active_group(e, set, routine), dest, source, elements, kind));
}

int scan_team(const char* routine, shmem_team_t team, void* dest, const void* source, std::size_t count,
              sft::ElementKind kind, sft::ScanKind scan_kind) noexcept {
    sft::Engine& e = sft::engine(routine);
    return sft::scan(e, sft::team_group(e, sft::team_id(team), routine), dest, source, count, kind, scan_kind) ? 0 : 1;
}

}  // namespace

#define TEAM(N, T, OPERATION, OPERATOR)                                                              \
    SFT_WAITING_ENTRY(int, shmem_##N##_##OPERATION##_reduce,                                         \
                      (shmem_team_t team, T * dest, const T* source, std::size_t nreduce),           \
                      reduce_team("shmem_" #N "_" #OPERATION "_reduce", team, dest, source, nreduce, \
                                  sft::element_kind<sft::OPERATOR, T>()))
#define ACTIVE(N, T, OPERATION, OPERATOR)                                                                       \
    SFT_WAITING_ENTRY(void, shmem_##N##_##OPERATION##_to_all,                                                   \
                      (T * dest, const T* source, int nreduce, int PE_start, int logPE_stride, int PE_size, T*, \
                       long*),                                                                                  \
                      reduce_set("shmem_" #N "_" #OPERATION "_to_all", {PE_start, logPE_stride, PE_size}, dest, \
                                 source, nreduce, sft::element_kind<sft::OPERATOR, T>()))
#define SCAN(N, T, OPERATION, KIND)                                                         \
    SFT_WAITING_ENTRY(int, shmem_##N##_sum_##OPERATION,                                     \
                      (shmem_team_t team, T * dest, const T* source, std::size_t nelems),   \
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
