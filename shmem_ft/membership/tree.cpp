#include "shmem_ft/membership/tree.hpp"

#include <algorithm>

namespace sft {

Tree::Tree(const JobShape& shape, const JobState& state, std::span<const Death> dead, std::int32_t fan_out)
    : shape_(shape),
      state_(state),
      fan_out_(fan_out),
      n_slots_(shape.n_pes + (shape.n_pes == 1 && state.witness != kNoProc ? 1 : 0)) {
    for (const Death& death : dead) {
        const PeId pe = shape.held_by(state, death.process);
        if (pe != kNoPe) {
            absent_.push_back(pe.value());
        } else if (death.process == state.witness && n_slots_ > shape.n_pes) {
            absent_.push_back(shape.n_pes);
        }
    }
    std::sort(absent_.begin(), absent_.end());
}

std::int32_t Tree::slot_of(ProcId process) const {
    const PeId pe = shape_.held_by(state_, process);
    std::int32_t slot = pe.value();
    if (pe == kNoPe && n_slots_ > shape_.n_pes && process == state_.witness) {
        slot = shape_.n_pes;
    }
    return slot >= 0 && !std::binary_search(absent_.begin(), absent_.end(), slot) ? slot : -1;
}

ProcId Tree::process_at(std::int32_t slot) const {
    return slot < shape_.n_pes ? shape_.holder(state_, PeId(slot)) : state_.witness;
}

std::int32_t Tree::root_slot() const { return n_living() > 0 ? slot_at(0) : -1; }

ProcId Tree::parent_of(std::int32_t slot) const {
    const std::int32_t place = place_of(slot);
    return place == 0 ? kNoProc : process_at(slot_at((place - 1) / fan_out_));
}

std::vector<ProcId> Tree::children_of(std::int32_t slot) const {
    std::vector<ProcId> children;
    const std::int64_t first = static_cast<std::int64_t>(place_of(slot)) * fan_out_ + 1;
    const std::int64_t end = std::min<std::int64_t>(first + fan_out_, n_living());
    for (std::int64_t place = first; place < end; ++place) {
        children.push_back(process_at(slot_at(static_cast<std::int32_t>(place))));
    }
    return children;
}

std::int32_t Tree::place_of(std::int32_t slot) const {
    const auto before = std::lower_bound(absent_.begin(), absent_.end(), slot) - absent_.begin();
    return slot - static_cast<std::int32_t>(before);
}

// The slot with that many living ones before it: the absent ones up to it shift it.
std::int32_t Tree::slot_at(std::int32_t place) const {
    std::size_t low = 0;
    std::size_t high = absent_.size();
    while (low < high) {
        const std::size_t middle = (low + high) / 2;
        if (absent_[middle] - static_cast<std::int32_t>(middle) <= place) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return place + static_cast<std::int32_t>(low);
}

}  // namespace sft
