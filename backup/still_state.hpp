// The symmetric state of this PE as it was at one moment: what a checkpoint is made of while the program goes on, where
// shadows are on other nodes.
//
// Private memory of the process, laid out as an image: header, table, data. What exists of it are the blocks that
// existed then, so it serves as the live state for everything that makes copies. It costs as much memory as one copy,
// from the first one taken on, and one pass over what has changed since the one before.
//
// Fault model: it dies with its process. Nothing is ever restored from it: until its version is committed the one
// before counts, and then there are copies.
//
// Threads: one at a time; state() any while it is not taken anew.
#pragma once

#include <cstddef>

#include "backup/block_set.hpp"
#include "backup/image.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "symheap/array_table.hpp"
#include "symheap/exclusions.hpp"
#include "symheap/live_state.hpp"
#include "symheap/segment.hpp"

namespace sft {

// What a live state says of itself at one moment; its memory goes on.
class LineState {
public:
    void take(const LiveState& live);
    [[nodiscard]] LiveState& state() noexcept { return state_; }
    [[nodiscard]] const LiveState& state() const noexcept { return state_; }

private:
    LiveState state_;
    Exclusions excluded_;
    ArrayTable arrays_;
    std::uint64_t heap_calls_ = 0;
};

class StillState {
public:
    // For such a state; pages come when it is taken.
    [[nodiscard]] Result<> create(const LiveState& live);
    void release() noexcept;
    [[nodiscard]] bool is_created() const noexcept { return memory_.address() != nullptr; }

    // It is that of `live` now, which does not change meanwhile. may_differ: in no other blocks it differs from the one
    // before; null: not known. checks: that, as Image::Storing.
    void take(Version version, const LiveState& live, const BlockSet* may_differ, bool checks);
    // What it was taken for last, or kNoVersion.
    [[nodiscard]] Version version() const noexcept;
    // REQUIRES: it has been taken.
    [[nodiscard]] const LiveState& state() const noexcept { return line_.state(); }
    // The memory file that it is in, from its beginning on.
    [[nodiscard]] int fd() const noexcept { return memory_.fd(); }

private:
    void make_hole(std::size_t offset, std::size_t bytes) noexcept;
    void show_as_live(const LiveState& live, const Image& image) noexcept;

    Segment memory_;
    LineState line_;
};

}  // namespace sft
