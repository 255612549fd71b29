// put, get, p, g: every type and size, with and without a context. Non-blocking forms are the blocking ones.
#include "shmem_ft/api/stamp.hpp"
#include "shmem_ft/ops/rma.hpp"

#define PUT(TAIL, TYPE, BYTES)                                                                   \
    SFT_ENTRY_AND_CTX(void, TAIL, (TYPE * dest, const TYPE* source, std::size_t nelems, int pe), \
                      sft::put<BYTES>(to, dest, source, nelems))
#define GET(TAIL, TYPE, BYTES)                                                                   \
    SFT_ENTRY_AND_CTX(void, TAIL, (TYPE * dest, const TYPE* source, std::size_t nelems, int pe), \
                      sft::get<BYTES>(to, dest, source, nelems))

#define TYPED(NAME, TYPE)                                                                                 \
    PUT(NAME##_put, TYPE, sizeof(TYPE))                                                                   \
    PUT(NAME##_put_nbi, TYPE, sizeof(TYPE))                                                               \
    GET(NAME##_get, TYPE, sizeof(TYPE))                                                                   \
    GET(NAME##_get_nbi, TYPE, sizeof(TYPE))                                                               \
    SFT_ENTRY_AND_CTX(void, NAME##_p, (TYPE * dest, TYPE value, int pe), sft::put_value(to, dest, value)) \
    SFT_ENTRY_AND_CTX(TYPE, NAME##_g, (const TYPE* source, int pe), sft::get_value(to, source))
SFT_FOR_RMA(TYPED)

#define SIZED(BITS)                      \
    PUT(put##BITS, void, BITS / 8)       \
    PUT(put##BITS##_nbi, void, BITS / 8) \
    GET(get##BITS, void, BITS / 8)       \
    GET(get##BITS##_nbi, void, BITS / 8)
SIZED(8)
SIZED(16)
SIZED(32)
SIZED(64)
SIZED(128)

#define PUT_MEM(TAIL)                                                                           \
    SFT_ENTRY_AND_CTX(void, TAIL, (void* dest, const void* source, std::size_t nelems, int pe), \
                      sft::put_bytes(to, dest, source, nelems))
#define GET_MEM(TAIL)                                                                           \
    SFT_ENTRY_AND_CTX(void, TAIL, (void* dest, const void* source, std::size_t nelems, int pe), \
                      sft::get_bytes(to, dest, source, nelems))
PUT_MEM(putmem)
PUT_MEM(putmem_nbi)
GET_MEM(getmem)
GET_MEM(getmem_nbi)
