// The collective heap routines: with the barriers that the specification demands, and in a substitute that has not
// joined yet answered from the record of the calls that its predecessor made.
//
// Threads: collective, so one at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/own_pe.hpp"
#include "shmem_ft/ops/engine.hpp"
#include "symheap/symmetric_memory.hpp"

namespace sft {

class HeapCalls {
public:
    HeapCalls(Engine& engine, SymmetricMemory& memory, const OwnPe& me) noexcept
        : engine_(engine), memory_(memory), me_(me) {}
    HeapCalls(const HeapCalls&) = delete;
    HeapCalls& operator=(const HeapCalls&) = delete;

    // Null: for nothing, or there is no memory left. What is no block of the heap ends the job.
    void* malloc(std::size_t bytes) noexcept;
    void* calloc(std::size_t count, std::size_t bytes) noexcept;
    void* align(std::size_t alignment, std::size_t bytes) noexcept;
    void* realloc(void* address, std::size_t bytes) noexcept;
    void* malloc_with_hints(std::size_t bytes, long hints) noexcept;
    void free(void* address) noexcept;
    // Local. False: there are too many pieces already. What is not inside of one object ends the job.
    [[nodiscard]] bool exclude(const void* begin, std::size_t bytes) noexcept;
    // False: there are too many.
    [[nodiscard]] bool declare(const ArrayPiece& piece) noexcept;

    // What a program may write to through a pointer to that symmetric address.
    [[nodiscard]] AddressRange reach_of_pointer(const void* address) const noexcept {
        return memory_.reach_of_pointer(address);
    }

private:
    void* carry_out(HeapCall call, std::uint64_t first, std::uint64_t second) noexcept;
    [[nodiscard]] void* replay(HeapCall call, std::uint64_t first, std::uint64_t second) noexcept;
    [[nodiscard]] std::uint64_t offset_of(const void* address, const char* routine) const noexcept;
    [[nodiscard]] bool is_done(SymmetricMemory::Noted noted, const char* routine, const void* begin,
                               std::size_t bytes) const noexcept;

    Engine& engine_;
    SymmetricMemory& memory_;
    const OwnPe& me_;
    std::uint64_t n_replayed_ = 0;
};

}  // namespace sft
