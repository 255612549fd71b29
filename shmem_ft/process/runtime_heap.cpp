// The collective heap routines: barriers as the specification demands, the record of calls, and the answers a
// substitute gets before it has joined.

#include <algorithm>

#include "base/report.hpp"
#include "shmem_ft/ops/collectives.hpp"
#include "shmem_ft/process/runtime.hpp"

namespace sft {
namespace {

const char* name_of(HeapCall call) {
    switch (call) {
        case HeapCall::malloc: return "shmem_malloc";
        case HeapCall::calloc: return "shmem_calloc";
        case HeapCall::align: return "shmem_align";
        case HeapCall::realloc: return "shmem_realloc";
        case HeapCall::free: return "shmem_free";
        case HeapCall::malloc_with_hints: return "shmem_malloc_with_hints";
    }
    return "a heap routine";
}

}  // namespace

void* Runtime::replay_heap_call(HeapCall call, std::uint64_t first, std::uint64_t second) noexcept {
    const auto journal = heap_.journal();
    if (startup_ != nullptr) {
        replayed_heap_calls_ = std::max(replayed_heap_calls_, startup_->heap_calls());
    }
    if (replayed_heap_calls_ >= journal.size()) {
        const bool recorded_all = heap_.calls() <= Heap::kJournalCalls;
        fail_job(format(
            "PE %d, a substitute, calls %s as heap call %llu before shmem_restart_pes, but %s", me_.load().value(),
            name_of(call), static_cast<unsigned long long>(replayed_heap_calls_ + 1),
            recorded_all ? "the PE it replaces had made fewer before the last checkpoint. If it has gone past the loop "
                           "without entering it: SHMEM_FT_ROLLBACK_POINT() in front of the loop helps"
                         : "only the first 4096 heap calls of a program are recorded"));
    }
    const HeapRecord& record = journal[replayed_heap_calls_++];
    if (record.call != call || record.first != first || record.second != second) {
        fail_job(format(
            "PE %d, a substitute, calls %s(%llu, %llu) as heap call %llu before shmem_restart_pes, but the PE it "
            "replaces had called %s(%llu, %llu): the calls before the checkpoint loop must not depend on "
            "the PE or the time",
            me_.load().value(), name_of(call), static_cast<unsigned long long>(first),
            static_cast<unsigned long long>(second), static_cast<unsigned long long>(replayed_heap_calls_),
            name_of(record.call), static_cast<unsigned long long>(record.first),
            static_cast<unsigned long long>(record.second)));
    }
    return heap_.decode(record.result);
}

void* Runtime::do_heap_call(HeapCall call, std::uint64_t first, std::uint64_t second) noexcept {
    void* result = nullptr;
    switch (call) {
        case HeapCall::malloc:
        case HeapCall::malloc_with_hints: return heap_.allocate(first);
        case HeapCall::calloc:
            result = heap_.allocate(first * second);
            if (result != nullptr) {
                heap_.zero(result, first * second);
            }
            return result;
        case HeapCall::align: return heap_.allocate_aligned(second, first);
        case HeapCall::realloc: return heap_.reallocate(heap_.decode(first), second);
        case HeapCall::free: heap_.free(heap_.decode(first)); return nullptr;
    }
    return result;
}

std::uint64_t Runtime::heap_offset(const void* address, const char* routine) noexcept {
    if (!live_.heap.contains(address)) {
        fail_job(format("PE %d: %s was given %p, which is no block of the symmetric heap", me_.load().value(), routine,
                        address));
    }
    return heap_.encode(address);
}

void Runtime::note_block(const HeapRecord& record) noexcept {
    const Locked guard(checker_->blocks_mutex());
    const bool frees = record.call == HeapCall::free;
    if ((frees || record.call == HeapCall::realloc) && record.first != 0 && (frees || record.result != 0)) {
        blocks_.remove(record.first - 1);
    }
    if (record.result == 0) {
        return;
    }
    switch (record.call) {
        case HeapCall::calloc: blocks_.add(record.result - 1, record.first * record.second); break;
        case HeapCall::realloc: blocks_.add(record.result - 1, record.second); break;
        default: blocks_.add(record.result - 1, record.first); break;
    }
}

void Runtime::start_checks() noexcept {
    if (config_.check == CheckMode::off) {
        return;
    }
    checker_ = std::make_unique<Checker>();
    checker_->start(engine_, {config_.check, heap_.range(), &blocks_});
    engine_.checker = checker_.get();
    stray_words_ = std::make_unique<StrayWords>(
        StrayWords::Options{heap_.range(), live_.heap_fd, record_bytes_, &blocks_, globals_.range(), globals_.saved()});
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
    void* result = do_heap_call(call, first, second);
    const HeapRecord record{call, 0, first, second, heap_.encode(result)};
    heap_.record(record);
    if (checker_ != nullptr) {
        note_block(record);
    }
    if (call != HeapCall::free) {
        barrier(engine_, world(engine_));
    }
    return result;
}

}  // namespace sft
