// The stored state of one PE, as memory of this process.
//
// What cannot be read is found before anything is looked at: a page of a mapped file that the device does not give
// would end the process.
#pragma once

#include <cstddef>
#include <string>

#include "backup/image.hpp"
#include "base/result.hpp"
#include "storage/stored_file.hpp"
#include "symheap/live_state.hpp"

namespace sft {

struct StoredOrigin {
    std::uint64_t program = 0;
    std::uint64_t job = 0;
};
// All but the sums.
[[nodiscard]] StoredHead head_of(const LiveState& live, Version version, PeId pe, std::int32_t n_pes,
                                 const StoredOrigin& origin) noexcept;

// It has the layout that this library gives to such a state.
[[nodiscard]] bool is_laid_out_as(const StoredHead& head, const LiveState& live) noexcept;

class StoredState {
public:
    StoredState() = default;
    ~StoredState() { close(); }
    StoredState(const StoredState&) = delete;
    StoredState& operator=(const StoredState&) = delete;

    // Once. Reads the whole file. The failure names it.
    [[nodiscard]] Result<> open(const std::string& path);
    void close() noexcept;

    [[nodiscard]] const StoredHead& head() const noexcept { return head_; }
    // A state of the same sizes, for those who have none.
    [[nodiscard]] LiveState shape() const noexcept;
    // REQUIRES: `live` has the sizes of the head. What is written to the image stays here.
    [[nodiscard]] Image image(const LiveState& live) const noexcept;
    // The failure says which block does not fit its checksum.
    [[nodiscard]] Result<> verify() const;
    // What a part holds, with zeros where nothing exists.
    [[nodiscard]] const std::byte* data(const StoredPart& part) const noexcept { return base_ + part.offset; }

private:
    std::string path_;
    StoredHead head_;
    std::byte* base_ = nullptr;
};

// "block 12 of the heap, and 3 more, do not fit their checksums": what a check of an image has found.
[[nodiscard]] std::string text_of(const Findings& findings, const Image& image);

}  // namespace sft
