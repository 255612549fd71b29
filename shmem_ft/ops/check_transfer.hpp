// The checks of puts, gets, atomics and signals: overloads of the operations for a CheckedTarget, which look at the
// arguments and then do the operation itself. An entry evaluates the same expression for both kinds of target.
#pragma once

#include "shmem_ft/ops/amo.hpp"
#include "shmem_ft/ops/check.hpp"
#include "shmem_ft/ops/rma.hpp"

namespace sft {

// Where a checked operation goes; while it lives its thread counts as inside the library and as using the context.
class CheckedTarget {
public:
    CheckedTarget(bool& meets_fault, const char* routine, int pe) noexcept
        : CheckedTarget(meets_fault, routine, kCtxDefault, pe) {}
    CheckedTarget(bool& meets_fault, const char* routine, CtxId context, int pe) noexcept;
    ~CheckedTarget();
    CheckedTarget(const CheckedTarget&) = delete;
    CheckedTarget& operator=(const CheckedTarget&) = delete;

    // A symmetric object on the target is written, and other memory of this process read; or the other way round.
    void check_put(Argument dest, Argument source) const noexcept;
    void check_get(Argument dest, Argument source) const noexcept;
    // An atomic or a single element.
    void check_element(const char* name, const void* address, std::size_t bytes) const noexcept;
    void check_signal(Argument dest, const Signal& signal) const noexcept;
    void check_signal_operation(int operation) const noexcept;
    // The result of a fetching operation that returns nothing.
    void check_fetch(const void* fetch, std::size_t bytes) const noexcept;
    // Where blocks begin: strides in elements, not below the size of a block.
    void check_strides(Strides strides, std::size_t block_elements) const noexcept;

    // Nothing is to be done (target.hpp).
    [[nodiscard]] bool is_nobody() const noexcept { return pe_ == kNoPe; }
    [[nodiscard]] Target target() const noexcept { return {engine_, pe_}; }
    [[nodiscard]] const char* routine() const noexcept { return routine_; }
    // The entry is to look for a fault when this target is gone.
    void meet_fault_behind() const noexcept { meets_fault_ = true; }

private:
    [[nodiscard]] Argument on_target(const Argument& argument) const noexcept;

