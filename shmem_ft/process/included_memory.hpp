// Private memory of this PE that is saved with each version (shmem_ft_include): every piece has a place in the
// symmetric heap, to which it is copied before a version is made and from which it comes back after a rollback.
//
// Why it is right: pieces are included before the first version only, and a substitute includes its own ones while it
// repeats the start-up; so a place holds the piece as of the version in every version that can be gone back to.
//
// Threads: the owner's lock.
#pragma once

#include <cstddef>
#include <vector>

namespace sft {

class IncludedMemory {
public:
    // False: no memory for the note. `place` has as many bytes.
    [[nodiscard]] bool add(void* piece, void* place, std::size_t bytes) noexcept;
    // What is as it was is not written, so that nothing has changed there for the checkpoint.
    void save() const noexcept;
    void restore() const noexcept;
    [[nodiscard]] std::size_t n_pieces() const noexcept { return pieces_.size(); }
    [[nodiscard]] std::size_t n_bytes() const noexcept { return n_bytes_; }

private:
    struct Piece {
        std::byte* memory;
        std::byte* place;
        std::size_t bytes;
    };
    std::vector<Piece> pieces_;
    std::size_t n_bytes_ = 0;
};

}  // namespace sft
