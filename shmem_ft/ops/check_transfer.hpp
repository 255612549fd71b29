// Puts, gets, atomics and signals that are looked at: overloads of the operations for a CheckedTarget, which check the
// arguments if that is asked for, record what a call brings or deliver it from the record before the first checkpoint
// (startup.hpp), and do the operation itself. An entry evaluates the same expression for both kinds of target.
#pragma once

#include "shmem_ft/ops/amo.hpp"
#include "shmem_ft/ops/check.hpp"
#include "shmem_ft/ops/rma.hpp"
#include "shmem_ft/ops/startup.hpp"

namespace sft {

// Where an operation that is looked at goes; while it lives its thread counts as inside the library and as using the
// context.
class CheckedTarget {
public:
    CheckedTarget(bool& meets_fault, CallSite where, int pe) noexcept
        : CheckedTarget(meets_fault, where, kCtxDefault, pe) {}
    CheckedTarget(bool& meets_fault, CallSite where, CtxId context, int pe) noexcept;
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
    [[nodiscard]] const char* routine() const noexcept { return where_.routine; }
    // The entry is to look for a fault when this target is gone; not if the record has given what was asked for.
    void meet_fault_behind() const noexcept { meets_fault_ = !is_delivered_; }

    // ---- before the first checkpoint ----

    [[nodiscard]] bool is_startup() const noexcept { return engine_.startup != nullptr; }
    // What there is to know of a call that reads this memory of the target.
    [[nodiscard]] StartupCall told(const void* symmetric, const Extent& extent) const noexcept;
    // run() fills the memory that the call tells of, or says that it has brought nothing.
    template <class Run>
    void fill(const StartupCall& call, Run&& run) const noexcept {
        if (!is_startup() || !deliver(call, nullptr, 0)) {
            if (!run()) {
                meet_fault_behind();
            }
            record(call, nullptr, 0);
        }
    }
    // run() gives a value. What it does to this PE's own memory is done in a substitute as well.
    template <class T, class Run>
    [[nodiscard]] T fetch(const void* symmetric, Run&& run) const noexcept {
        if (!is_startup()) {
            return run();
        }
        const StartupCall call = told(symmetric, elements(1, sizeof(T)));
        T result{};
        if (!replays_on_others()) {
            result = run();
        }
        if (deliver(call, &result, sizeof result)) {
            return result;
        }
        if (replays_on_others()) {
            result = run();
        }
        record(call, &result, sizeof result);
        return result;
    }
    // These bytes of the target have been written.
    void wrote(const void* symmetric, const Extent& extent) const noexcept {
        if (is_startup()) [[likely]] {
            note_written(symmetric, extent);
        }
    }

private:
    [[nodiscard]] Argument on_target(const Argument& argument) const noexcept;
    [[nodiscard]] bool deliver(const StartupCall& call, void* result, std::size_t bytes) const noexcept;
    void record(const StartupCall& call, const void* result, std::size_t bytes) const noexcept;
    void note_written(const void* symmetric, const Extent& extent) const noexcept;
    [[nodiscard]] bool replays_on_others() const noexcept {
        return engine_.startup->is_replaying() && pe_ != engine_.peers.me;
    }

