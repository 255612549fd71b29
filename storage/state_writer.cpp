#include "storage/state_writer.hpp"

#include <cstring>
#include <span>

#include "base/assert.hpp"
#include "base/checksum.hpp"

namespace sft {

Result<> StateWriter::create(const std::string& path, const StoredHead& head) {
    path_ = path;
    head_ = head;
    head_.compression = static_cast<std::uint32_t>(how_.kind);
    return file_.create(unfinished(path)).then([&] { return compressor_ ? Result<>() : file_.resize(head.bytes); });
}

Result<> StateWriter::put(const std::byte* data, std::size_t bytes, std::size_t offset) {
    SFT_ASSERT(bytes > 0 && bytes <= kPieceBytes && offset >= kPageBytes && offset + bytes <= head_.bytes);
    state_bytes_ += bytes;
    if (!compressor_) {
        written_bytes_ += bytes;
        return file_.write(data, bytes, offset);
    }
    const std::span<const std::byte> packed = compressor_->compress({data, bytes});
    const std::span<const std::byte> stored = packed.empty() ? std::span(data, bytes) : packed;
    const PieceHead piece{.offset = offset,
                          .bytes = static_cast<std::uint32_t>(bytes),
                          .stored_bytes = static_cast<std::uint32_t>(stored.size())};
    piece_.resize(sizeof piece + stored.size());
    std::memcpy(piece_.data(), &piece, sizeof piece);
    std::memcpy(piece_.data() + sizeof piece, stored.data(), stored.size());
    const std::size_t begin = end_;
    end_ += piece_.size();
    written_bytes_ += piece_.size();
    return file_.write(piece_.data(), piece_.size(), begin);
}

Result<> StateWriter::finish(std::uint64_t image_sum, std::span<const ArrayPiece> arrays) {
    SFT_ASSERT(arrays.size() <= ArrayTable::kPiecesMax);
    head_.image_sum = image_sum;
    head_.n_arrays = static_cast<std::uint32_t>(arrays.size());
    head_.arrays_sum = checksum(arrays.data(), arrays.size_bytes());
    head_.file_bytes = compressor_ ? end_ : head_.bytes;
    seal(head_);
    return file_.write(&head_, sizeof head_, 0)
        .then(
            [&] { return arrays.empty() ? Result<>() : file_.write(arrays.data(), arrays.size_bytes(), sizeof head_); })
        .then([&] { return file_.finish_as(path_); });
}

}  // namespace sft
