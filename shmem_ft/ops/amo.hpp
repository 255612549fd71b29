// Atomic memory operations and signals: processor atomics on the mapped memory of the target. Those for another node
// (remote.hpp) are carried out there by the same instructions, so all of them are atomic with each other.
//
// All of them are sequentially consistent where that costs nothing (a locked instruction is a full barrier anyway);
// plain sets are release stores, which is what put-flag protocols need.
// Fault rule: dropped when the target is unreachable; fetching forms then give a value-initialised element.
#pragma once

#include <atomic>
#include <cstdint>

#include "shmem_ft/ops/rma.hpp"
#include "shmem_ft/ops/target.hpp"

namespace sft {

template <class T>
using AtomicRef = std::atomic_ref<T>;

// operation(instance) on the target; `code` and `operands` say the same to another node.
template <class T, class Operation, class... Operands>
inline T fetch_with(Target target, T* dest, Operation&& operation, AtomicOperation code,
                    Operands... operands) noexcept {
    static_assert(AtomicRef<T>::is_always_lock_free);
    T* const remote = target.locate(dest);
    if (remote == nullptr) [[unlikely]] {
        return remote_fetch<T>(target, code, dest, operands...);
    }
    const T result = operation(AtomicRef<T>(*remote));
    if (code != AtomicOperation::fetch) {
        target.wrote_at(remote, dest);
    }
    return result;
}

template <class T>
inline T atomic_fetch(Target target, const T* source) noexcept {
    return fetch_with(
        target, const_cast<T*>(source), [](AtomicRef<T> at) { return at.load(); }, AtomicOperation::fetch, T{});
}

template <class T>
inline void atomic_set(Target target, T* dest, T value) noexcept {
    if (T* const remote = target.locate(dest)) [[likely]] {
        AtomicRef<T>(*remote).store(value, std::memory_order_release);
        target.wrote_at(remote, dest);
    } else {
        remote_post(target, AtomicOperation::set, dest, value);
    }
}

template <class T>
inline T atomic_swap(Target target, T* dest, T value) noexcept {
    return fetch_with(
        target, dest, [value](AtomicRef<T> at) { return at.exchange(value); }, AtomicOperation::swap, value);
}

template <class T>
inline T atomic_compare_swap(Target target, T* dest, T condition, T value) noexcept {
    return fetch_with(
        target, dest,
        [condition, value](AtomicRef<T> at) {
            T seen = condition;
            at.compare_exchange_strong(seen, value);
            return seen;  // the old content in both cases
        },
        AtomicOperation::compare_swap, value, condition);
}

template <class T>
inline T atomic_fetch_add(Target target, T* dest, T value) noexcept {
    return fetch_with(
        target, dest, [value](AtomicRef<T> at) { return at.fetch_add(value); }, AtomicOperation::add, value);
}

template <class T>
inline T atomic_fetch_and(Target target, T* dest, T value) noexcept {
    return fetch_with(
        target, dest, [value](AtomicRef<T> at) { return at.fetch_and(value); }, AtomicOperation::bit_and, value);
}

template <class T>
inline T atomic_fetch_or(Target target, T* dest, T value) noexcept {
    return fetch_with(
        target, dest, [value](AtomicRef<T> at) { return at.fetch_or(value); }, AtomicOperation::bit_or, value);
}

template <class T>
inline T atomic_fetch_xor(Target target, T* dest, T value) noexcept {
    return fetch_with(
        target, dest, [value](AtomicRef<T> at) { return at.fetch_xor(value); }, AtomicOperation::bit_xor, value);
}

// The same without a result: nobody waits for an answer of another node.
template <class T>
inline void atomic_add(Target target, T* dest, T value) noexcept {
    if (T* const remote = target.locate(dest)) [[likely]] {
        AtomicRef<T>(*remote).fetch_add(value);
        target.wrote_at(remote, dest);
    } else {
        remote_post(target, AtomicOperation::add, dest, value);
    }
}

template <class T>
inline void atomic_and(Target target, T* dest, T value) noexcept {
    if (T* const remote = target.locate(dest)) [[likely]] {
        AtomicRef<T>(*remote).fetch_and(value);
        target.wrote_at(remote, dest);
    } else {
        remote_post(target, AtomicOperation::bit_and, dest, value);
    }
}

template <class T>
inline void atomic_or(Target target, T* dest, T value) noexcept {
    if (T* const remote = target.locate(dest)) [[likely]] {
        AtomicRef<T>(*remote).fetch_or(value);
        target.wrote_at(remote, dest);
    } else {
        remote_post(target, AtomicOperation::bit_or, dest, value);
    }
}

template <class T>
inline void atomic_xor(Target target, T* dest, T value) noexcept {
    if (T* const remote = target.locate(dest)) [[likely]] {
        AtomicRef<T>(*remote).fetch_xor(value);
        target.wrote_at(remote, dest);
    } else {
        remote_post(target, AtomicOperation::bit_xor, dest, value);
    }
}

inline void update_signal(Target target, std::uint64_t* signal, std::uint64_t value, int operation,
                          const char* routine) noexcept {
    if (operation == static_cast<int>(SignalOperation::set)) {
        atomic_set(target, signal, value);
    } else if (operation == static_cast<int>(SignalOperation::add)) {
        atomic_add(target, signal, value);
    } else {
        report_bad_argument(routine, "sig_op", operation);
    }
}

// For a call that takes it in memory: it is written there where that call is made, and not on every path.
inline Signal copy_of(const Signal& signal) noexcept {
    return {signal.address, signal.value, signal.operation, signal.routine};
}

// Whoever sees the signal sees the data: the update is a release operation behind the copy.
template <std::size_t Bytes, Completion When = Completion::at_once>
inline void put_signal(Target target, void* dest, const void* source, std::size_t nelems, Signal signal) noexcept {
    if (nelems != 0) [[likely]] {
        void* const remote = target.locate(dest);
        if (remote == nullptr) [[unlikely]] {
            return remote_put_signal<When>(target, dest, source, nelems * Bytes, copy_of(signal));
        }
        if (target.takes_notes()) [[unlikely]] {
            put_noted<Bytes>(target, remote, dest, source, nelems);
        } else {
            copy_or_store<Bytes>(target, remote, source, nelems);
        }
    }
    update_signal(target, signal.address, signal.value, signal.operation, signal.routine);
}

template <Completion When = Completion::at_once>
inline void put_bytes_signal(Target target, void* dest, const void* source, std::size_t bytes, Signal signal) noexcept {
    if (bytes != 0) [[likely]] {
        void* const remote = target.locate(dest);
        if (remote == nullptr) [[unlikely]] {
            return remote_put_signal<When>(target, dest, source, bytes, copy_of(signal));
        }
        if (target.takes_notes()) [[unlikely]] {
            put_noted<1>(target, remote, dest, source, bytes);
        } else {
            target.engine.copy(remote, source, bytes);
        }
    }
    update_signal(target, signal.address, signal.value, signal.operation, signal.routine);
}

}  // namespace sft