    bool& meets_fault_;
    Engine& engine_;
    const CallSite where_;
    const CtxId context_;
    PeId pe_ = kNoPe;
    mutable bool is_delivered_ = false;
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

// A get that is recorded has its data at once: after the quiet nobody would know where they are.
template <class AtOnce, class ByQuiet>
inline void get_all(const CheckedTarget& to, Completion when, const StartupCall& call, AtOnce&& at_once,
                    ByQuiet&& by_quiet) noexcept {
    if (when == Completion::at_once || to.is_startup()) {
        to.fill(call, at_once);
    } else if (!by_quiet()) {
        to.meet_fault_behind();
    }
}

template <std::size_t Bytes, Completion When = Completion::at_once>
inline void put(const CheckedTarget& to, void* dest, const void* source, std::size_t nelems) noexcept {
    to.check_put({"dest", dest, elements(nelems, Bytes)}, {"source", source, elements(nelems, Bytes)});
    put<Bytes, When>(to.target(), dest, source, nelems);
    to.wrote(dest, elements(nelems, Bytes));
}

template <std::size_t Bytes, Completion When = Completion::at_once>
inline void get(const CheckedTarget& to, void* dest, const void* source, std::size_t nelems, const char*) noexcept {
    to.check_get({"dest", dest, elements(nelems, Bytes)}, {"source", source, elements(nelems, Bytes)});
    get_all(
        to, When, to.told(source, elements(nelems, Bytes)).filling(dest, nelems * Bytes),
        [&] { return get<Bytes, Completion::at_once>(to.target(), dest, source, nelems); },
        [&] { return get<Bytes, Completion::by_quiet>(to.target(), dest, source, nelems); });
}

template <Completion When = Completion::at_once>
inline void put_bytes(const CheckedTarget& to, void* dest, const void* source, std::size_t bytes) noexcept {
    to.check_put({"dest", dest, elements(bytes, 1)}, {"source", source, elements(bytes, 1)});
    put_bytes<When>(to.target(), dest, source, bytes);
    to.wrote(dest, elements(bytes, 1));
}

template <Completion When = Completion::at_once>
inline void get_bytes(const CheckedTarget& to, void* dest, const void* source, std::size_t bytes,
                      const char*) noexcept {
    to.check_get({"dest", dest, elements(bytes, 1)}, {"source", source, elements(bytes, 1)});
    get_all(
        to, When, to.told(source, elements(bytes, 1)).filling(dest, bytes),
        [&] { return get_bytes<Completion::at_once>(to.target(), dest, source, bytes); },
        [&] { return get_bytes<Completion::by_quiet>(to.target(), dest, source, bytes); });
}

template <class T>
inline void put_value(const CheckedTarget& to, T* dest, T value) noexcept {
    to.check_element("dest", dest, sizeof(T));
    put_value(to.target(), dest, value);
    to.wrote(dest, elements(1, sizeof(T)));
}

template <class T, class Routine>
[[nodiscard]] inline T get_value(const CheckedTarget& to, const T* source, Routine) noexcept {
    to.check_element("source", source, sizeof(T));
    return to.fetch<T>(source, [&] {
        T value{};
        if (!get<sizeof(T)>(to.target(), &value, source, 1)) {
            to.meet_fault_behind();
        }
        return value;
    });
}

// ---- strided ----

[[nodiscard]] inline StartupCall::Piece pieces(void* dest, const Extent& extent) noexcept {
    return {dest, extent.bytes, extent.count, extent.step};
}

template <std::size_t Bytes>
inline void iput(const CheckedTarget& to, void* dest, const void* source, Strides strides,
                 std::size_t nelems) noexcept {
    to.check_strides(strides, 1);
    to.check_put({"dest", dest, strided<Bytes>(nelems, 1, strides.dest)},
                 {"source", source, strided<Bytes>(nelems, 1, strides.source)});
    iput<Bytes>(to.target(), dest, source, strides, nelems);
    to.wrote(dest, strided<Bytes>(nelems, 1, strides.dest));
}

template <std::size_t Bytes>
inline void iget(const CheckedTarget& to, void* dest, const void* source, Strides strides, std::size_t nelems,
                 const char*) noexcept {
    to.check_strides(strides, 1);
    to.check_get({"dest", dest, strided<Bytes>(nelems, 1, strides.dest)},
                 {"source", source, strided<Bytes>(nelems, 1, strides.source)});
    to.fill(to.told(source, strided<Bytes>(nelems, 1, strides.source))
                .filling_pieces(pieces(dest, strided<Bytes>(nelems, 1, strides.dest))),
            [&] { return iget<Bytes>(to.target(), dest, source, strides, nelems); });
}

template <std::size_t Bytes>
inline void ibput(const CheckedTarget& to, void* dest, const void* source, Strides strides, std::size_t block_elements,
                  std::size_t nblocks) noexcept {
    to.check_strides(strides, block_elements);
    to.check_put({"dest", dest, strided<Bytes>(nblocks, block_elements, strides.dest)},
                 {"source", source, strided<Bytes>(nblocks, block_elements, strides.source)});
    ibput<Bytes>(to.target(), dest, source, strides, block_elements, nblocks);
    to.wrote(dest, strided<Bytes>(nblocks, block_elements, strides.dest));
}

template <std::size_t Bytes>
inline void ibget(const CheckedTarget& to, void* dest, const void* source, Strides strides, std::size_t block_elements,
                  std::size_t nblocks, const char*) noexcept {
    to.check_strides(strides, block_elements);
    to.check_get({"dest", dest, strided<Bytes>(nblocks, block_elements, strides.dest)},
                 {"source", source, strided<Bytes>(nblocks, block_elements, strides.source)});
    to.fill(to.told(source, strided<Bytes>(nblocks, block_elements, strides.source))
                .filling_pieces(pieces(dest, strided<Bytes>(nblocks, block_elements, strides.dest))),
            [&] { return ibget<Bytes>(to.target(), dest, source, strides, block_elements, nblocks); });
}

// ---- atomics ----

template <class T, class Run>
[[nodiscard]] inline T fetch_changing(const CheckedTarget& to, T* dest, Run&& run) noexcept {
    return to.fetch<T>(dest, [&] {
        const T before = run();
        to.wrote(dest, elements(1, sizeof(T)));
        return before;
    });
}

template <class T>
inline T atomic_fetch(const CheckedTarget& to, const T* source) noexcept {
    to.check_element("source", source, sizeof(T));
    return to.fetch<T>(source, [&] { return atomic_fetch(to.target(), source); });
}

template <class T>
inline void atomic_set(const CheckedTarget& to, T* dest, T value) noexcept {
    to.check_element("dest", dest, sizeof(T));
    atomic_set(to.target(), dest, value);
    to.wrote(dest, elements(1, sizeof(T)));
}

template <class T>
inline T atomic_swap(const CheckedTarget& to, T* dest, T value) noexcept {
    to.check_element("dest", dest, sizeof(T));
    return fetch_changing<T>(to, dest, [&] { return atomic_swap(to.target(), dest, value); });
}

template <class T>
inline T atomic_compare_swap(const CheckedTarget& to, T* dest, T condition, T value) noexcept {
    to.check_element("dest", dest, sizeof(T));
    return fetch_changing<T>(to, dest, [&] { return atomic_compare_swap(to.target(), dest, condition, value); });
}

template <class T>
inline T atomic_fetch_add(const CheckedTarget& to, T* dest, T value) noexcept {
    to.check_element("dest", dest, sizeof(T));
    return fetch_changing<T>(to, dest, [&] { return atomic_fetch_add(to.target(), dest, value); });
}

template <class T>
inline T atomic_fetch_and(const CheckedTarget& to, T* dest, T value) noexcept {
    to.check_element("dest", dest, sizeof(T));
    return fetch_changing<T>(to, dest, [&] { return atomic_fetch_and(to.target(), dest, value); });
}

template <class T>
inline T atomic_fetch_or(const CheckedTarget& to, T* dest, T value) noexcept {
    to.check_element("dest", dest, sizeof(T));
    return fetch_changing<T>(to, dest, [&] { return atomic_fetch_or(to.target(), dest, value); });
}

template <class T>
inline T atomic_fetch_xor(const CheckedTarget& to, T* dest, T value) noexcept {
    to.check_element("dest", dest, sizeof(T));
    return fetch_changing<T>(to, dest, [&] { return atomic_fetch_xor(to.target(), dest, value); });
}

template <class T>
inline void atomic_add(const CheckedTarget& to, T* dest, T value) noexcept {
    to.check_element("dest", dest, sizeof(T));
    atomic_add(to.target(), dest, value);
    to.wrote(dest, elements(1, sizeof(T)));
}

template <class T>
inline void atomic_and(const CheckedTarget& to, T* dest, T value) noexcept {
    to.check_element("dest", dest, sizeof(T));
    atomic_and(to.target(), dest, value);
    to.wrote(dest, elements(1, sizeof(T)));
}

template <class T>
inline void atomic_or(const CheckedTarget& to, T* dest, T value) noexcept {
    to.check_element("dest", dest, sizeof(T));
    atomic_or(to.target(), dest, value);
    to.wrote(dest, elements(1, sizeof(T)));
}

template <class T>
inline void atomic_xor(const CheckedTarget& to, T* dest, T value) noexcept {
    to.check_element("dest", dest, sizeof(T));
    atomic_xor(to.target(), dest, value);
    to.wrote(dest, elements(1, sizeof(T)));
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
    to.wrote(signal, elements(1, sizeof *signal));
}

// Whoever sees the signal looks at the data, so these have to be marked before. On another node the target does both.
template <class Put, class PutSignal>
inline void put_with_signal(const CheckedTarget& to, const Signal& signal, const Argument& dest, Put&& put_data,
                            PutSignal&& put_both) noexcept {
    if (to.is_startup() && to.target().locate(signal.address) != nullptr) {
        put_data();
        to.wrote(dest.address, dest.extent);
        update_signal(to, signal.address, signal.value, signal.operation, signal.routine);
    } else {
        put_both();
    }
}

template <std::size_t Bytes, Completion When = Completion::at_once>
inline void put_signal(const CheckedTarget& to, void* dest, const void* source, std::size_t nelems,
                       Signal signal) noexcept {
    to.check_signal({"dest", dest, elements(nelems, Bytes)}, signal);
    to.check_put({"dest", dest, elements(nelems, Bytes)}, {"source", source, elements(nelems, Bytes)});
    put_with_signal(
        to, signal, {"dest", dest, elements(nelems, Bytes)},
        [&] { put<Bytes, When>(to.target(), dest, source, nelems); },
        [&] { put_signal<Bytes, When>(to.target(), dest, source, nelems, signal); });
}

template <Completion When = Completion::at_once>
inline void put_bytes_signal(const CheckedTarget& to, void* dest, const void* source, std::size_t bytes,
                             Signal signal) noexcept {
    to.check_signal({"dest", dest, elements(bytes, 1)}, signal);
    to.check_put({"dest", dest, elements(bytes, 1)}, {"source", source, elements(bytes, 1)});
    put_with_signal(
        to, signal, {"dest", dest, elements(bytes, 1)}, [&] { put_bytes<When>(to.target(), dest, source, bytes); },
        [&] { put_bytes_signal<When>(to.target(), dest, source, bytes, signal); });
}

}  // namespace sft
