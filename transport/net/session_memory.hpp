// Memory for the payloads of packets, kept for the next one when it is given back.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/assert.hpp"

namespace sft {

struct SessionMemory {
    std::unique_ptr<std::byte[]> bytes;
    std::uint32_t sort = 0;  // its size is 2^sort
    std::uint32_t n_users = 0;
};

class SessionMemoryPool {
public:
    // For one user. bytes <= 2^31.
    [[nodiscard]] SessionMemory* take(std::size_t bytes) {
        const auto sort = static_cast<std::uint32_t>(std::bit_width(std::max(bytes, kLeast) - 1));
        SFT_ASSERT(bytes != 0 && sort < free_.size());
        std::vector<SessionMemory*>& some = free_[sort].empty() ? empty_ : free_[sort];
        SessionMemory* memory = nullptr;
        if (some.empty()) {
            memory = &all_.emplace_back();
        } else {
            memory = some.back();
            some.pop_back();
        }
        SFT_ASSERT(memory->n_users == 0);
        if (memory->bytes == nullptr) {
            memory->bytes = std::make_unique_for_overwrite<std::byte[]>(std::size_t{1} << sort);
            memory->sort = sort;
        } else {
            SFT_ASSERT(memory->sort == sort && free_bytes_ >= std::size_t{1} << sort);
            free_bytes_ -= std::size_t{1} << sort;
        }
        SFT_ASSERT(std::size_t{1} << memory->sort >= bytes);
        memory->n_users = 1;
        return memory;
    }

    // Null: nothing.
    void give(SessionMemory* memory) noexcept {
        if (memory == nullptr) {
            return;
        }
        SFT_ASSERT(memory->n_users != 0 && memory->bytes != nullptr);
        if (--memory->n_users != 0) {
            return;
        }
        SFT_ASSERT(memory->sort < free_.size());
        const std::size_t bytes = std::size_t{1} << memory->sort;
        if (free_bytes_ + bytes > kFreeBytesMax) {
            memory->bytes.reset();
            empty_.push_back(memory);
        } else {
            free_bytes_ += bytes;
            free_[memory->sort].push_back(memory);
        }
    }

private:
    static constexpr std::size_t kLeast = 64;
    static constexpr std::size_t kFreeBytesMax = std::size_t{16} << 20;

    std::deque<SessionMemory> all_;  // places that do not move
    std::array<std::vector<SessionMemory*>, 32> free_;
    std::vector<SessionMemory*> empty_;
    std::size_t free_bytes_ = 0;
};

}  // namespace sft
