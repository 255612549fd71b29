#include "shmem_ft/ops/call_checks.hpp"

#include <string>

#include "base/assert.hpp"
#include "base/report.hpp"

namespace sft {

void CallChecks::begin(Engine& e, CheckMode mode, const SymmetricMemory& memory) {
    SFT_ASSERT(checker_ == nullptr);
    if (mode == CheckMode::off) {
        return;
    }
    engine_ = &e;
    checker_ = std::make_unique<Checker>();
    checker_->start(e, {mode, memory.heap(), &memory.blocks()});
    e.checker = checker_.get();
    stray_words_ = std::make_unique<StrayWords>(memory.stray_words());
}

void CallChecks::set_thread_level(int level) noexcept {
    if (checker_ != nullptr) {
        checker_->set_thread_level(level);
    }
}

void CallChecks::forget_users() noexcept {
    if (checker_ != nullptr) {
        checker_->forget_users();
    }
}

void CallChecks::follow_heap(const SymmetricMemory& memory) noexcept {
    if (stray_words_ != nullptr) {
        stray_words_->move_heap_to(memory.heap_file_offset());
    }
}

// Lines, with SHMEM_FT_CHECK=abort as well: a program may set such a word anew after each recovery, and be right.
void CallChecks::look_for_stray_words() noexcept {
    if (stray_words_ == nullptr) {
        return;
    }
    for (const std::string& line : stray_words_->look()) {
        say("PE %d: shmem_checkpoint_all: %s", engine_->peers.me.value(), line.c_str());
    }
}

}  // namespace sft
