#include "symheap/exclusions.hpp"

#include <algorithm>
#include <atomic>

#include "base/assert.hpp"

namespace sft {
namespace {

// Others may look while they are written.
std::uint64_t read(const std::uint64_t& word) noexcept {
    return std::atomic_ref(const_cast<std::uint64_t&>(word)).load(std::memory_order_relaxed);
}
void write(std::uint64_t& word, std::uint64_t value) noexcept {
    std::atomic_ref(word).store(value, std::memory_order_relaxed);
}

}  // namespace

// The runs of a change, in ascending order.
class Exclusions::Built {
public:
    void add(Run run) noexcept {
        SFT_ASSERT(n_ == 0 || runs_[n_ - 1].end <= run.first);
        if (run.first == run.end) {
            return;
        }
        SFT_ASSERT(run.first < run.end && n_ < kRunsMax + 1);
        if (n_ != 0 && runs_[n_ - 1].end == run.first) {
            runs_[n_ - 1].end = run.end;
        } else {
            runs_[n_++] = run;
        }
    }
    [[nodiscard]] std::size_t size() const noexcept { return n_; }
    [[nodiscard]] Run operator[](std::size_t i) const noexcept { return i < n_ ? runs_[i] : Run{}; }
    void drop(std::size_t i) noexcept {
        std::copy(runs_ + i + 1, runs_ + n_, runs_ + i);
        --n_;
    }

private:
    Run runs_[kRunsMax + 1];
    std::size_t n_ = 0;
};

void Exclusions::set(const Built& built) noexcept {
    SFT_ASSERT(built.size() <= kRunsMax);
    write(n_runs_, std::min<std::uint64_t>(n_runs_, built.size()));  // who looks meanwhile sees whole runs, or none
    for (std::size_t i = 0; i < kRunsMax; ++i) {
        write(runs_[i].first, built[i].first);
        write(runs_[i].end, built[i].end);
    }
    write(n_runs_, built.size());
}

bool Exclusions::add(std::size_t first, std::size_t end) noexcept {
    SFT_ASSERT(first <= end);
    if (first == end) {
        return true;
    }
    Built built;
    Run added{first, end};
    std::size_t i = 0;
    for (; i < n_runs_ && runs_[i].end < added.first; ++i) {
        built.add(runs_[i]);
    }
    for (; i < n_runs_ && runs_[i].first <= added.end; ++i) {
        added = {std::min(added.first, runs_[i].first), std::max(added.end, runs_[i].end)};
    }
    built.add(added);
    for (; i < n_runs_; ++i) {
        built.add(runs_[i]);
    }
    if (built.size() > kRunsMax) {
        return false;
    }
    set(built);
    return true;
}

void Exclusions::remove(std::size_t first, std::size_t end) noexcept {
    SFT_ASSERT(first <= end);
    Built built;
    std::size_t last_cut = 0;
    for (std::size_t i = 0; i < n_runs_; ++i) {
        const Run run = runs_[i];
        const std::uint64_t front_end = std::clamp<std::uint64_t>(first, run.first, run.end);
        const std::uint64_t back_begin = std::clamp<std::uint64_t>(end, front_end, run.end);
        if (front_end == back_begin) {
            built.add(run);
            continue;
        }
        built.add({run.first, front_end});
        last_cut = built.size();
        built.add({back_begin, run.end});
    }
    if (built.size() > kRunsMax) {
        built.drop(last_cut);  // one run has become two
    }
    set(built);
}

std::size_t Exclusions::next_included(std::size_t block) const noexcept {
    const std::size_t n = n_runs();
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint64_t first = read(runs_[i].first);
        const std::uint64_t end = read(runs_[i].end);
        if (block >= first && block < end) {
            return end;
        }
    }
    return block;
}

std::size_t Exclusions::next_excluded(std::size_t block, std::size_t end) const noexcept {
    const std::size_t n = n_runs();
    for (std::size_t i = 0; i < n; ++i) {
        if (read(runs_[i].end) > block) {
            return std::min(end, std::max<std::size_t>(block, read(runs_[i].first)));
        }
    }
    return end;
}

std::size_t Exclusions::n_runs() const noexcept { return std::min<std::size_t>(read(n_runs_), kRunsMax); }

}  // namespace sft
