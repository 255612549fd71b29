// Writes the file of one PE in a stored version (stored_file.hpp): pieces of the state as they come, and the head last.
//
// Not compressed, a piece lies where it belongs, and what is never given is a hole. Compressed, pieces follow each
// other.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "base/result.hpp"
#include "storage/compressor.hpp"
#include "storage/disk.hpp"
#include "storage/stored_file.hpp"

namespace sft {

class StateWriter {
public:
    explicit StateWriter(const StoreCompression& how) : how_(how) {
        if (how.kind != StoreCompression::Kind::none) {
            compressor_.emplace(how);
        }
    }

    // head: all but the sums and the bytes of the file.
    [[nodiscard]] Result<> create(const std::string& path, const StoredHead& head);
    // At most kPieceBytes, which belong to this offset. Each byte is given once.
    [[nodiscard]] Result<> put(const std::byte* data, std::size_t bytes, std::size_t offset);
    // The file is complete and on the disk.
    [[nodiscard]] Result<> finish(std::uint64_t image_sum, std::span<const ArrayPiece> arrays = {});

    // What was given.
    [[nodiscard]] std::size_t state_bytes() const noexcept { return state_bytes_; }
    // To the file.
    [[nodiscard]] std::size_t written_bytes() const noexcept { return written_bytes_; }

private:
    StoreCompression how_;
    std::string path_;
    StoredHead head_;
    DiskFile file_;
    std::optional<Compressor> compressor_;
    std::vector<std::byte> piece_;  // with its head in front
    std::size_t end_ = kPageBytes;  // of the pieces
    std::size_t state_bytes_ = 0;
    std::size_t written_bytes_ = 0;
};

}  // namespace sft
