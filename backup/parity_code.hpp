// The arithmetic of parity in a group of PEs: which piece of whose state goes into which parity, kept by whom, and how
// a lost piece is computed from others.
//
// A group has s members and survives the loss of any m of them. Each state is a row of units of the same size. Of s - m
// members one unit each, and m parity units that the other members keep, make a stripe; which members keep the parity
// turns with every stripe, so all do the same work and keep the same amount:
//
//      s = 4, m = 1     stripe type 0   1   2   3        unit u of member i is in row u / (s - m), and there in the
//        member 0           P   .   .   .        type (i + 1 + u mod (s - m)) mod s
//        member 1           .   P   .   .
//        member 2           .   .   P   .
//        member 3           .   .   .   P
//
// With m = 1 parity is the exclusive or of the units. With more it is a Reed-Solomon code over GF(2^8) with a Cauchy
// matrix, in which any s - m units of a stripe give the others (Blömer et al., "An XOR-Based Erasure-Resilient Coding
// Scheme", 1995; the arithmetic is ISA-L's). Both are linear: a change of a unit changes the parity by the change times
// a coefficient, so parity is brought up to date without anybody else's unit.
//
// Threads: constant after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sft {

inline constexpr std::size_t kUnitBytes = 16 * 1024;

class ParityCode {
public:
    // REQUIRES: 0 < n_parity < n_members.
    ParityCode(std::int32_t n_members, std::int32_t n_parity);

    [[nodiscard]] std::int32_t n_members() const noexcept { return n_members_; }
    [[nodiscard]] std::int32_t n_parity() const noexcept { return n_parity_; }
    // Units of states in a stripe.
    [[nodiscard]] std::int32_t n_data() const noexcept { return n_members_ - n_parity_; }

    struct Stripe {
        std::size_t row = 0;
        std::int32_t type = 0;
    };
    [[nodiscard]] Stripe stripe_of(std::int32_t member, std::size_t unit) const noexcept;
    // Which of the m parities of such stripes the member keeps; -1: none, it has a unit in them.
    [[nodiscard]] std::int32_t parity_of(std::int32_t member, std::int32_t type) const noexcept;
    [[nodiscard]] std::int32_t keeper_of(std::int32_t type, std::int32_t parity) const noexcept {
        return (type + parity) % n_members_;
    }
    // The unit of a member that keeps none.
    [[nodiscard]] std::size_t unit_of(std::int32_t member, Stripe stripe) const noexcept;
    // Where the parity is among those that its keeper has.
    [[nodiscard]] std::size_t place_of(std::size_t row, std::int32_t parity) const noexcept {
        return row * static_cast<std::size_t>(n_parity_) + static_cast<std::size_t>(parity);
    }
    // By which a member's unit counts in that parity.
    [[nodiscard]] std::uint8_t coefficient(std::int32_t member, std::int32_t type, std::int32_t parity) const noexcept;

    // A unit of a member's, or a parity unit; null: zeros.
    struct Piece {
        std::int32_t member = -1;
        std::int32_t parity = -1;  // not -1: that parity, and not the unit of a member
        const std::byte* data = nullptr;
    };
    // The unit of `member` in stripes of that type from n_data() others. `bytes` of each.
    void decode(std::int32_t member, std::int32_t type, std::span<const Piece> pieces, std::byte* out,
                std::size_t bytes) const;

private:
    // The place of a member's unit in the code's matrix.
    [[nodiscard]] std::int32_t column_of(std::int32_t member, std::int32_t type) const noexcept;

    std::int32_t n_members_;
    std::int32_t n_parity_;
    std::vector<std::uint8_t> matrix_;  // row by row: n_data() of the identity, then the parities
};

// dest = dest xor source
void add_bytes(std::byte* dest, const std::byte* source, std::size_t bytes) noexcept;
// dest = a xor b. False: all of it is zero.
bool sum_of(std::byte* dest, const std::byte* a, const std::byte* b, std::size_t bytes) noexcept;
// The same; null: zeros.
bool difference(std::byte* dest, const std::byte* a, const std::byte* b, std::size_t bytes) noexcept;
// dest = factor * source, in GF(2^8)
void multiply(std::byte* dest, std::uint8_t factor, const std::byte* source, std::size_t bytes) noexcept;
[[nodiscard]] bool is_zero(const std::byte* data, std::size_t bytes) noexcept;

}  // namespace sft
