#include "backup/parity_code.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace sft {
namespace {

constexpr std::size_t kUnits = 40;
constexpr std::size_t kBytes = 96;

std::vector<std::byte> random_bytes(std::mt19937& random, std::size_t bytes) {
    std::vector<std::byte> all(bytes);
    for (std::byte& byte : all) {
        byte = std::byte(random());
    }
    return all;
}

// All states of a group, and the parity of them, kept as the code says.
class Stripes {
public:
    Stripes(std::int32_t n_members, std::int32_t n_parity) : code(n_members, n_parity) {
        std::mt19937 random(static_cast<unsigned>(n_members * 10 + n_parity));
        for (std::int32_t member = 0; member < n_members; ++member) {
            for (std::size_t unit = 0; unit < kUnits; ++unit) {
                units[{member, unit}] = random_bytes(random, kBytes);
                add(member, unit, units[{member, unit}]);
            }
        }
    }
    // The change counts everywhere where its unit does.
    void add(std::int32_t member, std::size_t unit, const std::vector<std::byte>& change) {
        const ParityCode::Stripe stripe = code.stripe_of(member, unit);
        for (std::int32_t parity = 0; parity < code.n_parity(); ++parity) {
            const std::int32_t keeper = code.keeper_of(stripe.type, parity);
            EXPECT_NE(keeper, member);
            std::vector<std::byte>& kept = parities[{keeper, code.place_of(stripe.row, parity)}];
            kept.resize(kBytes);
            std::vector<std::byte> product(kBytes);
            multiply(product.data(), code.coefficient(member, stripe.type, parity), change.data(), kBytes);
            add_bytes(kept.data(), product.data(), kBytes);
        }
    }
    [[nodiscard]] std::vector<std::byte> computed(std::int32_t member, std::size_t unit,
                                                  const std::set<std::int32_t>& lost) const {
        const ParityCode::Stripe stripe = code.stripe_of(member, unit);
        std::vector<ParityCode::Piece> pieces;
        for (std::int32_t other = 0; other < code.n_members(); ++other) {
            if (code.parity_of(other, stripe.type) < 0 && !lost.contains(other)) {
                const auto at = units.find({other, code.unit_of(other, stripe)});
                pieces.push_back({other, -1, at == units.end() ? nullptr : at->second.data()});
            }
        }
        for (std::int32_t parity = 0; parity < code.n_parity(); ++parity) {
            const std::int32_t keeper = code.keeper_of(stripe.type, parity);
            if (!lost.contains(keeper) && pieces.size() < static_cast<std::size_t>(code.n_data())) {
                pieces.push_back({-1, parity, parities.at({keeper, code.place_of(stripe.row, parity)}).data()});
            }
        }
        std::vector<std::byte> out(kBytes, std::byte(0xee));
        code.decode(member, stripe.type, pieces, out.data(), kBytes);
        return out;
    }

    ParityCode code;
    std::map<std::pair<std::int32_t, std::size_t>, std::vector<std::byte>> units;
    std::map<std::pair<std::int32_t, std::size_t>, std::vector<std::byte>> parities;
};

TEST(ParityCode, EveryLossThatIsPromisedComesBack) {
    for (std::int32_t n_members = 2; n_members <= 7; ++n_members) {
        for (std::int32_t n_parity = 1; n_parity < n_members && n_parity <= 4; ++n_parity) {
            const Stripes stripes(n_members, n_parity);
            for (unsigned pattern = 1; pattern < 1U << n_members; ++pattern) {
                std::set<std::int32_t> lost;
                for (std::int32_t member = 0; member < n_members; ++member) {
                    if ((pattern >> member & 1) != 0) {
                        lost.insert(member);
                    }
                }
                if (lost.size() > static_cast<std::size_t>(n_parity)) {
                    continue;
                }
                for (const std::int32_t member : lost) {
                    for (std::size_t unit = 0; unit < kUnits; ++unit) {
                        ASSERT_EQ(stripes.computed(member, unit, lost), stripes.units.at({member, unit}))
                            << n_members << "," << n_parity << " member " << member << " unit " << unit;
                    }
                }
            }
        }
    }
}

TEST(ParityCode, AChangeIsAllThatIsNeeded) {
    Stripes stripes(6, 2);
    std::mt19937 random(3);
    for (int round = 0; round < 100; ++round) {
        const auto member = static_cast<std::int32_t>(random() % 6);
        const std::size_t unit = random() % kUnits;
        const std::vector<std::byte> change = random_bytes(random, kBytes);
        add_bytes(stripes.units[{member, unit}].data(), change.data(), kBytes);
        stripes.add(member, unit, change);
    }
    for (std::size_t unit = 0; unit < kUnits; ++unit) {
        ASSERT_EQ(stripes.computed(1, unit, {1, 4}), stripes.units.at({1, unit}));
    }
}

// Every member keeps as much, give or take a stripe, and no unit twice.
TEST(ParityCode, TheWorkIsSpreadOverTheGroup) {
    for (std::int32_t n_members = 2; n_members <= 9; ++n_members) {
        for (std::int32_t n_parity = 1; n_parity < n_members && n_parity <= 4; ++n_parity) {
            const Stripes stripes(n_members, n_parity);
            const std::size_t n_rows = (kUnits + static_cast<std::size_t>(stripes.code.n_data()) - 1) /
                                       static_cast<std::size_t>(stripes.code.n_data());
            for (const auto& [place, kept] : stripes.parities) {
                EXPECT_LT(place.second, n_rows * static_cast<std::size_t>(n_parity));
            }
            std::set<std::tuple<std::int32_t, std::size_t, std::size_t>> places;
            for (std::int32_t member = 0; member < n_members; ++member) {
                for (std::size_t unit = 0; unit < kUnits; ++unit) {
                    const ParityCode::Stripe stripe = stripes.code.stripe_of(member, unit);
                    EXPECT_EQ(stripes.code.unit_of(member, stripe), unit);
                    EXPECT_TRUE(places.emplace(member, stripe.row, stripe.type).second);
                }
            }
        }
    }
}

TEST(ParityCode, DifferencesAreFoundAndZerosLeftOut) {
    std::mt19937 random(9);
    const std::vector<std::byte> a = random_bytes(random, 100);
    std::vector<std::byte> b = a;
    std::vector<std::byte> change(100);
    EXPECT_FALSE(difference(change.data(), a.data(), b.data(), 100));
    EXPECT_FALSE(difference(change.data(), nullptr, nullptr, 100));
    b[99] ^= std::byte(1);
    ASSERT_TRUE(difference(change.data(), a.data(), b.data(), 100));
    EXPECT_EQ(change[99], std::byte(1));
    EXPECT_TRUE(is_zero(change.data(), 99));
    ASSERT_TRUE(difference(change.data(), nullptr, b.data(), 100));
    EXPECT_EQ(change, b);
    const std::vector<std::byte> zeros(100);
    EXPECT_FALSE(difference(change.data(), zeros.data(), nullptr, 100));
}

}  // namespace
}  // namespace sft
