// Writes versions to files while the job goes on: the state of this process's PE, from its local copy.
//
// The local copy becomes the next version while the one before is still being written. So table and header are copied
// when the version is committed, and a block that is not written yet is kept before the next checkpoint changes it:
// nobody waits for the disk, and what it takes is memory for the blocks that change meanwhile.
//
// Fault model: the process may die at any instruction, and any call for a file may fail: then this version is not
// stored, one line says so, and the job goes on with its copies in memory. Complete versions stay complete. A version
// is complete when PE 0's process has seen the files of all PEs and has written the manifest. The substitute of a PE
// that died before its file was complete writes it.
//
// Invariants
//  1. Every byte in a finished file is of the version that it names: a block is written only if it fits the checksum
//     that the copy had when the version was committed.
//  2. A block that is pending is as it was in the local copy. Who makes it busy, the writer or who is going to change
//     it, alone reads it there, and makes it taken or kept; the other one waits for that, which is a copy of 16 KiB.
//
// Threads: want(), is_writing() and open() by that of the collective calls; committed() and about_to_change() by it,
// under the mutex of the copies; writing by a thread of its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backup/version_store.hpp"
#include "base/assert.hpp"
#include "base/config.hpp"
#include "base/idle_thread.hpp"
#include "base/mutex.hpp"
#include "base/result.hpp"
#include "storage/manifest.hpp"
#include "storage/state_writer.hpp"
#include "storage/store_turn.hpp"
#include "symheap/live_state.hpp"

namespace sft {

class Drain final : public VersionStore {
public:
    struct Options {
        std::string dir;
        std::uint32_t keep = 1;        // so many complete versions stay
        std::uint64_t rate_bytes = 0;  // so many a second at most; 0: as fast as it goes
        StoreCompression compression{};
        std::function<PeId()> me = {};    // which PE this process is, once there is a version
        bool tells = false;               // of each file, for SHMEM_DEBUG
        const LiveState* live = nullptr;  // whose copies are written; outlives this
        Manifest about;                   // as far as it is the same for all versions
    };
    ~Drain() override { stop(); }

    // Before the first version. The failure says that the system gives no thread or memory.
    [[nodiscard]] Result<> open(Options options);
    [[nodiscard]] bool is_open() const noexcept { return is_open_; }
    // PE 0, before anybody writes: there is a folder, it can be written to, no other job that runs uses it, and all
    // complete versions in it are from `begins_with` or before; what was not completed goes.
    [[nodiscard]] Result<> prepare(const std::string& dir, Version begins_with);
    // What is being written is given up.
    void stop() noexcept;

    // PE 0's process, when nobody writes any more: what was not completed goes.
    [[nodiscard]] static Result<> remove_incomplete(const std::string& dir);

    // This one is to be written when it is committed and the files of these are there; kNoVersion: none. REQUIRES:
    // progress() was neither `waits` nor `writes`, of a version.
    void want(Version version, std::vector<PeId> before = {}) {
        SFT_ASSERT(version == kNoVersion || !is_writing());
        wanted_ = version;
        before_ = std::move(before);
    }
    // The next version has the arrays that are declared now, whatever is declared while it is made; until
    // forget_arrays() those that are declared when it is committed are not asked for.
    void note_arrays();
    void forget_arrays() noexcept { noted_arrays_.reset(); }
    // failed: the last file was not written. waits: for the files of others, and until go_on() or give_up() in any
    // case.
    enum class Progress : std::uint32_t { idle, failed, waits, writes };
    [[nodiscard]] Progress progress();
    void go_on() { turn_.release(); }
    // What waits is not written. REQUIRES: progress() was `waits`.
    void give_up();
    [[nodiscard]] bool is_writing() const noexcept { return is_writing_.load(); }
    // Of this job, for PE 0's process: complete.
    [[nodiscard]] Version last_complete() const noexcept { return last_complete_.load(); }

    // VersionStore
    void committed(Version version, const Image& copy) override;
    void about_to_change(std::size_t block, const std::byte* data, std::size_t bytes) noexcept override;

private:
    enum class Block : std::uint8_t { absent, pending, busy, taken, kept };

    [[nodiscard]] Result<> lock(const std::string& dir);
    [[nodiscard]] bool is_left_undone(PeId pe, Version version) const;
    [[nodiscard]] std::vector<ArrayPiece> declared() const;
    void begin(PeId pe, Version version, const Image& copy) noexcept;
    void work();
    [[nodiscard]] bool await_turn();
    void write_version();
    [[nodiscard]] Result<> write_state(const std::string& folder);
    [[nodiscard]] Result<> write_blocks(StateWriter& file);
    [[nodiscard]] Result<> write_front(StateWriter& file);
    // Of the version that is written.
    void take(std::size_t block, std::byte* to) noexcept;
    [[nodiscard]] Result<> keep_rate(std::size_t written_bytes);
    void await_others(Version version, const std::string& folder);
    [[nodiscard]] Result<> complete(Version version, const std::string& folder);
    [[nodiscard]] Result<> remove_old() const;
    void tell(Version version, const std::string& why);
    void tell_of_arrays(const std::string& why);
    void forget_blocks() noexcept;
    [[nodiscard]] Image kept() const noexcept { return {own_, *options_.live}; }

    Options options_;
    bool is_open_ = false;
    int lock_ = -1;           // the folder
    bool has_heard_ = false;  // of a version
    Version wanted_ = kNoVersion;
    std::vector<PeId> before_;  // whose files are awaited then
    StoreTurn turn_;
    IdleThread thread_{MutexRank::drain};
    std::atomic<bool> is_writing_{false};  // or waits: blocks that change are kept
    std::atomic<bool> has_failed_{false};  // the last one was not written
    std::atomic<Version> last_complete_{kNoVersion};
    std::atomic<bool> is_stopped_{false};
    bool has_told_of_arrays_ = false;
    bool has_told_ = false;  // of a version that was not stored, after the last one that was

    // Of the version that is being written; set before is_writing_, by which the thread knows of it.
    PeId pe_ = kNoPe;
    Version version_ = kNoVersion;
    const std::byte* copy_begin_ = nullptr;
    // An image of our own: its header and table, and the blocks that were kept.
    std::byte* own_ = nullptr;
    std::unique_ptr<std::atomic<Block>[]> blocks_;
    std::size_t n_blocks_ = 0;
    std::size_t own_bytes_ = 0;
    std::int64_t begin_ns_ = 0;
    std::vector<ArrayPiece> arrays_;
    std::optional<std::vector<ArrayPiece>> noted_arrays_;  // of the next one
};

}  // namespace sft
