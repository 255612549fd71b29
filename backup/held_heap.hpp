// The heap of this PE as it was at the line of a version, while it is saved and the program goes on: whoever wants to
// write to a chunk that has not been saved yet waits for it (transport/shm/guard_words.hpp), and comes first.
//
// A chunk that is waited for is set aside, and may be written: it is saved from there when its turn comes. So nobody
// waits for longer than one block and the chunks that are waited for take to be copied. What was set aside costs memory
// until then, no more than the heap. Which pages of it exist is asked of the memory file in its turn, so whoever makes
// holes there waits until then.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "backup/block_set.hpp"
#include "backup/image.hpp"
#include "base/address_range.hpp"
#include "base/result.hpp"
#include "symheap/live_state.hpp"
#include "transport/shm/guard_words.hpp"

namespace sft {

class HeldHeap final : public BlockSource {
public:
    HeldHeap() = default;
    ~HeldHeap() override { release(); }
    HeldHeap(const HeldHeap&) = delete;
    HeldHeap& operator=(const HeldHeap&) = delete;

    [[nodiscard]] Result<> create(const LiveState& live, const GuardWords& words);
    void release() noexcept;
    [[nodiscard]] bool is_created() const noexcept { return words_.is_set(); }

    // From now on, and for all who look behind this. only: these blocks; null: all.
    void hold(const BlockSet* only);
    // Called when what is not of the heap has been saved.
    void tell_of_rest(std::function<void()> saved_rest) { saved_rest_ = std::move(saved_rest); }
    // Everything has been saved.
    void let_go() noexcept;

    // BlockSource
    [[nodiscard]] const std::byte* at(std::size_t block, const std::byte* live) noexcept override;
    void saved_rest() noexcept override { saved_rest_(); }

private:
    static constexpr std::size_t kBlocksOfChunk = GuardWords::kChunkBytes / kBlockBytes;
    static_assert(GuardWords::kChunkBytes % kBlockBytes == 0);

    void let_go_before(std::size_t chunk) noexcept;
    void set_aside(std::size_t chunk) noexcept;
    [[nodiscard]] std::size_t bytes_of(std::size_t chunk) const noexcept;

    GuardWords words_;
    AddressRange heap_;
    int heap_fd_ = -1;
    std::size_t heap_file_offset_ = 0;
    std::byte* aside_ = nullptr;          // as long as the heap
    std::vector<std::uint8_t> is_aside_;  // by chunk
    std::size_t next_ = 0;                // chunk: those before have been saved
    std::function<void()> saved_rest_;
};

}  // namespace sft
