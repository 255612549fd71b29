// Operations that are answered one by one: large puts, everything that brings something back, everything on stores.
//
// Each has a slot while it is under way, whose number and generation go over the wire as its id and come back with the
// answer. A slot that has been given back has another generation, so an answer that comes twice, or late, or was made
// up, finds nothing. The slots of one process and sort form a list in the order in which they were sent: what is at its
// front tells how far everything before a certain moment is done, although answers come in any order.
//
// Threads: the network's lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/assert.hpp"
#include "base/ids.hpp"

namespace sft {

// A thread that waits for one or several requests or sends. Lives on its stack.
struct Awaited {
    std::uint32_t n_open = 0;
    std::uint64_t value = 0;  // of a fetch
};

// What quiet() and fence() wait for is not the same.
enum class RequestSort : std::uint8_t { write, read, store };
inline constexpr std::size_t kRequestSorts = 3;

inline constexpr std::uint32_t kNoSlot = UINT32_MAX;

struct Request {
    enum class Kind : std::uint8_t { none, put, get, get_blocks, fetch, store_write, store_read };

    Kind kind = Kind::none;
    bool is_arriving = false;  // the fabric writes to dest
    ProcId process = kNoProc;
    std::uint32_t generation = 1;
    std::uint32_t slot = 0;
    std::uint32_t previous = kNoSlot;
    std::uint32_t next = kNoSlot;
    std::uint64_t number = 0;  // in the order of its list
    std::byte* dest = nullptr;
    std::size_t bytes = 0;  // of a block, if these are blocks
    std::size_t n_blocks = 0;
    std::ptrdiff_t dest_step = 0;
    Awaited* awaited = nullptr;

    [[nodiscard]] RequestSort sort() const noexcept {
        switch (kind) {
            case Kind::put: return RequestSort::write;
            case Kind::store_write:
            case Kind::store_read: return RequestSort::store;
            default: return RequestSort::read;
        }
    }
    // Never 0, and never with the highest bit (kAckRefused).
    [[nodiscard]] std::uint64_t id() const noexcept { return std::uint64_t{generation} << 32 | slot; }
};

struct RequestList {
    std::uint32_t first = kNoSlot;
    std::uint32_t last = kNoSlot;
    std::uint64_t n_begun = 0;
};

// Of one process.
struct RequestLists {
    std::array<RequestList, kRequestSorts> lists;
    std::uint32_t n_open = 0;

    [[nodiscard]] RequestList& of(RequestSort sort) noexcept { return lists[static_cast<std::size_t>(sort)]; }
};

class RequestTable {
public:
    // What is not given by the arguments is to be set by the caller.
    Request& begin(RequestLists& lists, Request::Kind kind, ProcId process) {
        if (free_.empty()) {
            free_.push_back(static_cast<std::uint32_t>(slots_.size()));
            slots_.emplace_back().slot = free_.back();
        }
        SFT_ASSERT(kind != Request::Kind::none && process != kNoProc);
        SFT_ASSERT(free_.back() < slots_.size() && slots_.size() < kNoSlot);
        Request& request = slots_[free_.back()];
        SFT_ASSERT(request.kind == Request::Kind::none);
        SFT_ASSERT(request.slot == free_.back());
        SFT_ASSERT(request.generation != 0 && request.generation <= kGenerationMax);
        free_.pop_back();
        request.kind = kind;
        request.process = process;
        RequestList& list = lists.of(request.sort());
        request.number = ++list.n_begun;
        SFT_ASSERT((list.first == kNoSlot) == (list.last == kNoSlot));
        SFT_ASSERT(list.last == kNoSlot || slots_[list.last].number < request.number);
        request.previous = list.last;
        request.next = kNoSlot;
        (list.last == kNoSlot ? list.first : slots_[list.last].next) = request.slot;
        list.last = request.slot;
        ++lists.n_open;
        return request;
    }

    void end(RequestLists& lists, Request& request) {
        SFT_ASSERT(request.kind != Request::Kind::none);
        SFT_ASSERT(!request.is_arriving);  // the fabric would write to memory that nobody has promised any more
        SFT_ASSERT(request.slot < slots_.size() && &slots_[request.slot] == &request);
        SFT_ASSERT(lists.n_open != 0);
        RequestList& list = lists.of(request.sort());
        SFT_ASSERT((request.previous == kNoSlot ? list.first : slots_[request.previous].next) == request.slot);
        SFT_ASSERT((request.next == kNoSlot ? list.last : slots_[request.next].previous) == request.slot);
        SFT_ASSERT(request.next == kNoSlot || slots_[request.next].number > request.number);
        SFT_ASSERT(request.number <= list.n_begun);
        (request.previous == kNoSlot ? list.first : slots_[request.previous].next) = request.next;
        (request.next == kNoSlot ? list.last : slots_[request.next].previous) = request.previous;
        --lists.n_open;
        const std::uint32_t generation = request.generation == kGenerationMax ? 1 : request.generation + 1;
        const std::uint32_t slot = request.slot;
        request = Request{};
        request.generation = generation;
        request.slot = slot;
        free_.push_back(slot);
    }

    // Null: no such request of this process is under way.
    [[nodiscard]] Request* find(std::uint64_t id, ProcId process) noexcept {
        const std::uint64_t slot = id & UINT32_MAX;
        if (slot >= slots_.size()) {
            return nullptr;
        }
        Request& request = slots_[slot];
        const bool is_it = request.kind != Request::Kind::none && request.id() == id && request.process == process;
        return is_it ? &request : nullptr;
    }

    [[nodiscard]] Request& at(std::uint32_t slot) noexcept {
        SFT_ASSERT(slot < slots_.size());
        return slots_[slot];
    }

    // All that were begun up to this number are over.
    [[nodiscard]] bool is_over(const RequestList& list, std::uint64_t number) const noexcept {
        SFT_ASSERT(number <= list.n_begun);
        return list.first == kNoSlot || slots_[list.first].number > number;
    }

private:
    static constexpr std::uint32_t kGenerationMax = 0x7fff'ffff;
    static_assert((kGenerationMax & 1U << 31) == 0, "the highest bit of an id is kAckRefused");
    static_assert(static_cast<std::size_t>(RequestSort::store) + 1 == kRequestSorts);

    std::deque<Request> slots_;  // places that do not move
    std::vector<std::uint32_t> free_;
};

}  // namespace sft
