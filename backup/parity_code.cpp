#include "backup/parity_code.hpp"

#include <isa-l/erasure_code.h>

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "base/raw_memory.hpp"

namespace sft {
namespace {

constexpr int kTableBytes = 32;  // of ISA-L, for one factor

// Of the library, which does not take constants.
unsigned char* mutable_bytes(const std::byte* data) noexcept {
    return const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(data));
}

// Sixteen bytes. They may lie anywhere in memory, which not every compiler can be told of by a type.
struct Word {
    using Type = std::uint64_t __attribute__((vector_size(16)));
};
constexpr std::size_t kWordBytes = sizeof(Word::Type);

Word::Type word_at(const std::byte* place) noexcept {
    Word::Type word;
    std::memcpy(&word, place, sizeof word);
    return word;
}

void put_word(std::byte* place, Word::Type word) noexcept { std::memcpy(place, &word, sizeof word); }

}  // namespace

ParityCode::ParityCode(std::int32_t n_members, std::int32_t n_parity) : n_members_(n_members), n_parity_(n_parity) {
    SFT_ASSERT(n_parity > 0 && n_parity < n_members && n_members < 128);
    const std::int32_t k = n_data();
    matrix_.resize(static_cast<std::size_t>(n_members_) * static_cast<std::size_t>(k));
    ::gf_gen_cauchy1_matrix(matrix_.data(), n_members_, k);
    if (n_parity_ == 1) {
        std::fill(matrix_.end() - k, matrix_.end(), std::uint8_t(1));
    }
}

ParityCode::Stripe ParityCode::stripe_of(std::int32_t member, std::size_t unit) const noexcept {
    const auto k = static_cast<std::size_t>(n_data());
    const std::int32_t type = (member + 1 + static_cast<std::int32_t>(unit % k)) % n_members_;
    SFT_ASSERT_SLOW(parity_of(member, type) < 0);
    return {unit / k, type};
}

std::int32_t ParityCode::parity_of(std::int32_t member, std::int32_t type) const noexcept {
    const std::int32_t parity = (member - type + n_members_) % n_members_;
    return parity < n_parity_ ? parity : -1;
}

std::size_t ParityCode::unit_of(std::int32_t member, Stripe stripe) const noexcept {
    SFT_ASSERT(parity_of(member, stripe.type) < 0);
    const std::int32_t place = (stripe.type - member - 1 + 2 * n_members_) % n_members_;
    return stripe.row * static_cast<std::size_t>(n_data()) + static_cast<std::size_t>(place);
}

std::int32_t ParityCode::column_of(std::int32_t member, std::int32_t type) const noexcept {
    const std::int32_t column = (member - type - n_parity_ + 2 * n_members_) % n_members_;
    SFT_ASSERT(column < n_data());
    return column;
}

std::uint8_t ParityCode::coefficient(std::int32_t member, std::int32_t type, std::int32_t parity) const noexcept {
    SFT_ASSERT(parity >= 0 && parity < n_parity_);
    return matrix_[static_cast<std::size_t>((n_data() + parity) * n_data() + column_of(member, type))];
}

void ParityCode::decode(std::int32_t member, std::int32_t type, std::span<const Piece> pieces, std::byte* out,
                        std::size_t bytes) const {
    const auto k = static_cast<std::size_t>(n_data());
    SFT_ASSERT(pieces.size() == k);
    std::vector<std::uint8_t> rows(k * k);
    for (std::size_t i = 0; i < k; ++i) {
        SFT_ASSERT(pieces[i].parity >= 0 || pieces[i].member != member);
        const std::int32_t row =
            pieces[i].parity >= 0 ? n_data() + pieces[i].parity : column_of(pieces[i].member, type);
        std::copy_n(matrix_.begin() + static_cast<std::ptrdiff_t>(row) * n_data(), k,
                    rows.begin() + static_cast<std::ptrdiff_t>(i * k));
    }
    std::vector<std::uint8_t> inverse(k * k);
    [[maybe_unused]] const int failed = ::gf_invert_matrix(rows.data(), inverse.data(), static_cast<int>(k));
    SFT_ASSERT(failed == 0);  // any k rows of a Cauchy matrix with the identity are independent, if none comes twice
    const std::uint8_t* const wanted = inverse.data() + static_cast<std::size_t>(column_of(member, type)) * k;
    std::vector<std::uint8_t> factors;
    std::vector<unsigned char*> sources;
    for (std::size_t i = 0; i < k; ++i) {
        if (pieces[i].data != nullptr && wanted[i] != 0) {
            factors.push_back(wanted[i]);
            sources.push_back(mutable_bytes(pieces[i].data));
        }
    }
    std::memset(out, 0, bytes);
    if (std::all_of(factors.begin(), factors.end(), [](std::uint8_t factor) { return factor == 1; })) {
        for (const unsigned char* source : sources) {
            add_bytes(out, reinterpret_cast<const std::byte*>(source), bytes);
        }
        return;
    }
    std::vector<std::uint8_t> tables(factors.size() * kTableBytes);
    ::ec_init_tables(static_cast<int>(factors.size()), 1, factors.data(), tables.data());
    unsigned char* dest = mutable_bytes(out);
    ::ec_encode_data(static_cast<int>(bytes), static_cast<int>(factors.size()), 1, tables.data(), sources.data(),
                     &dest);
}

void add_bytes(std::byte* dest, const std::byte* source, std::size_t bytes) noexcept {
    std::size_t at = 0;
    for (; at + kWordBytes <= bytes; at += kWordBytes) {
        put_word(dest + at, word_at(dest + at) ^ word_at(source + at));
    }
    for (; at < bytes; ++at) {
        dest[at] ^= source[at];
    }
}

// One pass: every byte is read and written once.
bool sum_of(std::byte* dest, const std::byte* a, const std::byte* b, std::size_t bytes) noexcept {
    Word::Type any{};
    std::size_t at = 0;
    for (; at + kWordBytes <= bytes; at += kWordBytes) {
        const Word::Type sum = word_at(a + at) ^ word_at(b + at);
        put_word(dest + at, sum);
        any |= sum;
    }
    std::byte rest{};
    for (; at < bytes; ++at) {
        dest[at] = a[at] ^ b[at];
        rest |= dest[at];
    }
    return (any[0] | any[1]) != 0 || rest != std::byte(0);
}

bool difference(std::byte* dest, const std::byte* a, const std::byte* b, std::size_t bytes) noexcept {
    if (a == nullptr || b == nullptr) {
        const std::byte* const only = a != nullptr ? a : b;
        if (only == nullptr || is_zero(only, bytes)) {
            return false;
        }
        raw_copy(dest, only, bytes);
        return true;
    }
    return sum_of(dest, a, b, bytes);
}

void multiply(std::byte* dest, std::uint8_t factor, const std::byte* source, std::size_t bytes) noexcept {
    std::uint8_t table[kTableBytes];
    ::ec_init_tables(1, 1, &factor, table);
    unsigned char* from = mutable_bytes(source);
    unsigned char* to = mutable_bytes(dest);
    ::ec_encode_data(static_cast<int>(bytes), 1, 1, table, &from, &to);
}

bool is_zero(const std::byte* data, std::size_t bytes) noexcept {
    return bytes == 0 || (data[0] == std::byte(0) && raw_equal(data, data + 1, bytes - 1));
}

}  // namespace sft
