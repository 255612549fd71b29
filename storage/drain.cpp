#include "storage/drain.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <optional>
#include <thread>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/faults/fault_points.hpp"
#include "base/pages.hpp"
#include "base/process_watch.hpp"
#include "base/raw_memory.hpp"
#include "base/report.hpp"
#include "storage/state_writer.hpp"
#include "storage/stored_state.hpp"

namespace sft {
namespace {

constexpr auto kUntilWoken = std::chrono::hours(1);

}  // namespace

// ---- the thread of the calls ----

Result<> Drain::prepare(const std::string& dir, Version begins_with) {
    if (Result<> made = make_folder(dir); !made) {
        return made;
    }
    Result<std::vector<StoredVersion>> versions = stored_versions(dir);
    if (!versions) {
        return fails(versions.error());
    }
    for (const StoredVersion& one : *versions) {
        if (one.is_complete && one.version > begins_with) {
            return fails(
                format("%s has version %u of another job: go on from it (oshrun --restart %s), remove it "
                       "(shmem-ft remove %s), or give another folder",
                       dir.c_str(), one.version.value(), dir.c_str(), dir.c_str()));
        }
    }
    if (Result<> locked = lock(dir); !locked) {
        return locked;
    }
    DiskFile probe;
    return remove_incomplete(dir).then([&] { return probe.create(dir + "/probe.part"); });
}

// Until the process ends. Some file systems have no locks; nobody is refused there, and the heads of files tell of whom
// they are.
Result<> Drain::lock(const std::string& dir) {
    if (lock_ < 0) {
        lock_ = ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (lock_ >= 0 && ::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        return fails(dir + ": another job that runs stores its versions there");
    }
    return {};
}

Result<> Drain::remove_incomplete(const std::string& dir) {
    Result<std::vector<StoredVersion>> versions = stored_versions(dir);
    if (!versions) {
        return fails(versions.error());
    }
    for (const StoredVersion& one : *versions) {
        if (Result<> gone = one.is_complete ? Result<>() : remove_version(one.folder); !gone) {
            return gone;
        }
    }
    return {};
}

Result<> Drain::open(Options options) {
    SFT_ASSERT(!is_open_ && options.live != nullptr && options.keep > 0 && options.me);
    options_ = std::move(options);
    own_bytes_ = Image::bytes_for(*options_.live);
    void* const own =
        ::mmap(nullptr, own_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (own == MAP_FAILED) {
        return fails(format("SHMEM_FT_STORE: cannot reserve %zu bytes of addresses: %s", own_bytes_,
                            describe_error(errno).c_str()));
    }
    ::madvise(own, own_bytes_, MADV_DONTFORK);
    own_ = static_cast<std::byte*>(own);
    n_blocks_ = kept().blocks();
    blocks_ = std::make_unique<std::atomic<Block>[]>(n_blocks_);
    is_stopped_.store(false);
    if (!thread_.start([this] { work(); })) {
        return fails("SHMEM_FT_STORE: the system gives no thread for it");
    }
    is_open_ = true;
    return {};
}

void Drain::stop() noexcept {
    is_stopped_.store(true);
    thread_.stop();
    if (own_ != nullptr) {
        ::munmap(own_, own_bytes_);
        own_ = nullptr;
    }
    if (lock_ >= 0) {
        ::close(std::exchange(lock_, -1));
    }
    is_writing_.store(false);
    is_open_ = false;
}

Drain::Progress Drain::progress() {
    if (!is_writing_.load()) {
        return has_failed_.load() ? Progress::failed : Progress::idle;
    }
    return turn_.hold() ? Progress::waits : Progress::writes;
}

// The thread does not come to the blocks before its turn.
void Drain::give_up() {
    turn_.drop();
    forget_blocks();
    is_writing_.store(false);
}

std::vector<ArrayPiece> Drain::declared() const {
    std::vector<ArrayPiece> all;
    const ArrayTable* const arrays = options_.live->arrays;
    for (std::size_t i = 0; arrays != nullptr && i < arrays->size(); ++i) {
        all.push_back((*arrays)[i]);
    }
    return all;
}

void Drain::note_arrays() { noted_arrays_ = declared(); }

void Drain::committed(Version version, const Image& copy) {
    const PeId pe = options_.me();
    const bool is_first = !std::exchange(has_heard_, true);
    if (!is_open_ || is_writing_.load()) {
        return;
    }
    if (version == wanted_ || (is_first && is_left_undone(pe, version))) {
        begin(pe, version, copy);
        // From here on the thread may write, which may still look for the turn of a version that was given up.
        turn_.begin(version, version == wanted_ ? std::exchange(before_, {}) : std::vector<PeId>());
        thread_.wake();
    }
}

// By the process that was this PE before. PE 0's is also who completes a version.
bool Drain::is_left_undone(PeId pe, Version version) const {
    const std::string folder = version_folder(options_.dir, version);
    return ::access(folder.c_str(), F_OK) == 0 && !read_manifest(folder) &&
           (pe == PeId(0) || ::access(state_file(folder, pe).c_str(), F_OK) != 0);
}

void Drain::begin(PeId pe, Version version, const Image& copy) noexcept {
    SFT_ASSERT(!is_writing_.load() && copy.holds(version));
    pe_ = pe;
    version_ = version;
    copy_begin_ = copy.begin();
    Image own = kept();
    copy.copy_front_to(own);
    arrays_ = noted_arrays_ ? *noted_arrays_ : declared();
    for (std::size_t block = 0; block < n_blocks_; ++block) {
        blocks_[block].store(Block::absent, std::memory_order_relaxed);
    }
    for (std::size_t block = own.next_existing(0); block < n_blocks_; block = own.next_existing(block + 1)) {
        blocks_[block].store(Block::pending, std::memory_order_relaxed);
    }
    has_failed_.store(false);
    is_writing_.store(true);
}

void Drain::about_to_change(std::size_t block, const std::byte* data, std::size_t bytes) noexcept {
    if (!is_writing_.load(std::memory_order_relaxed)) {
        return;
    }
    SFT_ASSERT(block < n_blocks_);
    std::atomic<Block>& state = blocks_[block];
    Block seen = Block::pending;
    if (state.compare_exchange_strong(seen, Block::busy)) {
        const Image::Place place = kept().place_of(block);
        SFT_ASSERT(place.bytes == bytes);
        raw_copy(own_ + place.offset, data, bytes);
        state.store(Block::kept);
        return;
    }
    while (state.load() == Block::busy) {
        std::this_thread::yield();
    }
}

// ---- the thread that writes ----

void Drain::work() {
    while ((is_writing_.load() && !is_stopped_.load()) || thread_.nap(kUntilWoken)) {
        if (is_writing_.load()) {
            write_version();
        }
    }
}

// False: there is nothing to be written any more.
bool Drain::await_turn() {
    constexpr std::int64_t kFirstNapNs = 2'000'000;
    constexpr std::int64_t kLastNapNs = 200'000'000;
    for (std::int64_t nap_ns = kFirstNapNs;; nap_ns = std::min(2 * nap_ns, kLastNapNs)) {
        const std::optional<StoreTurn::Awaited> awaited = turn_.awaited();
        if (!awaited) {
            return false;
        }
        const std::string folder = version_folder(options_.dir, awaited->version);
        const bool is_there = std::all_of(awaited->before.begin(), awaited->before.end(),
                                          [&](PeId pe) { return ::access(state_file(folder, pe).c_str(), F_OK) == 0; });
        if (is_there && turn_.take(awaited->ticket)) {
            return true;
        }
        if (!thread_.nap(std::chrono::nanoseconds(nap_ns))) {
            return false;
        }
    }
}

void Drain::write_version() {
    if (!await_turn()) {
        return;
    }
    const Version version = version_;
    const bool completes = pe_ == PeId(0);
    const std::string folder = version_folder(options_.dir, version);
    begin_ns_ = now_ns();
    fault_point(FaultPoint::store_begin);
    const bool is_there = ::access(state_file(folder, pe_).c_str(), F_OK) == 0;
    const Result<> written = is_there ? Result<>() : write_state(folder);
    fault_point(FaultPoint::store_written);
    if (!written && !is_stopped_.load()) {
        tell(version, written.error().line);
    }
    forget_blocks();
    has_failed_.store(!written);
    turn_.end();
    is_writing_.store(false);  // from here on the next one may be wanted
    if (written && completes) {
        await_others(version, folder);
    }
    has_told_ = has_told_ && !written;
}

void Drain::tell(Version version, const std::string& why) {
    if (!std::exchange(has_told_, true)) {
        say("warning: SHMEM_FT_STORE: version %u is not stored: %s; the job goes on, and what is stored already stays",
            version.value(), why.c_str());
    }
}

// The version is complete without that.
void Drain::tell_of_arrays(const std::string& why) {
    if (!std::exchange(has_told_of_arrays_, true)) {
        say("warning: SHMEM_FT_STORE: %s; what that PE has of it cannot be loaded", why.c_str());
    }
}

Result<> Drain::write_state(const std::string& folder) {
    const StoredHead head =
        head_of(*options_.live, version_, pe_, options_.about.n_pes, {options_.about.program, options_.about.job});
    StateWriter file(options_.compression);
    Result<> done = make_folder(folder)
                        .then([&] { return file.create(state_file(folder, pe_), head); })
                        .then([&] { return write_blocks(file); })
                        .then([&] { return write_front(file); })
                        .then([&] { return file.finish(kept().header_sum(), arrays_); });
    if (done && options_.tells) {
        say("PE %d: version %u is in its file: %zu bytes of %zu took %.3f ms", pe_.value(), version_.value(),
            file.written_bytes(), file.state_bytes(), static_cast<double>(now_ns() - begin_ns_) / 1e6);
    }
    return done;
}

void Drain::take(std::size_t block, std::byte* to) noexcept {
    const Image::Place place = kept().place_of(block);
    std::atomic<Block>& state = blocks_[block];
    Block seen = Block::pending;
    if (state.compare_exchange_strong(seen, Block::busy)) {
        raw_copy(to, copy_begin_ + place.offset, place.bytes);
        state.store(Block::taken);
        return;
    }
    while (state.load() == Block::busy) {
        std::this_thread::yield();
    }
    SFT_ASSERT(state.load() == Block::kept);  // each is taken once
    raw_copy(to, own_ + place.offset, place.bytes);
}

Result<> Drain::write_blocks(StateWriter& file) {
    const Image own = kept();
    std::vector<std::byte> piece(kPieceBytes);
    std::size_t begin = 0;  // of what is in the piece
    std::size_t filled = 0;
    const auto flush = [&] {
        Result<> done = filled == 0 ? Result<>() : file.put(piece.data(), filled, kPageBytes + begin);
        filled = 0;
        return done ? keep_rate(file.written_bytes()) : done;
    };
    for (std::size_t block = own.next_existing(0); block < n_blocks_; block = own.next_existing(block + 1)) {
        const Image::Place place = own.place_of(block);
        if (filled + place.bytes > kPieceBytes || place.offset != begin + filled) {
            if (Result<> done = flush(); !done) {
                return done;
            }
            begin = place.offset;
        }
        take(block, piece.data() + filled);
        if (!place.fits(piece.data() + filled)) {
            return fails(own.name_of(block) + " of the local copy is damaged");
        }
        filled += place.bytes;
        fault_point(FaultPoint::store_block);
    }
    return flush();
}

Result<> Drain::write_front(StateWriter& file) {
    static constexpr std::byte kZeros[kPageBytes] = {};
    const std::size_t bytes = Image::front_bytes_for(*options_.live);
    const auto is_empty = [&](std::size_t page) { return raw_equal(own_ + page, kZeros, kPageBytes); };
    for (std::size_t begin = 0, end = 0; begin < bytes; begin = end) {
        end = begin + kPageBytes;
        if (is_empty(begin)) {
            continue;
        }
        while (end < bytes && end - begin < kPieceBytes && !is_empty(end)) {
            end += kPageBytes;
        }
        if (Result<> done = file.put(own_ + begin, end - begin, kPageBytes + begin); !done) {
            return done;
        }
    }
    return {};
}

// Fails if it is time to stop, which nobody is told of.
Result<> Drain::keep_rate(std::size_t written_bytes) {
    constexpr auto kNapMost = std::chrono::nanoseconds(100'000'000);
    while (!is_stopped_.load() && options_.rate_bytes != 0) {
        const double due_ns = static_cast<double>(written_bytes) / static_cast<double>(options_.rate_bytes) * 1e9;
        const auto left = std::chrono::nanoseconds(static_cast<std::int64_t>(due_ns) - (now_ns() - begin_ns_));
        if (left.count() <= 0 || !thread_.nap(std::min(left, kNapMost))) {
            break;
        }
    }
    return is_stopped_.load() ? Result<>(fails("the job ends")) : Result<>();
}

void Drain::forget_blocks() noexcept { ::madvise(own_, own_bytes_, MADV_DONTNEED); }

// PE 0's: until the files of all are there, or another version is to be written.
void Drain::await_others(Version version, const std::string& folder) {
    constexpr std::int64_t kFirstNapNs = 2'000'000;
    constexpr std::int64_t kLastNapNs = 500'000'000;
    std::vector<PeId> missing;
    for (std::int64_t nap_ns = kFirstNapNs;; nap_ns = std::min(2 * nap_ns, kLastNapNs)) {
        missing = missing_states(folder, options_.about.n_pes);
        if (missing.empty()) {
            break;
        }
        if (is_writing_.load()) {
            return tell(version, format("PE %d has not written its file, nor have %zu others", missing.front().value(),
                                        missing.size() - 1));
        }
        if (!thread_.nap(std::chrono::nanoseconds(nap_ns))) {
            return;
        }
    }
    const Result<> done = complete(version, folder).then([this] { return remove_old(); });
    if (!done) {
        tell(version, done.error().line);
    }
}

Result<> Drain::complete(Version version, const std::string& folder) {
    Manifest manifest = options_.about;
    manifest.version = version;
    manifest.stored = std::time(nullptr);
    for (std::int32_t pe = 0; pe < manifest.n_pes; ++pe) {
        const std::string path = state_file(folder, PeId(pe));
        const Result<StoredStart> start = read_start(path);
        if (!start) {
            return fails(start.error());
        }
        manifest.image_sums.push_back(start->head.image_sum);
        if (!is_of(start->head, manifest, PeId(pe))) {
            return fails(path + ": is not of this version of this job");
        }
        if (const Result<> added = add_arrays(manifest, PeId(pe), start->arrays); !added) {
            tell_of_arrays(added.error().line);
        }
    }
    fault_point(FaultPoint::store_complete);
    if (Result<> done = write_manifest(folder, manifest); !done) {
        return done;
    }
    last_complete_.store(version);
    fault_point(FaultPoint::store_committed);
    return {};
}

Result<> Drain::remove_old() const {
    Result<std::vector<StoredVersion>> versions = stored_versions(options_.dir);
    if (!versions) {
        return fails(versions.error());
    }
    std::size_t n_complete = 0;
    for (auto one = versions->rbegin(); one != versions->rend(); ++one) {
        n_complete += one->is_complete ? 1 : 0;
        const bool is_of_no_use = one->is_complete ? n_complete > options_.keep : n_complete > 0;
        if (Result<> done = is_of_no_use ? remove_version(one->folder) : Result<>(); !done) {
            return done;
        }
    }
    return {};
}

}  // namespace sft
