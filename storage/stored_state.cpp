#include "storage/stored_state.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <vector>

#include "base/assert.hpp"
#include "base/process_watch.hpp"
#include "base/report.hpp"
#include "storage/compressor.hpp"
#include "storage/manifest.hpp"
#include "symheap/existing_pages.hpp"

namespace sft {
namespace {

AddressRange range_of(const StoredPart& part) noexcept {
    return {static_cast<std::uintptr_t>(part.address), static_cast<std::size_t>(part.bytes)};
}

StoredPart part_of(const AddressRange& range, std::size_t offset) noexcept {
    return {.address = range.begin, .bytes = range.bytes, .offset = offset};
}

// 0, or the errno of the first piece that cannot be read.
int read_piece(int fd, std::byte* to, std::size_t begin, std::size_t end) {
    while (begin < end) {
        const ssize_t got = ::pread(fd, to, end - begin, static_cast<off_t>(begin));
        if (got <= 0) {
            return got < 0 ? errno : EIO;
        }
        to += got;
        begin += static_cast<std::size_t>(got);
    }
    return 0;
}

// The same of a large piece, whose bytes nobody wants yet.
int read_through(int fd, std::size_t begin, std::size_t end) {
    constexpr std::size_t kReadBytes = 1 << 20;
    std::vector<std::byte> piece(kReadBytes);
    int error = 0;
    for (; begin < end && error == 0; begin += kReadBytes) {
        error = read_piece(fd, piece.data(), begin, std::min(end, begin + kReadBytes));
    }
    return error;
}

// Fills `memory`, which is zeros, with what exists in the file: large pieces are mapped, each after it has been read
// once. Holes are never mapped: some file systems want room for a page of one that is looked at, and end the process
// where there is none.
int bring(int fd, std::byte* memory, std::size_t bytes) {
    constexpr std::size_t kMappedBytes = 1 << 20;
    constexpr int kMapsMax = 4096;  // of the 65530 that a process may have
    int n_maps = 0;
    int error = 0;
    each_existing(fd, 0, bytes, [&](std::size_t begin, std::size_t end) {
        if (error != 0) {
            return;
        }
        if (end - begin < kMappedBytes || begin % kPageBytes != 0 || n_maps == kMapsMax) {
            error = read_piece(fd, memory + begin, begin, end);
            return;
        }
        ++n_maps;
        error = read_through(fd, begin, end);
        if (error == 0 &&
            ::mmap(memory + begin, end - begin, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, fd,
                   static_cast<off_t>(begin)) == MAP_FAILED) {
            error = errno;
        }
    });
    return error;
}

constexpr int kBadPiece = -1;

// Fills `memory`, which is zeros, with the pieces of a compressed file. The result is 0, an errno, or kBadPiece; then
// `begin` is where that piece begins.
int bring_pieces(int fd, const StoredHead& head, std::byte* memory, std::size_t& begin) {
    std::vector<std::byte> stored;
    for (begin = kPageBytes; begin < head.file_bytes;) {
        PieceHead piece;
        const std::size_t data = begin + sizeof piece;
        if (data > head.file_bytes) {
            return kBadPiece;
        }
        if (const int error = read_piece(fd, reinterpret_cast<std::byte*>(&piece), begin, data); error != 0) {
            return error;
        }
        if (piece.bytes == 0 || piece.bytes > kPieceBytes || piece.stored_bytes > piece.bytes ||
            piece.stored_bytes > head.file_bytes - data || piece.offset < kPageBytes || piece.offset > head.bytes ||
            piece.bytes > head.bytes - piece.offset) {
            return kBadPiece;
        }
        stored.resize(piece.stored_bytes);
        if (const int error = read_piece(fd, stored.data(), data, data + stored.size()); error != 0) {
            return error;
        }
        const std::span<std::byte> place(memory + piece.offset, piece.bytes);
        if (stored.size() == place.size()) {
            std::copy(stored.begin(), stored.end(), place.begin());
        } else if (!decompress(stored, place)) {
            return kBadPiece;
        }
        begin = data + stored.size();
    }
    return 0;
}

}  // namespace

StoredHead head_of(const LiveState& live, Version version, PeId pe, std::int32_t n_pes,
                   const StoredOrigin& origin) noexcept {
    SFT_ASSERT(version != kNoVersion && pe.value() >= 0 && pe.value() < n_pes);
    const std::size_t image = kPageBytes;
    const std::size_t heap = image + Image::front_bytes_for(live);
    const std::size_t globals = heap + whole_pages(live.heap.bytes);
    const std::size_t library = globals + whole_pages(live.globals.bytes);
    StoredHead head;
    head.version = version.value();
    head.pe = static_cast<std::uint32_t>(pe.value());
    head.n_pes = static_cast<std::uint32_t>(n_pes);
    head.heap = part_of(live.heap, heap);
    head.globals = part_of(live.globals, globals);
    head.library = part_of(live.library, library);
    head.library.address = 0;  // the library lies elsewhere in each process
    head.image = image;
    head.table = image + kPageBytes;
    head.bytes = image + Image::bytes_for(live);
    head.program = origin.program;
    head.job = origin.job;
    SFT_ASSERT(library + whole_pages(live.library.bytes) == head.bytes);
    return head;
}

bool is_laid_out_as(const StoredHead& head, const LiveState& live) noexcept {
    StoredHead expected =
        head_of(live, Version(static_cast<std::uint32_t>(head.version)), PeId(static_cast<std::int32_t>(head.pe)),
                static_cast<std::int32_t>(head.n_pes), {head.program, head.job});
    expected.image_sum = head.image_sum;
    expected.head_sum = head.head_sum;
    expected.compression = head.compression;
    expected.file_bytes = head.file_bytes;
    expected.n_arrays = head.n_arrays;
    expected.arrays_sum = head.arrays_sum;
    return head == expected && head.compression <= static_cast<std::uint32_t>(StoreCompression::Kind::zstd) &&
           (head.compression != 0 || head.file_bytes == head.bytes);
}

Result<> StoredState::open(const std::string& path) {
    SFT_ASSERT(base_ == nullptr);
    path_ = path;
    const Result<StoredHead> head = read_head(path);
    if (!head) {
        return fails(head.error());
    }
    head_ = *head;
    const LiveState live = shape();
    if (!is_laid_out_as(head_, live)) {
        return fails(path + ": another layout than this library's");
    }
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        const int error = errno;
        return fails(format("%s: cannot be opened: %s", path.c_str(), describe_error(error).c_str()), error);
    }
    void* const at =
        ::mmap(nullptr, head_.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int error = at == MAP_FAILED ? errno : 0;
    std::size_t piece = 0;
    if (error == 0) {
        base_ = static_cast<std::byte*>(at);
        error = head_.compression == 0 ? bring(fd, base_, head_.bytes) : bring_pieces(fd, head_, base_, piece);
    }
    ::close(fd);
    if (error == kBadPiece) {
        close();
        return fails(format("%s: the piece at byte %zu cannot be unpacked: the file is damaged", path.c_str(), piece));
    }
    if (error != 0) {
        close();
        return fails(format("%s: cannot be read: %s", path.c_str(), describe_error(error).c_str()), error);
    }
    return {};
}

void StoredState::close() noexcept {
    if (base_ != nullptr) {
        ::munmap(base_, head_.bytes);
        base_ = nullptr;
    }
}

LiveState StoredState::shape() const noexcept {
    LiveState live;
    live.heap = range_of(head_.heap);
    live.globals = range_of(head_.globals);
    live.library = range_of(head_.library);
    return live;
}

Image StoredState::image(const LiveState& live) const noexcept {
    SFT_ASSERT(base_ != nullptr && live.heap.bytes == head_.heap.bytes);
    SFT_ASSERT(live.globals.bytes == head_.globals.bytes && live.library.bytes == head_.library.bytes);
    return {base_ + head_.image, live};
}

Result<> StoredState::verify() const {
    const LiveState live = shape();
    const Image stored = image(live);
    const Findings findings = stored.verify(Version(static_cast<std::uint32_t>(head_.version)));
    return findings.intact() ? Result<>() : Result<>(fails(path_ + ": " + text_of(findings, stored)));
}

std::string text_of(const Findings& findings, const Image& image) {
    SFT_ASSERT(!findings.intact());
    if (findings.bad.empty()) {
        return "its table of checksums is damaged";
    }
    const std::string first = image.name_of(findings.bad.front());
    return findings.bad.size() == 1
               ? first + " does not fit its checksum"
               : format("%s and %zu more do not fit their checksums", first.c_str(), findings.bad.size() - 1);
}

Result<> verify_version(const std::string& folder, const Manifest& manifest, bool is_deep) {
    for (std::int32_t pe = 0; pe < manifest.n_pes; ++pe) {
        const std::string path = state_file(folder, PeId(pe));
        const Result<StoredStart> start = read_start(path);
        if (!start) {
            return fails(start.error());
        }
        if (!is_of(start->head, manifest, PeId(pe))) {
            return fails(path + ": is not the file that the manifest speaks of");
        }
        StoredState state;
        if (Result<> done = is_deep ? state.open(path).then([&] { return state.verify(); }) : Result<>(); !done) {
            return done;
        }
    }
    return {};
}

}  // namespace sft
