// Whether the next checkpoint fits into the memory of all nodes, agreed on by the PEs that make it: the kernel would
// kill processes in the middle of it otherwise.
//
// Fault rule: that of collectives. Whoever does not hear the answer because of a fault goes on into the checkpoint,
// which that fault ends; whoever has heard that there is no room, and has gone on without a checkpoint, meets it in his
// next call.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "shmem_ft/ops/engine.hpp"

namespace sft {

// What one PE knows of its own state and its copies, and of its node. In bytes.
struct RoomWanted {
    std::int32_t node = 0;
    std::uint64_t used = 0;   // by them
    std::uint64_t next = 0;   // that this checkpoint takes in addition
    std::uint64_t most = 0;   // that they will ever take in addition
    std::uint64_t left = 0;   // that may be taken of the node, or of the control group of the PE
    std::uint32_t pause = 0;  // the answer will do for so many further checkpoints; PE 0's counts
};

struct RoomVerdict {
    bool is_there = true;
    bool is_there_for_ever = true;  // whatever the PEs will write to their memory
    std::uint32_t pause = 0;        // else, if it is there: the next checkpoints that are made without asking
    // Of the node that lacks most.
    std::int32_t node = 0;
    std::int32_t n_pes = 0;
    std::uint64_t used = 0;
    std::uint64_t next = 0;
    std::uint64_t left = 0;  // that may be taken
};

// limit: for what is used on a node, all in all; 0: none. Pure.
[[nodiscard]] RoomVerdict judge_room(std::span<const RoomWanted> wanted, std::uint64_t limit);

// Collective, over all PEs. Nothing: a fault.
[[nodiscard]] std::optional<RoomVerdict> agree_on_room(Engine& e, const RoomWanted& own, std::uint64_t limit) noexcept;

}  // namespace sft
