// Random numbers that are the same everywhere and for ever for one seed (SplitMix64).
#pragma once

#include <cstdint>

namespace sft::sim {

[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t value) noexcept {
    value += 0x9e3779b97f4a7c15ULL;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
    return value ^ (value >> 31);
}

class Random {
public:
    explicit Random(std::uint64_t seed) noexcept : state_(mix(seed)) {}

    [[nodiscard]] std::uint64_t next() noexcept { return mix(state_ += 0x9e3779b97f4a7c15ULL); }
    // Both ends included.
    [[nodiscard]] std::int64_t between(std::int64_t low, std::int64_t high) noexcept {
        return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
    }
    [[nodiscard]] std::int32_t pick(std::int32_t low, std::int32_t high) noexcept {
        return static_cast<std::int32_t>(between(low, high));
    }
    [[nodiscard]] bool percent(int chance) noexcept { return between(0, 99) < chance; }

private:
    std::uint64_t state_;
};

}  // namespace sft::sim
