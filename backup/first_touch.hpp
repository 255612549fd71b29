// Gives the copies their pages before a checkpoint needs them. The first touch of a page takes many times as long as
// the copy of what goes there, so the first two checkpoints, which write where nothing was before, would take many
// times as long as the others. This thread touches, while nobody else needs the processor, whatever the next
// checkpoints are going to write: of both slots of the shadow, as far as they are on this node, and of the local copy,
// the blocks that live memory has. What it has not come to is touched by the checkpoint.
//
// No page is touched that two checkpoints at that moment would not touch, and no more than a quarter of the memory of
// the node, or of its control group, unless whatever the PEs here may come to write fits, with its copies: the program
// may need the memory itself, and the kernel would kill somebody for it. A program that cannot call
// shmem_checkpoint_all has no such thread.
//
// It looks for new memory again and again, more and more seldom as long as there is none: in the end every five
// seconds. A look takes some milliseconds for each GiB that exists, and locks of the file in which all PEs of the node
// have their memory: checkpoints of others wait for these, and took three times as long when nothing had changed. So
// nothing is looked at while the system says that no memory has come to that file. It holds the store's mutex for 256
// KiB of each copy at a time.
//
// Invariant: contents do not change.
#pragma once

#include <cstdint>

#include "backup/store.hpp"
#include "base/idle_thread.hpp"
#include "base/memory_left.hpp"

namespace sft {

// Whatever comes.
[[nodiscard]] bool is_plenty(const MemoryLeft& left) noexcept;
// most: what the PEs here and their copies may come to take.
[[nodiscard]] bool may_touch_ahead(const MemoryLeft& left, std::uint64_t most) noexcept;

class FirstTouch {
public:
    // `store` and `live` must live until stop(). False: no thread to be had.
    // n_pes: on this node.
    [[nodiscard]] bool start(BackupStore& store, const LiveState& live, std::int32_t n_pes);
    void stop() noexcept { thread_.stop(); }

private:
    void run(BackupStore& store, const LiveState& live);
    // False: it is time to stop, or there is nothing to be had.
    bool look(BackupStore& store, const LiveState& live, bool& found);

    std::int32_t n_pes_ = 0;
    BackupStore::TouchSign seen_;  // of the last look that found nothing
    IdleThread thread_;
};

}  // namespace sft
