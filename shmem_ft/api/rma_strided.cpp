// iput, iget, ibput, ibget: every type and size, with and without a context.
#include "shmem_ft/api/stamp.hpp"
#include "shmem_ft/ops/rma.hpp"

#define ELEMENTS(TAIL, OPERATION, TYPE, BYTES)                                                                      \
    SFT_ENTRY_AND_CTX(void, TAIL,                                                                                   \
                      (TYPE * dest, const TYPE* source, std::ptrdiff_t dst, std::ptrdiff_t sst, std::size_t nelems, \
                       int pe),                                                                                     \
                      sft::OPERATION<BYTES>(to, dest, source, sft::Strides{dst, sst}, nelems))
#define BLOCKS(TAIL, OPERATION, TYPE, BYTES)                                                                       \
    SFT_ENTRY_AND_CTX(void, TAIL,                                                                                  \
                      (TYPE * dest, const TYPE* source, std::ptrdiff_t dst, std::ptrdiff_t sst, std::size_t bsize, \
                       std::size_t nblocks, int pe),                                                               \
                      sft::OPERATION<BYTES>(to, dest, source, sft::Strides{dst, sst}, bsize, nblocks))

#define TYPED(NAME, TYPE)                           \
    ELEMENTS(NAME##_iput, iput, TYPE, sizeof(TYPE)) \
    ELEMENTS(NAME##_iget, iget, TYPE, sizeof(TYPE)) \
    BLOCKS(NAME##_ibput, ibput, TYPE, sizeof(TYPE)) \
    BLOCKS(NAME##_ibget, ibget, TYPE, sizeof(TYPE))
SFT_FOR_RMA(TYPED)

#define SIZED(BITS)                            \
    ELEMENTS(iput##BITS, iput, void, BITS / 8) \
    ELEMENTS(iget##BITS, iget, void, BITS / 8) \
    BLOCKS(ibput##BITS, ibput, void, BITS / 8) \
    BLOCKS(ibget##BITS, ibget, void, BITS / 8)
SIZED(8)
SIZED(16)
SIZED(32)
SIZED(64)
SIZED(128)
