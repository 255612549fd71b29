// put, get, p, g: every type and size, with and without a context.
#include "shmem_ft/api/stamp.hpp"
#include "shmem_ft/ops/rma.hpp"

#define PUT(TAIL, TYPE, BYTES, WHEN)                                                             \
    SFT_ENTRY_AND_CTX(void, TAIL, (TYPE * dest, const TYPE* source, std::size_t nelems, int pe), \
                      sft::put<BYTES, sft::Completion::WHEN>(to, dest, source, nelems))
#define GET(TAIL, TYPE, BYTES, WHEN)                                                             \
    SFT_ENTRY_AND_CTX(void, TAIL, (TYPE * dest, const TYPE* source, std::size_t nelems, int pe), \
                      void(sft::get<BYTES, sft::Completion::WHEN>(to, dest, source, nelems, routine)))

#define G(TYPE, NAME, PARAMETERS, PE)                                      \
    namespace {                                                            \
    struct NAME##_routine {                                                \
        const char* operator()() const noexcept { return SFT_TEXT(NAME); } \
    };                                                                     \
    }                                                                      \
    SFT_ENTRY_TO(TYPE, NAME, PARAMETERS, PE, sft::get_value(to, source, NAME##_routine{}))

#define TYPED(NAME, TYPE)                                                                                 \
    PUT(NAME##_put, TYPE, sizeof(TYPE), at_once)                                                          \
    PUT(NAME##_put_nbi, TYPE, sizeof(TYPE), by_quiet)                                                     \
    GET(NAME##_get, TYPE, sizeof(TYPE), at_once)                                                          \
    GET(NAME##_get_nbi, TYPE, sizeof(TYPE), by_quiet)                                                     \
    SFT_ENTRY_AND_CTX(void, NAME##_p, (TYPE * dest, TYPE value, int pe), sft::put_value(to, dest, value)) \
    G(TYPE, shmem_##NAME##_g, (const TYPE* source, int pe), (pe))                                         \
    G(TYPE, shmem_ctx_##NAME##_g, (shmem_ctx_t ctx, const TYPE* source, int pe), (sft::ctx_id(ctx), pe))
SFT_FOR_RMA(TYPED)

#define SIZED(BITS)                                \
    PUT(put##BITS, void, BITS / 8, at_once)        \
    PUT(put##BITS##_nbi, void, BITS / 8, by_quiet) \
    GET(get##BITS, void, BITS / 8, at_once)        \
    GET(get##BITS##_nbi, void, BITS / 8, by_quiet)
SIZED(8)
SIZED(16)
SIZED(32)
SIZED(64)
SIZED(128)

#define PUT_MEM(TAIL, WHEN)                                                                     \
    SFT_ENTRY_AND_CTX(void, TAIL, (void* dest, const void* source, std::size_t nelems, int pe), \
                      sft::put_bytes<sft::Completion::WHEN>(to, dest, source, nelems))
#define GET_MEM(TAIL, WHEN)                                                                     \
    SFT_ENTRY_AND_CTX(void, TAIL, (void* dest, const void* source, std::size_t nelems, int pe), \
                      void(sft::get_bytes<sft::Completion::WHEN>(to, dest, source, nelems, routine)))
PUT_MEM(putmem, at_once)
PUT_MEM(putmem_nbi, by_quiet)
GET_MEM(getmem, at_once)
GET_MEM(getmem_nbi, by_quiet)

#undef PUT
#undef GET
#undef G
#undef TYPED
#undef SIZED
#undef PUT_MEM
#undef GET_MEM
