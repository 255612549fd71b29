#include "recovery/ready_words.hpp"

#include "base/assert.hpp"

namespace sft {

void ReadyWords::write(std::uint64_t word) noexcept {
    std::atomic<std::uint64_t>& own = control_->ready_word(self_);
    SFT_ASSERT(own.load(std::memory_order_relaxed) < word);  // it only grows
    own.store(word, std::memory_order_seq_cst);
}

void ReadyWords::move_on() noexcept {
    moves_.fetch_add(1, std::memory_order_seq_cst);
    wake(self_);
}

bool ReadyWords::await(std::vector<ProcId> missing, std::uint64_t word, std::uint64_t moves) noexcept {
    // What has been there stays there.
    const auto are_there = [&]() noexcept {
        while (!missing.empty() && of(missing.back()) >= word) {
            missing.pop_back();
        }
        return missing.empty();
    };
    static_cast<void>(waiter_->block_until([&]() noexcept { return this->moves() != moves || are_there(); }));
    return are_there() && this->moves() == moves;
}

}  // namespace sft
