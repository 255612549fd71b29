// iput, iget, ibput, ibget: every type and size, with and without a context.
#include "shmem_ft/api/stamp.hpp"
#include "shmem_ft/ops/rma.hpp"

// Behind the last argument of an operation: nothing, or what makes it meet faults.
#define PUT
#define GET , routine
#define ELEMENTS(TAIL, WITH, OPERATION, TYPE, BYTES)                                                                \
    SFT_ENTRY_AND_CTX(void, TAIL,                                                                                   \
                      (TYPE * dest, const TYPE* source, std::ptrdiff_t dst, std::ptrdiff_t sst, std::size_t nelems, \
                       int pe),                                                                                     \
                      void(sft::OPERATION<BYTES>(to, dest, source, sft::Strides{dst, sst}, nelems WITH)))
#define BLOCKS(TAIL, WITH, OPERATION, TYPE, BYTES)                                                                 \
    SFT_ENTRY_AND_CTX(void, TAIL,                                                                                  \
                      (TYPE * dest, const TYPE* source, std::ptrdiff_t dst, std::ptrdiff_t sst, std::size_t bsize, \
                       std::size_t nblocks, int pe),                                                               \
                      void(sft::OPERATION<BYTES>(to, dest, source, sft::Strides{dst, sst}, bsize, nblocks WITH)))

#define TYPED(NAME, TYPE)                                \
    ELEMENTS(NAME##_iput, PUT, iput, TYPE, sizeof(TYPE)) \
    ELEMENTS(NAME##_iget, GET, iget, TYPE, sizeof(TYPE)) \
    BLOCKS(NAME##_ibput, PUT, ibput, TYPE, sizeof(TYPE)) \
    BLOCKS(NAME##_ibget, GET, ibget, TYPE, sizeof(TYPE))
SFT_FOR_RMA(TYPED)

#define SIZED(BITS)                                 \
    ELEMENTS(iput##BITS, PUT, iput, void, BITS / 8) \
    ELEMENTS(iget##BITS, GET, iget, void, BITS / 8) \
    BLOCKS(ibput##BITS, PUT, ibput, void, BITS / 8) \
    BLOCKS(ibget##BITS, GET, ibget, void, BITS / 8)
SIZED(8)
SIZED(16)
SIZED(32)
SIZED(64)
SIZED(128)

#undef PUT
#undef GET
#undef ELEMENTS
#undef BLOCKS
#undef TYPED
#undef SIZED
