// What belongs to a stored version, and which versions a folder has. The manifest is the commit marker: it is written
// when the files of all PEs are complete, under another name first. Without it a version does not count.
//
// Who writes: PE 0's process, alone. Anybody may read at any time, and may find a version gone meanwhile.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "storage/stored_file.hpp"

namespace sft {

// An array that the program has declared (symheap/array_table.hpp): which PE has which of its elements.
struct StoredArray {
    struct Piece {
        PeId pe = kNoPe;
        std::uint64_t address = 0;  // in that PE's memory
        std::uint64_t first = 0;
        std::uint64_t count = 0;

        [[nodiscard]] std::uint64_t end() const noexcept { return first + count; }
        friend bool operator==(const Piece&, const Piece&) = default;
    };
    std::string name;
    std::uint64_t element_bytes = 0;
    std::vector<Piece> pieces;  // by PE; some elements may be in several, or in none

    // Up to the last one that somebody has.
    [[nodiscard]] std::uint64_t elements() const noexcept;
    friend bool operator==(const StoredArray&, const StoredArray&) = default;
};

struct Manifest {
    // Of the format; others are refused.
    static constexpr std::int64_t kLayout = 4;
    Version version = kNoVersion;
    std::int32_t n_pes = 0;
    std::int64_t stored = 0;   // seconds since 1970
    std::string program_path;  // for people: the fingerprint counts
    std::uint64_t program = 0;
    std::uint64_t job = 0;
    std::string library;                                        // its version
    std::vector<std::pair<std::string, std::string>> settings;  // that a job which goes on from it must have
    std::vector<std::uint64_t> image_sums;                      // by PE
    std::vector<StoredArray> arrays;                            // by name

    friend bool operator==(const Manifest&, const Manifest&) = default;
};

// What a PE has declared. The failure names the array whose elements have another size on PEs before it.
[[nodiscard]] Result<> add_arrays(Manifest& manifest, PeId pe, std::span<const ArrayPiece> pieces);

// The failure names the file, and the line or key where it is known.
[[nodiscard]] Result<Manifest> read_manifest(const std::string& folder);
// The failure names the file, and why it cannot be written.
[[nodiscard]] Result<> write_manifest(const std::string& folder, const Manifest& manifest);

struct StoredVersion {
    Version version = kNoVersion;
    std::string folder;
    bool is_complete = false;  // has a manifest
};
// Ascending. A folder that is not there has none; the failure is about one that cannot be read.
[[nodiscard]] Result<std::vector<StoredVersion>> stored_versions(const std::string& dir);
// kNoVersion: there is none that is complete.
[[nodiscard]] Result<StoredVersion> newest_complete(const std::string& dir);
// Which PEs have not written theirs, of the first `n_pes`.
[[nodiscard]] std::vector<PeId> missing_states(const std::string& folder, std::int32_t n_pes);
// The manifest goes first.
[[nodiscard]] Result<> remove_version(const std::string& folder);
// That is the file that the manifest speaks of.
[[nodiscard]] bool is_of(const StoredHead& head, const Manifest& manifest, PeId pe) noexcept;
// What the manifest says is there, the heads are those of this version and fit it; deep: every block fits its checksum.
// The failure says which file and which block.
[[nodiscard]] Result<> verify_version(const std::string& folder, const Manifest& manifest, bool is_deep);

}  // namespace sft
