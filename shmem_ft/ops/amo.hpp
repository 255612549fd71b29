// Atomic memory operations and signals: processor atomics on the mapped memory of the target.
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

template <class T, class Operation>
inline T fetch_with(Target target, T* dest, Operation&& operation) noexcept {
    static_assert(AtomicRef<T>::is_always_lock_free);
    T* const remote = target.locate(dest);
    if (remote == nullptr) [[unlikely]] {
        return T{};
    }
    return operation(AtomicRef<T>(*remote));
}

template <class T>
inline T atomic_fetch(Target target, const T* source) noexcept {
    return fetch_with(target, const_cast<T*>(source), [](AtomicRef<T> at) { return at.load(); });
}

template <class T>
inline void atomic_set(Target target, T* dest, T value) noexcept {
    if (T* const remote = target.locate(dest)) [[likely]] {
        AtomicRef<T>(*remote).store(value, std::memory_order_release);
    }
}

template <class T>
inline T atomic_swap(Target target, T* dest, T value) noexcept {
    return fetch_with(target, dest, [value](AtomicRef<T> at) { return at.exchange(value); });
}

template <class T>
inline T atomic_compare_swap(Target target, T* dest, T condition, T value) noexcept {
    return fetch_with(target, dest, [condition, value](AtomicRef<T> at) {
        T seen = condition;
        at.compare_exchange_strong(seen, value);
        return seen;  // the old content in both cases
    });
}

template <class T>
inline T atomic_fetch_add(Target target, T* dest, T value) noexcept {
    return fetch_with(target, dest, [value](AtomicRef<T> at) { return at.fetch_add(value); });
}

template <class T>
inline T atomic_fetch_and(Target target, T* dest, T value) noexcept {
    return fetch_with(target, dest, [value](AtomicRef<T> at) { return at.fetch_and(value); });
}

template <class T>
inline T atomic_fetch_or(Target target, T* dest, T value) noexcept {
    return fetch_with(target, dest, [value](AtomicRef<T> at) { return at.fetch_or(value); });
}

template <class T>
inline T atomic_fetch_xor(Target target, T* dest, T value) noexcept {
    return fetch_with(target, dest, [value](AtomicRef<T> at) { return at.fetch_xor(value); });
}

// Values of SHMEM_SIGNAL_*.
enum class SignalOperation : int { set = 1, add = 2 };

inline void update_signal(Target target, std::uint64_t* signal, std::uint64_t value, int operation,
                          const char* routine) noexcept {
    if (operation == static_cast<int>(SignalOperation::set)) {
        atomic_set(target, signal, value);
    } else if (operation == static_cast<int>(SignalOperation::add)) {
        atomic_fetch_add(target, signal, value);
    } else {
        report_bad_argument(routine, "sig_op", operation);
    }
}

// How the signal of a put-with-signal is updated.
struct Signal {
    std::uint64_t* address;
    std::uint64_t value;
    int operation;
    const char* routine;
};

// Whoever sees the signal sees the data: the update is a release operation behind the copy.
template <std::size_t Bytes>
inline void put_signal(Target target, void* dest, const void* source, std::size_t nelems, Signal signal) noexcept {
    put<Bytes>(target, dest, source, nelems);
    update_signal(target, signal.address, signal.value, signal.operation, signal.routine);
}

inline void put_bytes_signal(Target target, void* dest, const void* source, std::size_t bytes, Signal signal) noexcept {
    put_bytes(target, dest, source, bytes);
    update_signal(target, signal.address, signal.value, signal.operation, signal.routine);
}

}  // namespace sft
