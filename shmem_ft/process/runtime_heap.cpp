// The collective heap routines: barriers as the specification demands, the record of calls, and the answers a
// substitute gets before it has joined.

#include <algorithm>

#include "base/report.hpp"
#include "shmem_ft/ops/collectives.hpp"
#include "shmem_ft/process/runtime.hpp"

namespace sft {

void* Runtime::replay_heap_call(HeapCall call, std::uint64_t first, std::uint64_t second) noexcept {
    if (startup_ != nullptr) {
        replayed_heap_calls_ = std::max(replayed_heap_calls_, startup_->heap_calls());
    }
    const Result<void*> result = memory_.recorded_result(replayed_heap_calls_++, call, first, second);
    if (!result) {
        job_exit_.fail_job(format("PE %d, a substitute, %s", me_.load().value(), result.error().line.c_str()));
    }
    return *result;
}

std::uint64_t Runtime::heap_offset(const void* address, const char* routine) noexcept {
    if (!memory_.heap().contains(address)) {
        job_exit_.fail_job(format("PE %d: %s was given %p, which is no block of the symmetric heap", me_.load().value(),
                                  routine, address));
    }
    return memory_.offset_of(address);
}

void Runtime::start_checks() noexcept {
    if (config_.check == CheckMode::off) {
        return;
    }
    checker_ = std::make_unique<Checker>();
    checker_->start(engine_, {config_.check, memory_.heap(), &memory_.blocks()});
    engine_.checker = checker_.get();
    stray_words_ = std::make_unique<StrayWords>(memory_.stray_words());
}

// A line, with SHMEM_FT_CHECK=abort as well: a program may set such a word anew after each recovery, and be right.
void Runtime::look_for_stray_words() noexcept {
    for (const std::string& line : stray_words_->look()) {
        say("PE %d: shmem_checkpoint_all: %s", me_.load().value(), line.c_str());
    }
}

// first and second as in HeapRecord.
void* Runtime::heap_call(HeapCall call, std::uint64_t first, std::uint64_t second) noexcept {
    if (!joined_) {
        return replay_heap_call(call, first, second);
    }
    if (call == HeapCall::free || call == HeapCall::realloc) {
        barrier(engine_, world(engine_));
    }
    void* const result = memory_.carry_out(call, first, second);
    if (call != HeapCall::free) {
        barrier(engine_, world(engine_));
    }
    return result;
}

}  // namespace sft
