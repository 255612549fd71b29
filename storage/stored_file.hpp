// The file of one PE in a stored version, and where such files lie. docs/storage.md describes both for strangers.
//
//   DIR/version-00000042/pe-00003.state    page 0: StoredHead, and the arrays that the program has declared
//                                          (symheap/array_table.hpp); from there on an image (backup/image.hpp) at its
//                                          natural offsets: blocks that do not exist are holes of the file. Or,
//                                          compressed, pieces of that one behind the other, each with a PieceHead
//   DIR/version-00000042/manifest.toml     written last: who finds it finds the whole version (manifest.hpp)
//
// Fault model: the writer may die at any instruction, and any call may fail (no room, errors of the device). A file has
// another name until it is complete and on the disk, so a torn one is never taken for one. Bits may flip where it lies:
// the head has a checksum, and so has the image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "base/ids.hpp"
#include "base/pages.hpp"
#include "base/result.hpp"
#include "symheap/array_table.hpp"
#include "symheap/live_state.hpp"

namespace sft {

// A part of the state: where it was in memory, and where it is in the file.
struct StoredPart {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint64_t offset = 0;

    friend bool operator==(const StoredPart&, const StoredPart&) = default;
};

// Fixed layout, little endian.
struct StoredHead {
    static constexpr std::uint64_t kMagic = 0x34'65'74'61'74'73'66'73;  // "sfstate4"
    std::uint64_t magic = kMagic;
    std::uint64_t version = 0;
    std::uint32_t pe = 0;
    std::uint32_t n_pes = 0;
    std::uint64_t block_bytes = kBlockBytes;
    StoredPart heap;
    StoredPart globals;
    StoredPart library;       // the library's own state: its layout is that of the library's version
    std::uint64_t image = 0;  // where the image begins: version, blocks of the heap in use, two checksums
    std::uint64_t table = 0;  // one checksum for each block of heap, globals and library; 0: it does not exist
    std::uint64_t bytes = 0;  // of all that, if it is not compressed
    std::uint64_t file_bytes = 0;
    std::uint32_t compression = 0;  // StoreCompression::Kind
    std::uint32_t n_arrays = 0;     // so many ArrayPiece behind this
    std::uint64_t program = 0;      // fingerprint of the program's file
    std::uint64_t job = 0;          // a number of the job's own: files of two jobs make no version
    std::uint64_t image_sum = 0;    // the image's own checksum, which has all others in it
    std::uint64_t arrays_sum = 0;   // of them
    std::uint64_t head_sum = 0;     // of all above

    friend bool operator==(const StoredHead&, const StoredHead&) = default;
};
static_assert(std::is_trivially_copyable_v<StoredHead> && sizeof(StoredHead) == 184);
static_assert(std::has_unique_object_representations_v<StoredHead>, "no byte goes out that nobody has set");
static_assert(sizeof(StoredHead) + ArrayTable::kPiecesMax * sizeof(ArrayPiece) <= kPageBytes);

// Fixed layout as well.
struct PieceHead {
    std::uint64_t offset = 0;  // where it belongs
    std::uint32_t bytes = 0;
    std::uint32_t stored_bytes = 0;  // behind this; as many as `bytes`: it is not compressed
};
static_assert(std::has_unique_object_representations_v<PieceHead> && sizeof(PieceHead) == 16);
inline constexpr std::size_t kPieceBytes = 1 << 20;  // at most, not compressed
static_assert(kPieceBytes % kBlockBytes == 0);

void seal(StoredHead& head) noexcept;
// The failure names the file and says what is wrong with it.
[[nodiscard]] Result<StoredHead> read_head(const std::string& path);
// With what the program has declared.
struct StoredStart {
    StoredHead head;
    std::vector<ArrayPiece> arrays;
};
[[nodiscard]] Result<StoredStart> read_start(const std::string& path);

// "/a/b/" is "/a/b" to those who look at the last name.
[[nodiscard]] std::string without_last_slash(std::string path);
[[nodiscard]] std::string version_folder(const std::string& dir, Version version);
// kNoVersion: it is not the name of such a folder.
[[nodiscard]] Version version_of_folder(const std::string& name) noexcept;
[[nodiscard]] std::string state_file(const std::string& folder, PeId pe);
// Of a file that is not complete yet.
[[nodiscard]] std::string unfinished(const std::string& path);

}  // namespace sft
