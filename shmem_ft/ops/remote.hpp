// Operations whose target is not mapped here: a PE of another node, which the network reaches, or one that is dead,
// and then nothing is done. Reached from the branch that every operation has for a null pointer of PeerTable::locate,
// so an operation inside a node does not know that there are others.
//
// Fault rule: as in rma.hpp and amo.hpp. Nothing here ends or begins anything but the operation itself; routines that
// wait for an answer come back when the target is known to be dead.
//
// Thread safety: may be called by any thread at any time.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "shmem_ft/ops/target.hpp"
#include "transport/net/network.hpp"

// Functions that are called where hot paths branch off.
#define SFT_COLD [[gnu::cold, gnu::noinline]]

namespace sft {

// The bytes may be changed, or are there, when the call returns, or only behind a quiet.
enum class Completion { at_once, by_quiet };

template <Completion When>
SFT_COLD void remote_put(Target target, void* dest, const void* source, std::size_t bytes) noexcept;
// A get that brings nothing, because the PE is dead, meets the fault: if `routine` is not null it is left as
// act_on_fault says, and else gives false. All of it is in here, for then an entry ends with a jump to this and needs
// no frame. What is to come by a quiet counts as come, since the quiet meets the fault.
template <Completion When>
SFT_COLD bool remote_get(Target target, void* dest, const void* source, std::size_t bytes, const char* routine);
extern template void remote_put<Completion::at_once>(Target, void*, const void*, std::size_t) noexcept;
extern template void remote_put<Completion::by_quiet>(Target, void*, const void*, std::size_t) noexcept;
extern template bool remote_get<Completion::at_once>(Target, void*, const void*, std::size_t, const char*);
extern template bool remote_get<Completion::by_quiet>(Target, void*, const void*, std::size_t, const char*);

SFT_COLD void remote_put_blocks(Target target, void* dest, const void* source, NetBlocks blocks) noexcept;
SFT_COLD bool remote_get_blocks(Target target, void* dest, const void* source, NetBlocks blocks, const char* routine);

template <class T>
SFT_COLD void remote_put_value(Target target, T* dest, T value) noexcept {
    remote_put<Completion::at_once>(target, dest, &value, sizeof value);
}

// Routine{}() is the name. As an argument it would make the hot path of the entry move another one aside.
template <class Routine, class T>
SFT_COLD T remote_get_value(Target target, const T* source) {
    T value{};
    remote_get<Completion::at_once>(target, &value, source, sizeof value, Routine{}());
    return value;
}

// ---- atomics: the bits of a value, whatever it means ----

template <std::size_t Bytes>
using AtomicBits = std::conditional_t<Bytes == sizeof(std::uint32_t), std::uint32_t, std::uint64_t>;

template <class T>
[[nodiscard]] inline std::uint64_t bits_of(T value) noexcept {
    static_assert(sizeof(T) == sizeof(std::uint32_t) || sizeof(T) == sizeof(std::uint64_t));
    return std::bit_cast<AtomicBits<sizeof(T)>>(value);
}

template <class T>
[[nodiscard]] inline T value_of(std::uint64_t bits) noexcept {
    return std::bit_cast<T>(static_cast<AtomicBits<sizeof(T)>>(bits));
}

struct AtomicOperands {
    std::uint64_t operand = 0;
    std::uint64_t condition = 0;
};
// What was there before; 0 if the target is dead.
[[nodiscard]] SFT_COLD std::uint64_t remote_fetch(Target target, AtomicOperation operation, void* address,
                                                  std::size_t width, AtomicOperands operands) noexcept;
SFT_COLD void remote_post(Target target, AtomicOperation operation, void* address, std::size_t width,
                          std::uint64_t operand) noexcept;

template <class T>
[[nodiscard]] SFT_COLD T remote_fetch(Target target, AtomicOperation operation, T* address, T operand,
                                      T condition = T{}) noexcept {
    return value_of<T>(
        remote_fetch(target, operation, address, sizeof(T), AtomicOperands{bits_of(operand), bits_of(condition)}));
}

template <class T>
SFT_COLD void remote_post(Target target, AtomicOperation operation, T* address, T operand) noexcept {
    remote_post(target, operation, address, sizeof(T), bits_of(operand));
}

// How the signal of a put-with-signal is updated.
struct Signal {
    std::uint64_t* address;
    std::uint64_t value;
    int operation;
    const char* routine;
};
// Values of SHMEM_SIGNAL_*.
enum class SignalOperation : int { set = 1, add = 2 };

// Whoever sees the signal sees the data.
template <Completion When>
SFT_COLD void remote_put_signal(Target target, void* dest, const void* source, std::size_t bytes,
                                Signal signal) noexcept;
extern template void remote_put_signal<Completion::at_once>(Target, void*, const void*, std::size_t, Signal) noexcept;
extern template void remote_put_signal<Completion::by_quiet>(Target, void*, const void*, std::size_t, Signal) noexcept;

}  // namespace sft
