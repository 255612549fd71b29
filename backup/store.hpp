// The copies that one process has to do with: its local copy, its shadow at its keeper, and the shadows that it
// keeps for others.
//
//   local copy   private memory; what the PE rolls back from without asking anybody (mode double_copy)
//   shadow       two slots at the keeper, version v in slot v mod 2, so v stays whole while v + 1 is written;
//                the owner maps the keeper's memory and writes there itself, the keeper need not take part
//   own store    a memory file with room for the shadow of every PE of the job; only what is used costs memory
//
// Ownership: the store belongs to the keeper's process. When that process dies its memory stays as long as an owner
// has it mapped, which is how a PE in mode single_copy can still roll back after its keeper's death.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "backup/image.hpp"
#include "shmem_ft/base/config.hpp"
#include "shmem_ft/base/ids.hpp"
#include "symheap/segment.hpp"

namespace sft {

class BackupStore {
public:
    // Where a keeper's store can be opened.
    struct Door {
        std::int32_t pid = 0;
        int store_fd = -1;
    };

    [[nodiscard]] bool create(BackupMode mode, const LiveState& live, std::int32_t n_pes, std::string& error);
    void release() noexcept;
    [[nodiscard]] int fd() const noexcept { return kept_.fd(); }

    // Maps the room for `pe`'s shadow at a keeper. False: the keeper is gone (error says what failed).
    [[nodiscard]] bool use_keeper(const Door& door, PeId pe, const LiveState& live, std::string& error);
    void forget_keeper() noexcept { has_shadow_ = false; }

    ImageStats ship(Version version, const LiveState& live) noexcept;
    ImageStats fold(Version version, const LiveState& live) noexcept;
    // From the local copy, or else from the shadow. False: neither is intact.
    [[nodiscard]] bool roll_back(Version version, const LiveState& live) const noexcept;

    enum class Fetched { done, keeper_gone, corrupt };
    // `pe`'s state of `version`, from the store of its keeper, into the live memory of this process.
    [[nodiscard]] static Fetched fetch(const Door& door, PeId pe, Version version, const LiveState& live);
    // Only what Image::load_front loads.
    [[nodiscard]] static Fetched fetch_front(const Door& door, PeId pe, Version version, const LiveState& live,
                                             std::size_t heap_bytes);

private:
    [[nodiscard]] static std::size_t room_bytes(const LiveState& live) noexcept { return 2 * Image::bytes_for(live); }
    [[nodiscard]] static Image slot(std::byte* room, Version version, const LiveState& live) noexcept {
        return {room + (version.value() % 2) * Image::bytes_for(live), live};
    }

    template <class Load>
    [[nodiscard]] static Fetched with_shadow(const Door& door, PeId pe, Version version, const LiveState& live,
                                             Load&& load);

    BackupMode mode_ = BackupMode::none;
    Segment kept_;   // shadows kept for others; not mapped here
    Window shadow_;  // own shadow, in the keeper's memory
    bool has_shadow_ = false;
    Window local_;  // private memory
};

}  // namespace sft
