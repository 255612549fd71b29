// What of the symmetric memory is left out of versions (shmem_ft_exclude, SHMEM_FT_HINT_SCRATCH): whole blocks,
// numbered as in an image, those of the heap first.
//
// To a version a block that is left out is one that does not exist: copies have no room for it, and after a rollback
// it reads as zeros, in survivors as in substitutes. So loading a version need not know what was left out; what is,
// goes back with the version, as it lies in the library's state.
//
// Threads: one changes it at a time, and none while a version is made. Any may look meanwhile; it then sees some of
// what was and some of what is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace sft {

class Exclusions {
public:
    static constexpr std::size_t kRunsMax = 128;

    // False: there would be too many runs of blocks; nothing has changed.
    [[nodiscard]] bool add(std::size_t first, std::size_t end) noexcept;
    // Where that would make too many runs, more is taken away.
    void remove(std::size_t first, std::size_t end) noexcept;

    // The first block from `block` on that is not left out.
    [[nodiscard]] std::size_t next_included(std::size_t block) const noexcept;
    // The first one from `block` on, and below `end`, that is; `end`: none.
    [[nodiscard]] std::size_t next_excluded(std::size_t block, std::size_t end) const noexcept;
    [[nodiscard]] std::size_t n_runs() const noexcept;
    // Calls visit(first, end) for each run; ascending.
    template <class Visit>
    void each_run(Visit&& visit) const {
        for (std::size_t i = 0; i < n_runs_; ++i) {
            visit(static_cast<std::size_t>(runs_[i].first), static_cast<std::size_t>(runs_[i].end));
        }
    }

    friend bool operator==(const Exclusions&, const Exclusions&) noexcept = default;

private:
    // Sorted, not empty, with a block or more between two; those that are not in use are zeros.
    struct Run {
        std::uint64_t first = 0;
        std::uint64_t end = 0;
        friend bool operator==(Run, Run) noexcept = default;
    };
    class Built;
    void set(const Built& built) noexcept;

    std::uint64_t n_runs_ = 0;
    Run runs_[kRunsMax];
};
static_assert(std::is_trivially_copyable_v<Exclusions>);
static_assert(std::has_unique_object_representations_v<Exclusions>);  // it is saved as bytes, and has checksums

}  // namespace sft
