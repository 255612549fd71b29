// Waiting for and testing variables: every type and form.
#include "shmem_ft/ops/p2p.hpp"

#include "shmem_ft/api/stamp.hpp"

static_assert(SHMEM_CMP_EQ == static_cast<int>(sft::Comparison::eq));
static_assert(SHMEM_CMP_NE == static_cast<int>(sft::Comparison::ne));
static_assert(SHMEM_CMP_GT == static_cast<int>(sft::Comparison::gt));
static_assert(SHMEM_CMP_GE == static_cast<int>(sft::Comparison::ge));
static_assert(SHMEM_CMP_LT == static_cast<int>(sft::Comparison::lt));
static_assert(SHMEM_CMP_LE == static_cast<int>(sft::Comparison::le));

namespace {

// The forms with `some` fill an array of indices; the others name their variables instead.
template <class T>
sft::StartupCall giving_indices(const sft::StartupCall& call, T*, std::size_t* indices) noexcept {
    return call.filling_per_result(indices, sizeof *indices);
}
template <class T>
sft::StartupCall giving_indices(const sft::StartupCall& call, T*, T*) noexcept {
    return call;
}
inline sft::StartupCall giving_indices(const sft::StartupCall& call, std::size_t* ivars,
                                       std::size_t* indices) noexcept {
    return ivars == indices ? call : call.filling_per_result(indices, sizeof *indices);
}

}  // namespace

// The engine, for one variable and for arrays.
#define WATCH(ROUTINE, IVAR, CMP) sft::engine(call, ROUTINE, {#IVAR, IVAR, 1, sizeof *IVAR, CMP, IVAR, IVAR})
#define WATCH_SET(ROUTINE, INDICES, OPERANDS) \
    sft::engine(call, ROUTINE, {"ivars", ivars, nelems, sizeof *ivars, cmp, INDICES, OPERANDS})

// For the record of the start-up: the variables may be read behind the call.
#define SEEN(IVARS, N, CMP) told.seeing(IVARS, (N) * sizeof *(IVARS)).with(static_cast<std::uint64_t>(CMP))

#define ONE(NAME, TYPE)                                                                                           \
    SFT_WAITING_TOLD_ENTRY(void, shmem_##NAME##_wait_until, (TYPE * ivar, int cmp, TYPE cmp_value),               \
                           SEEN(ivar, 1, cmp),                                                                    \
                           sft::wait_until(WATCH("shmem_" #NAME "_wait_until", ivar, cmp), ivar, cmp, cmp_value)) \
    SFT_WAITING_TOLD_ENTRY(int, shmem_##NAME##_test, (TYPE * ivar, int cmp, TYPE cmp_value), SEEN(ivar, 1, cmp),  \
                           sft::test(WATCH("shmem_" #NAME "_test", ivar, cmp), ivar, cmp, cmp_value))
SFT_FOR_P2P(ONE)

#define OLD_WAIT(NAME, TYPE)                                                                                      \
    SFT_WAITING_TOLD_ENTRY(void, shmem_##NAME##_wait, (TYPE * ivar, TYPE cmp_value), SEEN(ivar, 1, 0),            \
                           sft::wait_until(WATCH("shmem_" #NAME "_wait", ivar, SHMEM_CMP_NE), ivar, SHMEM_CMP_NE, \
                                           cmp_value))
SFT_FOR_WAIT(OLD_WAIT)

SFT_WAITING_TOLD_ENTRY(void, shmem_wait, (long* ivar, long cmp_value), SEEN(ivar, 1, 0),
                       sft::wait_until(WATCH("shmem_wait", ivar, SHMEM_CMP_NE), ivar, SHMEM_CMP_NE, cmp_value))
SFT_WAITING_TOLD_ENTRY(void, shmem_wait_until, (long* ivar, int cmp, long cmp_value), SEEN(ivar, 1, cmp),
                       sft::wait_until(WATCH("shmem_wait_until", ivar, cmp), ivar, cmp, cmp_value))

// all, any, some; with one operand for all variables (&cmp_value, 0) or one each (cmp_values, 1).
#define PLAIN(RESULT, NAME, TYPE, OPERATION, INDICES, PASS, OUT)                                         \
    SFT_WAITING_TOLD_ENTRY(                                                                              \
        RESULT, shmem_##NAME##_##OPERATION,                                                              \
        (TYPE * ivars, std::size_t nelems, SFT_OPEN INDICES const int* status, int cmp, TYPE cmp_value), \
        giving_indices(SEEN(ivars, nelems, cmp), ivars, OUT),                                            \
        sft::OPERATION(WATCH_SET("shmem_" #NAME "_" #OPERATION, OUT, &cmp_value),                        \
                       sft::WatchedSet<TYPE>{ivars, nelems, status, cmp, &cmp_value, 0} SFT_OPEN PASS))
#define VECTOR(RESULT, NAME, TYPE, OPERATION, INDICES, PASS, OUT)                                                \
    SFT_WAITING_TOLD_ENTRY(                                                                                      \
        RESULT, shmem_##NAME##_##OPERATION##_vector,                                                             \
        (TYPE * ivars, std::size_t nelems, SFT_OPEN INDICES const int* status, int cmp, const TYPE* cmp_values), \
        giving_indices(SEEN(ivars, nelems, cmp), ivars, OUT),                                                    \
        sft::OPERATION(WATCH_SET("shmem_" #NAME "_" #OPERATION "_vector", OUT, cmp_values),                      \
                       sft::WatchedSet<TYPE>{ivars, nelems, status, cmp, cmp_values, 1} SFT_OPEN PASS))
#define BOTH(RESULT, NAME, TYPE, OPERATION, INDICES, PASS, OUT) \
    PLAIN(RESULT, NAME, TYPE, OPERATION, INDICES, PASS, OUT)    \
    VECTOR(RESULT, NAME, TYPE, OPERATION, INDICES, PASS, OUT)

#define WAITS(NAME, TYPE)                                        \
    BOTH(void, NAME, TYPE, wait_until_all, (), (), ivars)        \
    BOTH(std::size_t, NAME, TYPE, wait_until_any, (), (), ivars) \
    BOTH(std::size_t, NAME, TYPE, wait_until_some, (std::size_t * indices, ), (, indices), indices)
SFT_FOR_AMO(WAITS)

#define TESTS(NAME, TYPE)                                  \
    BOTH(int, NAME, TYPE, test_all, (), (), ivars)         \
    BOTH(std::size_t, NAME, TYPE, test_any, (), (), ivars) \
    BOTH(std::size_t, NAME, TYPE, test_some, (std::size_t * indices, ), (, indices), indices)
SFT_FOR_AMO(TESTS)

#undef WATCH
#undef WATCH_SET
#undef SEEN
#undef ONE
#undef OLD_WAIT
#undef PLAIN
#undef VECTOR
#undef BOTH
#undef WAITS
#undef TESTS
