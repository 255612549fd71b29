// A PE's shadow at a keeper on another node: two far images (image.hpp) with their mirrors.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "backup/far_image.hpp"
#include "backup/image.hpp"
#include "base/assert.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "symheap/segment.hpp"

namespace sft {

class FarShadow {
public:
    explicit FarShadow(ProcId keeper) noexcept : keeper_(keeper) {}

    // `wire` leads to the keeper's store, in which the shadow begins at `offset`. Whatever is there is unknown yet.
    // Without `own_wire`, the owner of `wire` keeps it until this ends.
    [[nodiscard]] Result<> open(StoreWire& wire, std::unique_ptr<StoreWire> own_wire, std::size_t offset,
                                const LiveState& live);
    // Fills the mirror of the slot of `version`. False: the keeper is dead.
    [[nodiscard]] bool read_front(Version version, const LiveState& live);

    [[nodiscard]] Image slot(Version version, const LiveState& live) {
        Slot& slot = slots_[version.value() % 2];
        SFT_ASSERT(slot.far.has_value());  // open() comes first
        return {slot.mirror.address(), live, &*slot.far};
    }
    [[nodiscard]] ProcId keeper() const noexcept { return keeper_; }
    [[nodiscard]] bool gone() const noexcept { return slots_[0].far->gone() || slots_[1].far->gone(); }

private:
    struct Slot {
        Window mirror;
        std::optional<FarImage> far;
    };

    ProcId keeper_;  // the process that it is at, dead or alive
    std::unique_ptr<StoreWire> own_wire_;
    Slot slots_[2];
};

}  // namespace sft
