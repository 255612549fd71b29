// Reductions and scans. The algorithms know elements only as bytes and combine them through a function, so there is
// one copy of them for all types.
//
// Determinism: every element of a result is computed once, or by the same tree of operations on every PE, and the tree
// depends on the group and the counts only. So all PEs get the same bits, and a repetition (after a rollback) gets
// them again, for floating point as well.
#pragma once

#include <bit>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
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

// The extreme of two floating-point numbers, so that it does not matter in which order those of the PEs are combined: a
// number wins over NaN, -0.0 is less than +0.0 (maximumNumber and minimumNumber of IEEE 754-2019), and several NaNs
// make the plain quiet NaN, whatever they carried.
//
// For the types that processors have vectors of there is no branch, and the form is one that compilers turn into
// vector instructions: of the two ways to ask, each gives its second operand for NaN and for two zeros.
enum class Extreme { least, greatest };

template <Extreme Which, class T>
inline T extreme_number(T a, T b) noexcept {
    constexpr T nan = std::numeric_limits<T>::quiet_NaN();
    if constexpr (std::is_same_v<T, long double>) {
        if (a == b) {
            return std::signbit(a) == (Which == Extreme::greatest) ? b : a;
        }
        const bool is_b = a != a || (Which == Extreme::greatest ? a < b : b < a);
        const T result = is_b ? b : a;
        return result == result ? result : nan;
    } else {
        using Bits = std::conditional_t<sizeof(T) == sizeof(std::uint32_t), std::uint32_t, std::uint64_t>;
        static_assert(sizeof(Bits) == sizeof(T) && std::numeric_limits<T>::is_iec559);
        const T one = Which == Extreme::greatest ? (a > b ? a : b) : (a < b ? a : b);
        const T other = Which == Extreme::greatest ? (b > a ? b : a) : (b < a ? b : a);
        const Bits x = std::bit_cast<Bits>(one);
        const Bits y = std::bit_cast<Bits>(other);
        T result = std::bit_cast<T>(Which == Extreme::greatest ? x & y : x | y);  // differ for zeros and NaN only
        result = b == b ? result : a;
        const T instead = b == b ? b : nan;
        return a == a ? result : instead;
    }
}

struct Maximum {
    template <class T>
    static T apply(T a, T b) noexcept {
        if constexpr (std::is_floating_point_v<T>) {
            return extreme_number<Extreme::greatest>(a, b);
        } else {
            return a < b ? b : a;
        }
    }
};

struct Minimum {
    template <class T>
    static T apply(T a, T b) noexcept {
        if constexpr (std::is_floating_point_v<T>) {
            return extreme_number<Extreme::least>(a, b);
        } else {
            return b < a ? b : a;
        }
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

// GCC makes vector instructions of such loops at -O3 only.
#if defined(__GNUC__) && !defined(__clang__)
#define SFT_VECTORIZED __attribute__((optimize("O3")))
#else
#define SFT_VECTORIZED
#endif

template <class Operator, class T>
SFT_VECTORIZED void combine_elements(void* left, const void* right, std::size_t count) noexcept {
    T* const __restrict__ accumulator = static_cast<T*>(left);
    const T* const __restrict__ operand = static_cast<const T*>(right);
    for (std::size_t i = 0; i < count; ++i) {
        accumulator[i] = Operator::apply(accumulator[i], operand[i]);
    }
}

template <class Operator, class T>
[[nodiscard]] constexpr ElementKind element_kind() noexcept {
    static_assert(std::is_trivially_copyable_v<T>, "elements travel as bytes");
    return {sizeof(T), &combine_elements<Operator, T>};
}

}  // namespace sft
