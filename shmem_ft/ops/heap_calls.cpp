#include "shmem_ft/ops/heap_calls.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/report.hpp"
#include "shmem_ft/ops/collectives.hpp"
#include "shmem_ft/ops/job.hpp"
#include "shmem_ft/ops/startup.hpp"

namespace sft {

void* HeapCalls::malloc(std::size_t bytes) noexcept {
    job::watch_exit_at_first_call();
    return bytes == 0 ? nullptr : carry_out(HeapCall::malloc, bytes, 0);
}

void* HeapCalls::calloc(std::size_t count, std::size_t bytes) noexcept {
    std::size_t total = 0;
    if (count == 0 || bytes == 0 || __builtin_mul_overflow(count, bytes, &total)) {
        return nullptr;
    }
    return carry_out(HeapCall::calloc, count, bytes);
}

void* HeapCalls::align(std::size_t alignment, std::size_t bytes) noexcept {
    return bytes == 0 ? nullptr : carry_out(HeapCall::align, bytes, alignment);
}

void* HeapCalls::realloc(void* address, std::size_t bytes) noexcept {
    if (address == nullptr) {
        return malloc(bytes);
    }
    if (bytes == 0) {
        free(address);
        return nullptr;
    }
    return carry_out(HeapCall::realloc, offset_of(address, "shmem_realloc"), bytes);
}

void* HeapCalls::malloc_with_hints(std::size_t bytes, long hints) noexcept {
    return bytes == 0 ? nullptr : carry_out(HeapCall::malloc_with_hints, bytes, static_cast<std::uint64_t>(hints));
}

void HeapCalls::free(void* address) noexcept {
    if (address != nullptr) {
        carry_out(HeapCall::free, offset_of(address, "shmem_free"), 0);
    }
}

bool HeapCalls::exclude(const void* begin, std::size_t bytes) noexcept {
    return is_done(memory_.exclude(begin, bytes), "shmem_ft_exclude", begin, bytes);
}

bool HeapCalls::declare(const ArrayPiece& piece) noexcept {
    return is_done(memory_.declare(piece), "shmem_ft_declare_array", reinterpret_cast<const void*>(piece.address),
                   piece.bytes());
}

bool HeapCalls::is_done(SymmetricMemory::Noted noted, const char* routine, const void* begin,
                        std::size_t bytes) const noexcept {
    if (noted == SymmetricMemory::Noted::not_inside) {
        job::fail(format("PE %d: %s was given %zu bytes at %p, which do not lie inside of one symmetric object",
                         me_.value(), routine, bytes, begin)
                      .c_str());
    }
    return noted == SymmetricMemory::Noted::done;
}

// first and second as in HeapRecord.
void* HeapCalls::carry_out(HeapCall call, std::uint64_t first, std::uint64_t second) noexcept {
    if (!me_.has_joined()) {
        return replay(call, first, second);
    }
    if (call == HeapCall::free || call == HeapCall::realloc) {
        SFT_ASSERT(first != 0);  // offset + 1 of a block
        barrier(engine_, world(engine_));
    }
    void* const result = memory_.carry_out(call, first, second);
    SFT_ASSERT(result == nullptr || (call != HeapCall::free && memory_.heap().contains(result)));
    if (call != HeapCall::free) {
        barrier(engine_, world(engine_));
    }
    return result;
}

// What the record of the start-up has answered already counts.
void* HeapCalls::replay(HeapCall call, std::uint64_t first, std::uint64_t second) noexcept {
    if (engine_.startup != nullptr) {
        n_replayed_ = std::max(n_replayed_, engine_.startup->heap_calls());
    }
    const Result<void*> result = memory_.recorded_result(n_replayed_++, call, first, second);
    if (!result) {
        job::fail(format("PE %d, a substitute, %s", me_.value(), result.error().line.c_str()).c_str());
    }
    return *result;
}

// Offset + 1.
std::uint64_t HeapCalls::offset_of(const void* address, const char* routine) const noexcept {
    if (!memory_.heap().contains(address)) {
        job::fail(
            format("PE %d: %s was given %p, which is no block of the symmetric heap", me_.value(), routine, address)
                .c_str());
    }
    return memory_.offset_of(address);
}

}  // namespace sft
