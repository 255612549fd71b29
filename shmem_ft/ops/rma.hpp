// Put and get on memory that all PEs of the node map: each is one address computation and one copy. What is not mapped
// goes another way (remote.hpp).
//
// Fault rule: a put to an unreachable PE is dropped, a get from one leaves the destination as it was, g gives a
// value-initialised element. Such a get meets the fault if it is told the routine (remote.hpp), and says that it has
// brought nothing otherwise; inside a node nothing is looked at for that.
// Non-blocking forms differ only towards other nodes: inside a node nothing is outstanding when they return.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "shmem_ft/ops/remote.hpp"
#include "shmem_ft/ops/target.hpp"

namespace sft {

// An unsigned integer with the size of one element; void where no atomic store of that size exists.
template <std::size_t Bytes>
using WordOf =
    std::conditional_t<Bytes == 1, std::uint8_t,
                       std::conditional_t<Bytes == 2, std::uint16_t,
                                          std::conditional_t<Bytes == 4, std::uint32_t,
                                                             std::conditional_t<Bytes == 8, std::uint64_t, void>>>>;

template <std::size_t Bytes>
inline constexpr bool kIsWord = !std::is_void_v<WordOf<Bytes>>;

// One element. Word sizes go by a single store, so a reader never sees half of one; it is a release store because
// programs use a put or p as the flag behind earlier puts and a fence.
// REQUIRES: `to` is aligned to its type.
template <std::size_t Bytes>
inline void store_element(void* to, const void* from) noexcept {
    if constexpr (kIsWord<Bytes>) {
        using Word = WordOf<Bytes>;
        static_assert(sizeof(Word) == Bytes && __atomic_always_lock_free(sizeof(Word), nullptr));
        Word word;
        std::memcpy(&word, from, Bytes);
        __atomic_store_n(static_cast<Word*>(to), word, __ATOMIC_RELEASE);
    } else {
        std::memcpy(to, from, Bytes);
    }
}

template <std::size_t Bytes>
inline void load_element(void* to, const void* from) noexcept {
    if constexpr (kIsWord<Bytes>) {
        using Word = WordOf<Bytes>;
        const Word word = __atomic_load_n(static_cast<const Word*>(from), __ATOMIC_ACQUIRE);
        std::memcpy(to, &word, Bytes);
    } else {
        std::memcpy(to, from, Bytes);
    }
}

template <std::size_t Bytes>
inline void copy_or_store(const Target& target, void* remote, const void* source, std::size_t nelems) noexcept {
    if (nelems == 1) {
        store_element<Bytes>(remote, source);
    } else {
        target.engine.copy(remote, source, nelems * Bytes);
    }
}

template <std::size_t Bytes>
[[gnu::noinline]] void put_noted(Target target, void* remote, const void* dest, const void* source,
                                 std::size_t nelems) noexcept {
    copy_or_store<Bytes>(target, remote, source, nelems);
    target.wrote(dest, nelems * Bytes);
}

template <std::size_t Bytes, Completion When = Completion::at_once>
inline void put(Target target, void* dest, const void* source, std::size_t nelems) noexcept {
    if (nelems == 0) [[unlikely]] {
        return;  // dest may be null then
    }
    void* const remote = target.locate(dest);
    if (remote == nullptr) [[unlikely]] {
        return remote_put<When>(target, dest, source, nelems * Bytes);
    }
    if (target.takes_notes()) [[unlikely]] {
        return put_noted<Bytes>(target, remote, dest, source, nelems);
    }
    copy_or_store<Bytes>(target, remote, source, nelems);
}

template <std::size_t Bytes, Completion When = Completion::at_once>
inline bool get(Target target, void* dest, const void* source, std::size_t nelems, const char* routine = nullptr) {
    if (nelems == 0) [[unlikely]] {
        return true;
    }
    const void* const remote = target.locate(source);
    if (remote == nullptr) [[unlikely]] {
        return remote_get<When>(target, dest, source, nelems * Bytes, routine);
    }
    if (nelems == 1) {
        load_element<Bytes>(dest, remote);
    } else {
        target.engine.copy(dest, remote, nelems * Bytes);
    }
    return true;
}

// Byte counts; no alignment is promised, and none is needed for sizes that fit one move.
template <Completion When = Completion::at_once>
inline void put_bytes(Target target, void* dest, const void* source, std::size_t bytes) noexcept {
    if (bytes == 0) [[unlikely]] {
        return;
    }
    if (void* const remote = target.locate(dest)) [[likely]] {
        if (target.takes_notes()) [[unlikely]] {
            return put_noted<1>(target, remote, dest, source, bytes);
        }
        target.engine.copy(remote, source, bytes);
    } else {
        remote_put<When>(target, dest, source, bytes);
    }
}

template <Completion When = Completion::at_once>
inline bool get_bytes(Target target, void* dest, const void* source, std::size_t bytes, const char* routine = nullptr) {
    if (bytes == 0) [[unlikely]] {
        return true;
    }
    if (const void* const remote = target.locate(source)) [[likely]] {
        target.engine.copy(dest, remote, bytes);
        return true;
    }
    return remote_get<When>(target, dest, source, bytes, routine);
}

template <class T>
inline void put_value(Target target, T* dest, T value) noexcept {
    if (T* const remote = target.locate(dest)) [[likely]] {
        store_element<sizeof(T)>(remote, &value);
        target.wrote_at(remote, dest);
    } else {
        remote_put_value(target, dest, value);
    }
}

// For a get that meets no fault.
struct NoRoutine {
    constexpr const char* operator()() const noexcept { return nullptr; }
};

template <class T, class Routine = NoRoutine>
[[nodiscard]] inline T get_value(Target target, const T* source, Routine = {}) {
    const T* const remote = target.locate(source);
    if (remote == nullptr) [[unlikely]] {
        return remote_get_value<Routine>(target, source);
    }
    T value;
    load_element<sizeof(T)>(&value, remote);
    return value;
}

// Block b of block_elements elements goes from source + b * source_stride to dest + b * dest_stride; strides in
// elements.
struct Strides {
    std::ptrdiff_t dest = 1;
    std::ptrdiff_t source = 1;
};

// The same for the network: blocks of so many elements of Bytes.
template <std::size_t Bytes>
inline NetBlocks net_blocks(Strides strides, std::size_t block_elements, std::size_t nblocks) noexcept {
    constexpr auto kBytes = static_cast<std::ptrdiff_t>(Bytes);
    return {block_elements * Bytes, nblocks, strides.dest * kBytes, strides.source * kBytes};
}

template <std::size_t Bytes>
inline void copy_strided(void* dest, const void* source, Strides strides, std::size_t nelems) noexcept {
    auto* to = static_cast<unsigned char*>(dest);
    const auto* from = static_cast<const unsigned char*>(source);
    const std::ptrdiff_t to_step = strides.dest * static_cast<std::ptrdiff_t>(Bytes);
    const std::ptrdiff_t from_step = strides.source * static_cast<std::ptrdiff_t>(Bytes);
    for (std::size_t i = 0; i < nelems; ++i) {
        std::memcpy(to, from, Bytes);
        to += to_step;
        from += from_step;
    }
}

inline void copy_blocks(void* dest, const void* source, Strides byte_strides, std::size_t block_bytes,
                        std::size_t nblocks) noexcept {
    auto* to = static_cast<unsigned char*>(dest);
    const auto* from = static_cast<const unsigned char*>(source);
    for (std::size_t b = 0; b < nblocks; ++b) {
        std::memcpy(to, from, block_bytes);
        to += byte_strides.dest;
        from += byte_strides.source;
    }
}

void wrote_blocks(Target target, const void* dest, NetBlocks blocks) noexcept;

template <std::size_t Bytes>
inline void iput(Target target, void* dest, const void* source, Strides strides, std::size_t nelems) noexcept {
    if (nelems == 0) [[unlikely]] {
        return;
    }
    if (void* const remote = target.locate(dest)) [[likely]] {
        copy_strided<Bytes>(remote, source, strides, nelems);
        if (target.takes_notes()) [[unlikely]] {
            wrote_blocks(target, dest, net_blocks<Bytes>(strides, 1, nelems));
        }
    } else {
        remote_put_blocks(target, dest, source, net_blocks<Bytes>(strides, 1, nelems));
    }
}

template <std::size_t Bytes>
inline bool iget(Target target, void* dest, const void* source, Strides strides, std::size_t nelems,
                 const char* routine = nullptr) {
    if (nelems == 0) [[unlikely]] {
        return true;
    }
    if (const void* const remote = target.locate(source)) [[likely]] {
        copy_strided<Bytes>(dest, remote, strides, nelems);
        return true;
    }
    return remote_get_blocks(target, dest, source, net_blocks<Bytes>(strides, 1, nelems), routine);
}

template <std::size_t Bytes>
inline Strides in_bytes(Strides strides) noexcept {
    return {strides.dest * static_cast<std::ptrdiff_t>(Bytes), strides.source * static_cast<std::ptrdiff_t>(Bytes)};
}

template <std::size_t Bytes>
inline void ibput(Target target, void* dest, const void* source, Strides strides, std::size_t block_elements,
                  std::size_t nblocks) noexcept {
    if (block_elements == 0 || nblocks == 0) [[unlikely]] {
        return;
    }
    if (void* const remote = target.locate(dest)) [[likely]] {
        copy_blocks(remote, source, in_bytes<Bytes>(strides), block_elements * Bytes, nblocks);
        if (target.takes_notes()) [[unlikely]] {
            wrote_blocks(target, dest, net_blocks<Bytes>(strides, block_elements, nblocks));
        }
    } else {
        remote_put_blocks(target, dest, source, net_blocks<Bytes>(strides, block_elements, nblocks));
    }
}

template <std::size_t Bytes>
inline bool ibget(Target target, void* dest, const void* source, Strides strides, std::size_t block_elements,
                  std::size_t nblocks, const char* routine = nullptr) {
    if (block_elements == 0 || nblocks == 0) [[unlikely]] {
        return true;
    }
    if (const void* const remote = target.locate(source)) [[likely]] {
        copy_blocks(dest, remote, in_bytes<Bytes>(strides), block_elements * Bytes, nblocks);
        return true;
    }
    return remote_get_blocks(target, dest, source, net_blocks<Bytes>(strides, block_elements, nblocks), routine);
}

}  // namespace sft
