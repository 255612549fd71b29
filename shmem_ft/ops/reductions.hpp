// Reductions and scans. The algorithms know elements only as bytes and combine them through a function, so there is
// one copy of them for all types.
//
// Determinism: every element of a result is computed once, or by the same tree of operations on every PE, and the tree
// depends on the group and the counts only. So all PEs get the same bits, and a repetition (after a rollback) gets
// them again, for floating point as well.
#pragma once

#include <complex>
#include <cstddef>
#include <type_traits>

#include "shmem_ft/ops/engine.hpp"

namespace sft {

// left[i] = left[i] op right[i], i < count. left stands before right in the order of the group.
using Combine = void (*)(void* left, const void* right, std::size_t count) noexcept;

struct ElementKind {
    std::size_t bytes;
    Combine combine;
};

// The result on all members. source == dest is allowed.
[[nodiscard]] bool reduce(Engine& e, const PeGroup& group, void* dest, const void* source, std::size_t count,
                          ElementKind kind) noexcept;

// Member i gets the combination of members 0..i (inclusive) or 0..i-1 (exclusive; zero bytes for member 0).
enum class ScanKind { inclusive, exclusive };
[[nodiscard]] bool scan(Engine& e, const PeGroup& group, void* dest, const void* source, std::size_t count,
                        ElementKind kind, ScanKind scan_kind) noexcept;

// Element operators. Integers wrap as the hardware does: computed unsigned and at least as wide as unsigned int, where
// overflow is defined.
template <class T>
using Wide = std::common_type_t<std::make_unsigned_t<T>, unsigned>;

struct Sum {
    template <class T>
    static T apply(T a, T b) noexcept {
        if constexpr (std::is_integral_v<T>) {
            return static_cast<T>(static_cast<Wide<T>>(a) + static_cast<Wide<T>>(b));
        } else {
            return a + b;
        }
    }
};

struct Product {
    template <class T>
    static T apply(T a, T b) noexcept {
        if constexpr (std::is_integral_v<T>) {
            return static_cast<T>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
        } else {
            return a * b;
        }
    }
};

struct Maximum {
    template <class T>
    static T apply(T a, T b) noexcept {
        return a < b ? b : a;
    }
};

struct Minimum {
    template <class T>
    static T apply(T a, T b) noexcept {
        return b < a ? b : a;
    }
};

struct And {
    template <class T>
    static T apply(T a, T b) noexcept {
        return static_cast<T>(a & b);
    }
};

struct Or {
    template <class T>
    static T apply(T a, T b) noexcept {
        return static_cast<T>(a | b);
    }
};

struct Xor {
    template <class T>
    static T apply(T a, T b) noexcept {
        return static_cast<T>(a ^ b);
    }
};

template <class Operator, class T>
void combine_elements(void* left, const void* right, std::size_t count) noexcept {
    T* const __restrict__ accumulator = static_cast<T*>(left);
    const T* const __restrict__ operand = static_cast<const T*>(right);
    for (std::size_t i = 0; i < count; ++i) {
        accumulator[i] = Operator::apply(accumulator[i], operand[i]);
    }
}

template <class Operator, class T>
[[nodiscard]] constexpr ElementKind element_kind() noexcept {
    return {sizeof(T), &combine_elements<Operator, T>};
}

}  // namespace sft
