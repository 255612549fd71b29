// The part of BackupStore that says how much memory the copies take on this node.
#include <algorithm>
#include <vector>

#include "backup/image_layout.hpp"
#include "backup/store.hpp"
#include "base/assert.hpp"

namespace sft {
namespace {

std::size_t existing_bytes(int fd, std::size_t file_offset, std::size_t bytes) {
    std::size_t sum = 0;
    each_existing(fd, file_offset, bytes, [&](std::size_t begin, std::size_t end) { sum += end - begin; });
    return sum;
}

struct Existing {
    std::size_t bytes = 0;        // pages
    std::size_t block_bytes = 0;  // blocks with at least one, that versions contain
    std::size_t heap_bytes = 0;   // of these, in the heap
};

Existing existing_in(const LiveState& live) {
    Existing found{.bytes = whole_pages(live.library.bytes), .block_bytes = whole_pages(live.library.bytes)};
    for (const SparseMemory& part : {heap_of(live), globals_of(live)}) {
        found.bytes += existing_bytes(part.fd, part.file_offset, part.memory.bytes);
        each_existing_run(part, [&](std::size_t first, std::size_t end) {
            const std::size_t some = std::min(end * kBlockBytes, whole_pages(part.memory.bytes)) - first * kBlockBytes;
            found.block_bytes += some;
            found.heap_bytes += part.first_block == 0 ? some : 0;
        });
    }
    return found;
}

// What a PE's place takes: twice the parity that is kept there once it has changed, fronts, and the stash.
struct Parity {
    std::size_t offset = 0;  // in the node's memory
    std::size_t kept = 0;    // units for each stripe
    std::size_t of = 0;      // units of states in one; 0: there is no parity
    std::size_t n_next = 0;  // how many times it is there after the next checkpoint

    [[nodiscard]] std::size_t share(const LiveState& live, std::size_t bytes) const {
        return bytes * kept / of + Image::front_bytes_for(live);
    }
    [[nodiscard]] std::size_t next(const LiveState& live, const Existing& exists) const {
        return n_next * share(live, exists.block_bytes + Image::front_bytes_for(live)) + exists.block_bytes -
               exists.heap_bytes;
    }
    [[nodiscard]] std::size_t most(const LiveState& live) const {
        const std::size_t all = Image::bytes_for(live);
        return 2 * share(live, all) + all - whole_pages(live.heap.bytes);
    }
};

}  // namespace

// A copy takes what exists of the live state, in whole blocks, with its table beside it. The mutex is held while it is
// asked which copies there are, and not while the system is asked for pages, which may take some milliseconds.
BackupStore::Room BackupStore::room(const LiveState& live, const StillState* still, bool is_held) const {
    struct Stored {
        std::size_t offset = 0;   // in the node's memory
        bool is_far = false;      // on another node
        bool is_next = false;     // the next checkpoint writes it
        bool is_made = false;     // elsewhere: it is there,
        std::size_t touched = 0;  // or so many bytes of it
    };
    const std::size_t all = Image::bytes_for(live);
    std::vector<Stored> copies;
    Parity parity;
    {
        const Locked lock(mutex_);
        if (mode_ == BackupMode::none || pe_ == kNoPe) {
            return {};
        }
        const std::size_t next_slot = committed_.next().value() % 2;
        // What is kept on other nodes for this process counts here: as much is kept here for others.
        for (const std::size_t slot : {next_slot, 1 - next_slot}) {
            const auto add = [&](bool is_made) {
                mutex_.assert_held();
                copies.push_back({.offset = pe_.index() * room_bytes(live) + slot * all,
                                  .is_far = is_far(),
                                  .is_next = slot == next_slot,
                                  .is_made = is_made,
                                  .touched = touched_[slot].count() * kBlockBytes});
            };
            for (const Far& far : fars_) {
                add(far.versions[slot] != kNoVersion);
            }
            if (!is_far()) {
                add(shadow_versions_[slot] != kNoVersion);
            }
        }
        if (parity_ != nullptr) {
            parity = {.offset = places_.parity + pe_.index() * parity_bytes(live),
                      .kept = static_cast<std::size_t>(parity_->code().n_parity()),
                      .of = static_cast<std::size_t>(parity_->code().n_data()),
                      .n_next = committed_ == kNoVersion ? 1U : 2U};
        }
        if (has_local_copy()) {
            copies.push_back({.offset = places_.local_copies + pe_.index() * all,
                              .is_next = true,
                              .is_made = local_version_ != kNoVersion,
                              .touched = touched_[next_slot].count() * kBlockBytes});
        }
    }
    const Existing exists = existing_in(live);
    const std::size_t part = std::min(all, exists.block_bytes + Image::front_bytes_for(live));
    Room room{.used = exists.bytes, .next = 0, .most = all - std::min(all, exists.bytes)};
    const auto add = [&](std::size_t there, std::size_t next, std::size_t most) {
        room.used += there;
        room.next += next - std::min(there, next);
        room.most += most - std::min(there, most);
    };
    for (const Stored& copy : copies) {
        const bool is_in_file = node_file_ >= 0 && !copy.is_far;
        const std::size_t made = copy.is_made ? part : std::min(all, copy.touched);
        add(is_in_file ? existing_bytes(node_file_, copy.offset, all) : made, copy.is_next ? part : 0, all);
    }
    if (still != nullptr && still->is_created()) {
        add(existing_bytes(still->fd(), 0, all), part, all);  // there, after the next checkpoint, ever
    }
    add(0, is_held ? exists.heap_bytes : 0, is_held ? whole_pages(live.heap.bytes) : 0);  // what is set aside
    if (parity.of != 0) {
        const std::size_t there = existing_bytes(node_file_, parity.offset, parity_bytes(live));
        add(there, parity.next(live, exists), parity.most(live));
    }
    return room;
}

}  // namespace sft
