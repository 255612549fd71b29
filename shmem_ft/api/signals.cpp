// Put with signal, and signals alone.
#include "shmem_ft/api/stamp.hpp"
#include "shmem_ft/ops/amo.hpp"
#include "shmem_ft/ops/p2p.hpp"

static_assert(SHMEM_SIGNAL_SET == static_cast<int>(sft::SignalOperation::set));
static_assert(SHMEM_SIGNAL_ADD == static_cast<int>(sft::SignalOperation::add));

#define PUT_SIGNAL(TAIL, TYPE, BYTES, WHEN)                                                          \
    SFT_ENTRY_AND_CTX(void, TAIL,                                                                    \
                      (TYPE * dest, const TYPE* source, std::size_t nelems, std::uint64_t* sig_addr, \
                       std::uint64_t signal, int sig_op, int pe),                                    \
                      sft::put_signal<BYTES, sft::Completion::WHEN>(to, dest, source, nelems,        \
                                                                    {sig_addr, signal, sig_op, routine}))

#define TYPED(NAME, TYPE)                                      \
    PUT_SIGNAL(NAME##_put_signal, TYPE, sizeof(TYPE), at_once) \
    PUT_SIGNAL(NAME##_put_signal_nbi, TYPE, sizeof(TYPE), by_quiet)
SFT_FOR_RMA(TYPED)

#define SIZED(BITS)                                         \
    PUT_SIGNAL(put##BITS##_signal, void, BITS / 8, at_once) \
    PUT_SIGNAL(put##BITS##_signal_nbi, void, BITS / 8, by_quiet)
SIZED(8)
SIZED(16)
SIZED(32)
SIZED(64)
SIZED(128)

#define PUT_MEM_SIGNAL(TAIL, WHEN)                                                                  \
    SFT_ENTRY_AND_CTX(void, TAIL,                                                                   \
                      (void* dest, const void* source, std::size_t nelems, std::uint64_t* sig_addr, \
                       std::uint64_t signal, int sig_op, int pe),                                   \
                      sft::put_bytes_signal<sft::Completion::WHEN>(to, dest, source, nelems,        \
                                                                   {sig_addr, signal, sig_op, routine}))
PUT_MEM_SIGNAL(putmem_signal, at_once)
PUT_MEM_SIGNAL(putmem_signal_nbi, by_quiet)

SFT_ENTRY_AND_CTX(void, signal_add, (std::uint64_t * sig_addr, std::uint64_t signal, int pe),
                  sft::update_signal(to, sig_addr, signal, SHMEM_SIGNAL_ADD, routine))
SFT_ENTRY_AND_CTX(void, signal_set, (std::uint64_t * sig_addr, std::uint64_t signal, int pe),
                  sft::update_signal(to, sig_addr, signal, SHMEM_SIGNAL_SET, routine))

#define WATCH(ROUTINE, CMP) \
    sft::engine(call, ROUTINE, {"sig_addr", sig_addr, 1, sizeof *sig_addr, CMP, sig_addr, sig_addr})
SFT_WAITING_TOLD_ENTRY(std::uint64_t, shmem_signal_fetch, (const std::uint64_t* sig_addr),
                       told.seeing(sig_addr, sizeof *sig_addr),
                       (static_cast<void>(WATCH("shmem_signal_fetch", SHMEM_CMP_EQ)), sft::load_acquire(sig_addr)))
SFT_WAITING_TOLD_ENTRY(std::uint64_t, shmem_signal_wait_until,
                       (std::uint64_t * sig_addr, int cmp, std::uint64_t cmp_value),
                       told.seeing(sig_addr, sizeof *sig_addr).with(cmp_value),
                       sft::wait_for_signal(WATCH("shmem_signal_wait_until", cmp), sig_addr, cmp, cmp_value))

#undef PUT_SIGNAL
#undef TYPED
#undef SIZED
#undef PUT_MEM_SIGNAL
#undef WATCH
