// Reads arrays that a job has declared (symheap/array_table.hpp) from a stored version, whatever the number of PEs, the
// program and the place of the arrays were. The manifest says which PE has which elements; they lie in the state of
// that PE as all its memory does.
//
// Fault model: files may be damaged, or gone: what is read fits the checksums of its blocks, or nothing counts.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "storage/manifest.hpp"
#include "storage/stored_state.hpp"

namespace sft {

class ArrayLoader {
public:
    // Of a version. The failure names what is wrong.
    [[nodiscard]] Result<> open(const std::string& folder);
    // Gives back what is kept of files.
    void close() noexcept { states_.clear(); }

    [[nodiscard]] const Manifest& manifest() const noexcept { return manifest_; }
    // Null: there is no such array.
    [[nodiscard]] const StoredArray* find(const std::string& name) const noexcept;
    // Some of the bytes in `to` may have changed, too, if that fails.
    [[nodiscard]] Result<> load(const std::string& name, std::uint64_t element_bytes, std::uint64_t first,
                                std::uint64_t count, std::byte* to);
    // The same of elements that this piece of the array has, from its PE, whoever else has them.
    [[nodiscard]] Result<> load_from(const StoredArray& array, const StoredArray::Piece& piece, std::uint64_t first,
                                     std::uint64_t count, std::byte* to);

private:
    struct Open {
        PeId pe = kNoPe;
        std::unique_ptr<StoredState> state;
    };
    [[nodiscard]] bool is_open(PeId pe) const noexcept;
    [[nodiscard]] Result<const StoredState*> state_of(PeId pe);

    std::string folder_;
    Manifest manifest_;         // with the pieces of each array in the order of their elements
    std::vector<Open> states_;  // the last one that was used is the last
};

}  // namespace sft
