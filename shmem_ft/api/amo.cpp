// Atomic memory operations: every type, with and without a context, blocking and not, and the old names.
#include "shmem_ft/ops/amo.hpp"

#include "shmem_ft/api/stamp.hpp"

// An entry of the current interface.
#define AMO(RESULT, TAIL, PARAMETERS, ...) SFT_ENTRY_AND_CTX(RESULT, TAIL, PARAMETERS, __VA_ARGS__)
// One that gives the old content: programs wait with these, for a lock of their own or a counter of another PE.
#define FETCHING(RESULT, TAIL, PARAMETERS, ...) \
    AMO(RESULT, TAIL, PARAMETERS, sft::result_unless_fault(to, routine, __VA_ARGS__))
// An entry under an old name: the world only.
#define OLD(RESULT, TAIL, PARAMETERS, ...) SFT_ENTRY_TO(RESULT, shmem_##TAIL, PARAMETERS, (pe), __VA_ARGS__)
#define OLD_FETCHING(RESULT, TAIL, PARAMETERS, ...) \
    OLD(RESULT, TAIL, PARAMETERS, sft::result_unless_fault(to, routine, __VA_ARGS__))

#define EXTENDED(N, T)                                                                           \
    FETCHING(T, N##_atomic_fetch, (const T* source, int pe), sft::atomic_fetch(to, source))      \
    AMO(void, N##_atomic_set, (T * dest, T value, int pe), sft::atomic_set(to, dest, value))     \
    FETCHING(T, N##_atomic_swap, (T * dest, T value, int pe), sft::atomic_swap(to, dest, value)) \
    AMO(void, N##_atomic_fetch_nbi, (T * fetch, const T* source, int pe),                        \
        void(sft::fetched(to, fetch) = sft::atomic_fetch(to, source)))                           \
    AMO(void, N##_atomic_swap_nbi, (T * fetch, T * dest, T value, int pe),                       \
        void(sft::fetched(to, fetch) = sft::atomic_swap(to, dest, value)))
SFT_FOR_EXT(EXTENDED)

#define STANDARD(N, T)                                                                                        \
    FETCHING(T, N##_atomic_compare_swap, (T * dest, T cond, T value, int pe),                                 \
             sft::atomic_compare_swap(to, dest, cond, value))                                                 \
    FETCHING(T, N##_atomic_fetch_inc, (T * dest, int pe), sft::atomic_fetch_add(to, dest, static_cast<T>(1))) \
    AMO(void, N##_atomic_inc, (T * dest, int pe), sft::atomic_add(to, dest, static_cast<T>(1)))               \
    FETCHING(T, N##_atomic_fetch_add, (T * dest, T value, int pe), sft::atomic_fetch_add(to, dest, value))    \
    AMO(void, N##_atomic_add, (T * dest, T value, int pe), sft::atomic_add(to, dest, value))                  \
    AMO(void, N##_atomic_compare_swap_nbi, (T * fetch, T * dest, T cond, T value, int pe),                    \
        void(sft::fetched(to, fetch) = sft::atomic_compare_swap(to, dest, cond, value)))                      \
    AMO(void, N##_atomic_fetch_inc_nbi, (T * fetch, T * dest, int pe),                                        \
        void(sft::fetched(to, fetch) = sft::atomic_fetch_add(to, dest, static_cast<T>(1))))                   \
    AMO(void, N##_atomic_fetch_add_nbi, (T * fetch, T * dest, T value, int pe),                               \
        void(sft::fetched(to, fetch) = sft::atomic_fetch_add(to, dest, value)))
SFT_FOR_AMO(STANDARD)

#define BITWISE_ONE(N, T, OPERATION)                                                                         \
    FETCHING(T, N##_atomic_fetch_##OPERATION, (T * dest, T value, int pe),                                   \
             sft::atomic_fetch_##OPERATION(to, dest, value))                                                 \
    AMO(void, N##_atomic_##OPERATION, (T * dest, T value, int pe), sft::atomic_##OPERATION(to, dest, value)) \
    AMO(void, N##_atomic_fetch_##OPERATION##_nbi, (T * fetch, T * dest, T value, int pe),                    \
        void(sft::fetched(to, fetch) = sft::atomic_fetch_##OPERATION(to, dest, value)))
#define BITWISE_AND(N, T) BITWISE_ONE(N, T, and)
#define BITWISE_OR(N, T) BITWISE_ONE(N, T, or)
#define BITWISE_XOR(N, T) BITWISE_ONE(N, T, xor)
SFT_FOR_BIT(BITWISE_AND)
SFT_FOR_BIT(BITWISE_OR)
SFT_FOR_BIT(BITWISE_XOR)

#define OLD_EXTENDED(N, T)                                                               \
    OLD_FETCHING(T, N##_fetch, (const T* source, int pe), sft::atomic_fetch(to, source)) \
    OLD(void, N##_set, (T * dest, T value, int pe), sft::atomic_set(to, dest, value))    \
    OLD_FETCHING(T, N##_swap, (T * dest, T value, int pe), sft::atomic_swap(to, dest, value))
SFT_FOR_OLD_EXT(OLD_EXTENDED)

#define OLD_STANDARD(N, T)                                                                                           \
    OLD_FETCHING(T, N##_cswap, (T * dest, T cond, T value, int pe), sft::atomic_compare_swap(to, dest, cond, value)) \
    OLD_FETCHING(T, N##_finc, (T * dest, int pe), sft::atomic_fetch_add(to, dest, static_cast<T>(1)))                \
    OLD(void, N##_inc, (T * dest, int pe), sft::atomic_add(to, dest, static_cast<T>(1)))                             \
    OLD_FETCHING(T, N##_fadd, (T * dest, T value, int pe), sft::atomic_fetch_add(to, dest, value))                   \
    OLD(void, N##_add, (T * dest, T value, int pe), sft::atomic_add(to, dest, value))
SFT_FOR_OLD_AMO(OLD_STANDARD)

#undef AMO
#undef FETCHING
#undef OLD
#undef OLD_FETCHING
#undef EXTENDED
#undef STANDARD
#undef BITWISE_ONE
#undef BITWISE_AND
#undef BITWISE_OR
#undef BITWISE_XOR
#undef OLD_EXTENDED
#undef OLD_STANDARD
