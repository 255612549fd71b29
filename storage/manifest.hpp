// What belongs to a stored version, and which versions a folder has. The manifest is the commit marker: it is written
// when the files of all PEs are complete, under another name first. Without it a version does not count.
//
// Who writes: PE 0's process, alone. Anybody may read at any time, and may find a version gone meanwhile.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "storage/stored_file.hpp"

namespace sft {

struct Manifest {
    // Of the format; others are refused.
    static constexpr std::int64_t kLayout = 3;
    Version version = kNoVersion;
    std::int32_t n_pes = 0;
    std::int64_t stored = 0;   // seconds since 1970
    std::string program_path;  // for people: the fingerprint counts
    std::uint64_t program = 0;
    std::uint64_t job = 0;
    std::string library;                                        // its version
    std::vector<std::pair<std::string, std::string>> settings;  // that a job which goes on from it must have
    std::vector<std::uint64_t> image_sums;                      // by PE

    friend bool operator==(const Manifest&, const Manifest&) = default;
};

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
