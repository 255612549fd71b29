// Waiting for, and testing, variables of this PE that other PEs update.
//
// Fault rule: while a fault is pending waits return although nothing may hold, and tests succeed: a program that tests
// in a loop waits as surely as one that waits. any and some then report the first element of the set, an index that the
// caller can use; what it computes with it is rolled back. An unknown comparison ends the process with one line.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/assert.hpp"
#include "shmem_ft/ops/target.hpp"

namespace sft {

// Values of SHMEM_CMP_*.
enum class Comparison : int { eq = 1, ne = 2, gt = 3, ge = 4, lt = 5, le = 6 };

template <class T>
[[nodiscard]] inline bool compare(T value, Comparison comparison, T operand) noexcept {
    switch (comparison) {
        case Comparison::eq: return value == operand;
        case Comparison::ne: return value != operand;
        case Comparison::gt: return value > operand;
        case Comparison::ge: return value >= operand;
        case Comparison::lt: return value < operand;
        case Comparison::le: return value <= operand;
    }
    report_bad_argument("a wait or test routine", "cmp", static_cast<long>(comparison));
}

template <class T>
[[nodiscard]] inline T load_acquire(const T* variable) noexcept {
    return std::atomic_ref<T>(*const_cast<T*>(variable)).load(std::memory_order_acquire);
}

// Takes in what the network has brought. 1 when a fault is pending.
[[gnu::cold]] int after_failed_test_elsewhere(Engine& e) noexcept;

// A program that tests in a loop would keep a PE it waits for off its own processor when there are more PEs than
// processors. Giving it up at every 64th failure costs nothing where there are enough.
// Returns what the test is to return: 1 when a fault is pending.
inline int after_failed_test(Engine& e) noexcept {
    if (e.turn.fetch_add(1, std::memory_order_relaxed) % 64 == 63) {
        Waiter::give_way();
    }
    return e.gate.is_plain() ? 0 : after_failed_test_elsewhere(e);
}

template <class T>
inline void wait_until(Engine& e, const T* variable, int comparison, T operand) noexcept {
    e.waiter.poll_until([=] { return compare(load_acquire(variable), static_cast<Comparison>(comparison), operand); });
}

template <class T>
[[nodiscard]] inline int test(Engine& e, const T* variable, int comparison, T operand) noexcept {
    if (compare(load_acquire(variable), static_cast<Comparison>(comparison), operand)) {
        return 1;
    }
    return after_failed_test(e);
}

// The variables of an array form. One operand for all of them, or one each (vector forms).
template <class T>
struct WatchedSet {
    const T* variables;
    std::size_t nelems;
    const int* status;  // 0: in the set; null: all are
    int comparison;
    const T* operands;
    std::size_t operand_step;  // 0: one for all, 1: one each

    [[nodiscard]] bool contains(std::size_t i) const noexcept { return status == nullptr || status[i] == 0; }

    // The first element of the set, SIZE_MAX when it is empty.
    [[nodiscard]] std::size_t first() const noexcept {
        for (std::size_t i = 0; i < nelems; ++i) {
            if (contains(i)) {
                return i;
            }
        }
        return SIZE_MAX;
    }

    [[nodiscard]] bool is_empty() const noexcept { return first() == SIZE_MAX; }

    // The first element as the result of a some form.
    std::size_t only_first(std::size_t* indices) const noexcept {
        const std::size_t index = first();
        if (index == SIZE_MAX) {
            return 0;
        }
        indices[0] = index;
        return 1;
    }

    [[nodiscard]] bool holds(std::size_t i) const noexcept {
        return compare(load_acquire(&variables[i]), static_cast<Comparison>(comparison), operands[i * operand_step]);
    }

    [[nodiscard]] bool all_hold() const noexcept {
        for (std::size_t i = 0; i < nelems; ++i) {
            if (contains(i) && !holds(i)) {
                return false;
            }
        }
        return true;
    }

    // SIZE_MAX when none holds. Starting elsewhere each time lets every element be found sooner or later.
    [[nodiscard]] std::size_t find(std::size_t start) const noexcept {
        SFT_ASSERT_SLOW(start < nelems || nelems == 0);
        for (std::size_t n = 0, i = start; n < nelems; ++n, i = i + 1 == nelems ? 0 : i + 1) {
            if (contains(i) && holds(i)) {
                return i;
            }
        }
        return SIZE_MAX;
    }

    std::size_t find_all(std::size_t* indices) const noexcept {
        std::size_t found = 0;
        for (std::size_t i = 0; i < nelems; ++i) {
            if (contains(i) && holds(i)) {
                indices[found++] = i;
            }
        }
        return found;
    }
};

template <class T>
inline std::size_t search_start(Engine& e, const WatchedSet<T>& set) noexcept {
    if (set.nelems == 0) {
        return 0;
    }
    // Scrambled, because a program that makes several searches per step would meet the same residue each time.
    return (e.turn.fetch_add(1, std::memory_order_relaxed) * 0x9e3779b1U >> 8) % set.nelems;
}

template <class T>
inline void wait_until_all(Engine& e, const WatchedSet<T>& set) noexcept {
    for (std::size_t i = 0; i < set.nelems; ++i) {
        if (set.contains(i) && !e.waiter.poll_until([&] { return set.holds(i); })) {
            return;
        }
    }
}

template <class T>
[[nodiscard]] inline std::size_t wait_until_any(Engine& e, const WatchedSet<T>& set) noexcept {
    std::size_t found = SIZE_MAX;
    if (!set.is_empty()) {
        const std::size_t start = search_start(e, set);
        e.waiter.poll_until([&] { return (found = set.find(start)) != SIZE_MAX; });
    }
    return found == SIZE_MAX ? set.first() : found;
}

template <class T>
[[nodiscard]] inline std::size_t wait_until_some(Engine& e, const WatchedSet<T>& set, std::size_t* indices) noexcept {
    std::size_t found = 0;
    if (!set.is_empty()) {
        e.waiter.poll_until([&] { return (found = set.find_all(indices)) != 0; });
    }
    return found == 0 ? set.only_first(indices) : found;
}

template <class T>
[[nodiscard]] inline int test_all(Engine& e, const WatchedSet<T>& set) noexcept {
    return set.all_hold() ? 1 : after_failed_test(e);
}

template <class T>
[[nodiscard]] inline std::size_t test_any(Engine& e, const WatchedSet<T>& set) noexcept {
    const std::size_t found = set.find(search_start(e, set));
    return found == SIZE_MAX && after_failed_test(e) != 0 ? set.first() : found;
}

template <class T>
[[nodiscard]] inline std::size_t test_some(Engine& e, const WatchedSet<T>& set, std::size_t* indices) noexcept {
    const std::size_t found = set.find_all(indices);
    return found == 0 && after_failed_test(e) != 0 ? set.only_first(indices) : found;
}

// The value that satisfied the comparison, or the last one seen when a fault is pending.
[[nodiscard]] inline std::uint64_t wait_for_signal(Engine& e, const std::uint64_t* signal, int comparison,
                                                   std::uint64_t operand) noexcept {
    std::uint64_t seen = 0;
    e.waiter.poll_until([&] {
        seen = load_acquire(signal);
        return compare(seen, static_cast<Comparison>(comparison), operand);
    });
    return seen;
}

}  // namespace sft