    bool& meets_fault_;
    Engine& engine_;
    const char* const routine_;
    const CtxId context_;
    PeId pe_ = kNoPe;
    bool is_inside_ = false;
    bool is_in_context_ = false;
};

template <std::size_t Bytes>
[[nodiscard]] inline Extent strided(std::size_t nblocks, std::size_t block_elements, std::ptrdiff_t stride) noexcept {
    Extent extent = elements(block_elements, Bytes);
    extent.count = nblocks;
    // A stride that is refused, and reported, counts as none.
    extent.step = stride < 0 ? extent.bytes : elements(static_cast<std::size_t>(stride), Bytes).bytes;
    extent.alignment = Bytes;
    return extent;
}

// ---- put, get ----

template <std::size_t Bytes, Completion When = Completion::at_once>
inline void put(const CheckedTarget& to, void* dest, const void* source, std::size_t nelems) noexcept {
    to.check_put({"dest", dest, elements(nelems, Bytes)}, {"source", source, elements(nelems, Bytes)});
    put<Bytes, When>(to.target(), dest, source, nelems);
}

template <std::size_t Bytes, Completion When = Completion::at_once>
inline void get(const CheckedTarget& to, void* dest, const void* source, std::size_t nelems, const char*) noexcept {
    to.check_get({"dest", dest, elements(nelems, Bytes)}, {"source", source, elements(nelems, Bytes)});
    if (!get<Bytes, When>(to.target(), dest, source, nelems)) {
        to.meet_fault_behind();
    }
}

template <Completion When = Completion::at_once>
inline void put_bytes(const CheckedTarget& to, void* dest, const void* source, std::size_t bytes) noexcept {
    to.check_put({"dest", dest, elements(bytes, 1)}, {"source", source, elements(bytes, 1)});
    put_bytes<When>(to.target(), dest, source, bytes);
}

template <Completion When = Completion::at_once>
inline void get_bytes(const CheckedTarget& to, void* dest, const void* source, std::size_t bytes,
                      const char*) noexcept {
    to.check_get({"dest", dest, elements(bytes, 1)}, {"source", source, elements(bytes, 1)});
    if (!get_bytes<When>(to.target(), dest, source, bytes)) {
        to.meet_fault_behind();
    }
}

template <class T>
inline void put_value(const CheckedTarget& to, T* dest, T value) noexcept {
    to.check_element("dest", dest, sizeof(T));
    put_value(to.target(), dest, value);
}

template <class T, class Routine>
[[nodiscard]] inline T get_value(const CheckedTarget& to, const T* source, Routine) noexcept {
    to.check_element("source", source, sizeof(T));
    T value{};
    if (!get<sizeof(T)>(to.target(), &value, source, 1)) {
        to.meet_fault_behind();
    }
    return value;
}

// ---- strided ----

template <std::size_t Bytes>
inline void iput(const CheckedTarget& to, void* dest, const void* source, Strides strides,
                 std::size_t nelems) noexcept {
    to.check_strides(strides, 1);
    to.check_put({"dest", dest, strided<Bytes>(nelems, 1, strides.dest)},
                 {"source", source, strided<Bytes>(nelems, 1, strides.source)});
    iput<Bytes>(to.target(), dest, source, strides, nelems);
}

template <std::size_t Bytes>
inline void iget(const CheckedTarget& to, void* dest, const void* source, Strides strides, std::size_t nelems,
                 const char*) noexcept {
    to.check_strides(strides, 1);
    to.check_get({"dest", dest, strided<Bytes>(nelems, 1, strides.dest)},
                 {"source", source, strided<Bytes>(nelems, 1, strides.source)});
    if (!iget<Bytes>(to.target(), dest, source, strides, nelems)) {
        to.meet_fault_behind();
    }
}

template <std::size_t Bytes>
inline void ibput(const CheckedTarget& to, void* dest, const void* source, Strides strides, std::size_t block_elements,
                  std::size_t nblocks) noexcept {
    to.check_strides(strides, block_elements);
    to.check_put({"dest", dest, strided<Bytes>(nblocks, block_elements, strides.dest)},
                 {"source", source, strided<Bytes>(nblocks, block_elements, strides.source)});
    ibput<Bytes>(to.target(), dest, source, strides, block_elements, nblocks);
}

template <std::size_t Bytes>
inline void ibget(const CheckedTarget& to, void* dest, const void* source, Strides strides, std::size_t block_elements,
                  std::size_t nblocks, const char*) noexcept {
    to.check_strides(strides, block_elements);
    to.check_get({"dest", dest, strided<Bytes>(nblocks, block_elements, strides.dest)},
                 {"source", source, strided<Bytes>(nblocks, block_elements, strides.source)});
    if (!ibget<Bytes>(to.target(), dest, source, strides, block_elements, nblocks)) {
        to.meet_fault_behind();
    }
}

// ---- atomics ----

template <class T>
inline T atomic_fetch(const CheckedTarget& to, const T* source) noexcept {
    to.check_element("source", source, sizeof(T));
    return atomic_fetch(to.target(), source);
}

template <class T>
inline void atomic_set(const CheckedTarget& to, T* dest, T value) noexcept {
    to.check_element("dest", dest, sizeof(T));
    atomic_set(to.target(), dest, value);
}

template <class T>
inline T atomic_swap(const CheckedTarget& to, T* dest, T value) noexcept {
    to.check_element("dest", dest, sizeof(T));
    return atomic_swap(to.target(), dest, value);
}

template <class T>
inline T atomic_compare_swap(const CheckedTarget& to, T* dest, T condition, T value) noexcept {
    to.check_element("dest", dest, sizeof(T));
    return atomic_compare_swap(to.target(), dest, condition, value);
}

template <class T>
inline T atomic_fetch_add(const CheckedTarget& to, T* dest, T value) noexcept {
    to.check_element("dest", dest, sizeof(T));
    return atomic_fetch_add(to.target(), dest, value);
}

template <class T>
inline T atomic_fetch_and(const CheckedTarget& to, T* dest, T value) noexcept {
    to.check_element("dest", dest, sizeof(T));
    return atomic_fetch_and(to.target(), dest, value);
}

template <class T>
inline T atomic_fetch_or(const CheckedTarget& to, T* dest, T value) noexcept {
    to.check_element("dest", dest, sizeof(T));
    return atomic_fetch_or(to.target(), dest, value);
}

template <class T>
inline T atomic_fetch_xor(const CheckedTarget& to, T* dest, T value) noexcept {
    to.check_element("dest", dest, sizeof(T));
    return atomic_fetch_xor(to.target(), dest, value);
}

template <class T>
inline void atomic_add(const CheckedTarget& to, T* dest, T value) noexcept {
    to.check_element("dest", dest, sizeof(T));
    atomic_add(to.target(), dest, value);
}

template <class T>
inline void atomic_and(const CheckedTarget& to, T* dest, T value) noexcept {
    to.check_element("dest", dest, sizeof(T));
    atomic_and(to.target(), dest, value);
}

template <class T>
inline void atomic_or(const CheckedTarget& to, T* dest, T value) noexcept {
    to.check_element("dest", dest, sizeof(T));
    atomic_or(to.target(), dest, value);
}

template <class T>
inline void atomic_xor(const CheckedTarget& to, T* dest, T value) noexcept {
    to.check_element("dest", dest, sizeof(T));
    atomic_xor(to.target(), dest, value);
}

// Where a non-blocking fetching operation puts its result.
template <class T>
inline T& fetched(const Target&, T* fetch) noexcept {
    return *fetch;
}

template <class T>
inline T& fetched(const CheckedTarget& to, T* fetch) noexcept {
    to.check_fetch(fetch, sizeof(T));
    return *fetch;
}

// ---- signals ----

inline void update_signal(const CheckedTarget& to, std::uint64_t* signal, std::uint64_t value, int operation,
                          const char* routine) noexcept {
    to.check_element("sig_addr", signal, sizeof *signal);
    update_signal(to.target(), signal, value, operation, routine);
}

template <std::size_t Bytes, Completion When = Completion::at_once>
inline void put_signal(const CheckedTarget& to, void* dest, const void* source, std::size_t nelems,
                       Signal signal) noexcept {
    to.check_signal({"dest", dest, elements(nelems, Bytes)}, signal);
    to.check_put({"dest", dest, elements(nelems, Bytes)}, {"source", source, elements(nelems, Bytes)});
    put_signal<Bytes, When>(to.target(), dest, source, nelems, signal);
}

template <Completion When = Completion::at_once>
inline void put_bytes_signal(const CheckedTarget& to, void* dest, const void* source, std::size_t bytes,
                             Signal signal) noexcept {
    to.check_signal({"dest", dest, elements(bytes, 1)}, signal);
    to.check_put({"dest", dest, elements(bytes, 1)}, {"source", source, elements(bytes, 1)});
    put_bytes_signal<When>(to.target(), dest, source, bytes, signal);
}

}  // namespace sft
