#include "shmem_ft/ops/check.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <string>

#include "base/report.hpp"
#include "shmem_ft/ops/job.hpp"
#include "shmem_ft/ops/p2p.hpp"

namespace sft {
namespace {

// A wrong call in a loop shall not bury everything else.
constexpr std::uint32_t kLinesMax = 100;

std::uintptr_t number(const void* address) noexcept { return reinterpret_cast<std::uintptr_t>(address); }

std::string line_of(const Engine& e, const char* routine, const char* text, std::va_list arguments) {
    char what[512];
    std::vsnprintf(what, sizeof what, text, arguments);
    return format("PE %d: %s: %s", e.peers.me.value(), routine, what);
}

// "dest 0x200000001000 + 64 bytes"
std::string range_text(const Argument& argument) {
    return format("%s %p + %zu bytes", argument.name, argument.address, argument.extent.span());
}

// The pieces of an argument from one on, in ascending order.
struct Pieces {
    std::uintptr_t begin;
    std::size_t left;
    const Extent& extent;

    [[nodiscard]] std::uintptr_t end() const noexcept { return begin + extent.bytes; }
    void next() noexcept {
        begin += extent.step;
        --left;
    }
};

bool have_common_byte(const Argument& a, const Argument& b) noexcept {
    if (a.extent.is_empty() || b.extent.is_empty()) {
        return false;
    }
    Pieces first{number(a.address), a.extent.count, a.extent};
    Pieces second{number(b.address), b.extent.count, b.extent};
    if (first.begin + a.extent.span() <= second.begin || second.begin + b.extent.span() <= first.begin) {
        return false;
    }
    while (first.left != 0 && second.left != 0) {
        if (first.end() <= second.begin) {
            first.next();
        } else if (second.end() <= first.begin) {
            second.next();
        } else {
            return true;
        }
    }
    return false;
}

}  // namespace

std::size_t Extent::span() const noexcept {
    std::size_t gaps = 0;
    std::size_t all = 0;
    if (is_empty()) {
        return 0;
    }
    return __builtin_mul_overflow(count - 1, step, &gaps) || __builtin_add_overflow(gaps, bytes, &all) ? SIZE_MAX : all;
}

Extent elements(std::size_t count, std::size_t bytes) noexcept {
    std::size_t all = 0;
    return {__builtin_mul_overflow(count, bytes, &all) ? SIZE_MAX : all, 1, 0, bytes == 0 ? 1 : bytes};
}

void Checker::start(Engine& e, const Options& options) noexcept {
    SFT_ASSERT(options.mode != CheckMode::off);
    SFT_ASSERT((options.blocks == nullptr) == (options.blocks_in.bytes == 0));
    SFT_ASSERT(e.peers.n_pes > 0 && e.peers.me != kNoPe);
    engine_ = &e;
    options_ = options;
    main_thread_ = ::pthread_self();
}

void Checker::forget_users() noexcept {
    for (ContextUse& use : uses_) {
        use.creator.store(pthread_t{});
        use.inside.store(pthread_t{});
    }
}

// ---- lines ----

void Checker::report(const char* routine, const char* text, ...) noexcept {
    if (is_fault_pending()) {
        return;
    }
    std::va_list arguments;
    va_start(arguments, text);
    const std::string line = line_of(*engine_, routine, text, arguments);
    va_end(arguments);
    if (options_.mode == CheckMode::abort) {
        job::fail(line.c_str());
    }
    const std::uint32_t before = lines_.fetch_add(1, std::memory_order_relaxed);
    if (before < kLinesMax) {
        say("%s", line.c_str());
    } else if (before == kLinesMax) {
        say("PE %d: further wrong calls of this PE are not shown", engine_->peers.me.value());
    }
}

void Checker::fail(const char* routine, const char* text, ...) noexcept {
    std::va_list arguments;
    va_start(arguments, text);
    const std::string line = line_of(*engine_, routine, text, arguments);
    va_end(arguments);
    job::fail(line.c_str());
}

// ---- addresses ----

PeId Checker::owner_of_window(const void* address) const noexcept {
    const PeerTable& peers = engine_->peers;
    for (std::int32_t i = 0; i < peers.n_pes; ++i) {
        const PeId pe(i);
        const auto is_shown = [&](const AddressRange& range, const std::atomic<std::intptr_t>& difference) {
            const std::intptr_t shift = difference.load(std::memory_order_relaxed);
            return shift > kRemote &&
                   range.contains(reinterpret_cast<const void*>(number(address) - static_cast<std::uintptr_t>(shift)));
        };
        if (is_shown(peers.heap, peers.entries[pe.index()].heap_difference) ||
            is_shown(peers.globals, peers.entries[pe.index()].globals_difference)) {
            return pe;
        }
    }
    return kNoPe;
}

void Checker::check_alignment(const char* routine, const Argument& argument) noexcept {
    const std::size_t alignment = argument.extent.alignment;
    SFT_ASSERT(alignment != 0);
    if (number(argument.address) % alignment != 0) {
        report(routine, "%s %p is not aligned to %zu bytes", argument.name, argument.address, alignment);
    }
}

void Checker::check_in_heap(const char* routine, const Argument& argument) noexcept {
    const std::uintptr_t base = options_.blocks_in.begin;
    const std::uint64_t offset = number(argument.address) - base;
    const std::size_t span = argument.extent.span();
    const Locked lock(options_.blocks->mutex());
    const BlockTable::Block* const block = options_.blocks->at_or_before(offset);
    const std::uint64_t inside = block == nullptr ? 0 : offset - block->offset;
    if (block == nullptr || inside >= block->bytes) {
        if (!options_.blocks->is_complete()) {
            return;
        }
        const std::string nearest =
            block == nullptr
                ? std::string("there is none before it")
                : format("it begins %" PRIu64 " bytes past the end of block [%#" PRIxPTR ", %" PRIu64 " bytes]",
                         inside - block->bytes, base + block->offset, block->bytes);
        report(routine, "%s lies in no block of the symmetric heap: %s", range_text(argument).c_str(), nearest.c_str());
    } else if (block->is_freed != 0) {
        report(routine, "%s lies in freed memory: block [%#" PRIxPTR ", %" PRIu64 " bytes] was given to shmem_free",
               range_text(argument).c_str(), base + block->offset, block->bytes);
    } else if (span > block->bytes - inside) {
        report(routine, "%s runs %zu bytes past the end of its block [%#" PRIxPTR ", %" PRIu64 " bytes]",
               range_text(argument).c_str(), span - static_cast<std::size_t>(block->bytes - inside),
               base + block->offset, block->bytes);
    } else {
        check_alignment(routine, argument);
    }
}

void Checker::check_symmetric(const char* routine, const Argument& argument) noexcept {
    const PeerTable& peers = engine_->peers;
    if (argument.extent.is_empty() || is_fault_pending()) {
        return;
    }
    if (argument.address == nullptr) {
        fail(routine, "%s is a null pointer, for %zu bytes", argument.name, argument.extent.span());
    }
    if (peers.heap.contains(argument.address)) {
        check_in_heap(routine, argument);
    } else if (peers.globals.contains(argument.address)) {
        const std::size_t room = peers.globals.begin + peers.globals.bytes - number(argument.address);
        if (argument.extent.span() > room) {
            report(routine,
                   "%s runs %zu bytes past the end of the globals of the executable [%#" PRIxPTR ", %zu bytes]",
                   range_text(argument).c_str(), argument.extent.span() - room, peers.globals.begin,
                   peers.globals.bytes);
        } else {
            check_alignment(routine, argument);
        }
    } else if (const PeId pe = owner_of_window(argument.address); pe != kNoPe) {
        fail(routine, "%s %p is not symmetric: it is memory of PE %d as shmem_ptr gives it", argument.name,
             argument.address, pe.value());
    } else {
        fail(routine,
             "%s %p is not symmetric: it lies neither in the symmetric heap nor in the globals of the executable",
             argument.name, argument.address);
    }
}

void Checker::check_local(const char* routine, const Argument& argument) noexcept {
    if (argument.extent.is_empty() || is_fault_pending()) {
        return;
    }
    if (argument.address == nullptr) {
        fail(routine, "%s is a null pointer, for %zu bytes", argument.name, argument.extent.span());
    }
    if (engine_->peers.is_symmetric(argument.address)) {
        check_symmetric(routine, argument);
    } else {
        check_alignment(routine, argument);
    }
}

void Checker::check_apart(const char* routine, const Argument& what, const Argument& other) noexcept {
    if (have_common_byte(what, other)) {
        report(routine, "%s and %s overlap", range_text(what).c_str(), range_text(other).c_str());
    }
}

void Checker::check_block(const char* routine, const void* address) noexcept {
    if (engine_->replay.active || address == nullptr) {
        return;
    }
    if (!options_.blocks_in.contains(address)) {
        fail(routine, "ptr %p lies outside the symmetric heap", address);
    }
    const std::uintptr_t base = options_.blocks_in.begin;
    const Locked lock(options_.blocks->mutex());
    const BlockTable::Block* const block = options_.blocks->at_or_before(number(address) - base);
    const bool is_begin = block != nullptr && base + block->offset == number(address);
    if (is_begin && block->is_freed != 0) {
        fail(routine, "ptr %p has been freed already: block of %" PRIu64 " bytes", address, block->bytes);
    }
    if (!is_begin && options_.blocks->is_complete()) {
        fail(routine, "ptr %p is not the beginning of a block of the symmetric heap%s", address,
             block == nullptr ? "" : format(": the one before it begins at %#" PRIxPTR, base + block->offset).c_str());
    }
}

// ---- locks ----

bool Checker::holds(const long* lock) noexcept {
    const Locked guard(locks_mutex_);
    const HeldLocks& held = engine_->held_locks;
    SFT_ASSERT(held.count <= HeldLocks::kMax);
    return std::find(held.locks, held.locks + held.count, lock) != held.locks + held.count;
}

void Checker::check_test_lock(const char* routine, const long* lock) noexcept {
    check_symmetric(routine, {"lock", lock, elements(1, sizeof *lock)});
    if (holds(lock)) {
        report(routine, "lock %p is held by this PE already", static_cast<const void*>(lock));
    }
}

void Checker::check_set_lock(const char* routine, const long* lock) noexcept {
    check_symmetric(routine, {"lock", lock, elements(1, sizeof *lock)});
    if (holds(lock) && !is_fault_pending()) {
        fail(routine, "lock %p is held by this PE already: it would wait for itself", static_cast<const void*>(lock));
    }
}

void Checker::note_lock(const long* lock) noexcept {
    const Locked guard(locks_mutex_);
    HeldLocks& held = engine_->held_locks;
    if (is_fault_pending()) {
        return;  // it may have come back without the lock, and the rollback takes all of it back
    }
    SFT_ASSERT(held.count <= HeldLocks::kMax);
    if (held.count == HeldLocks::kMax) {
        held.is_incomplete = 1;
    } else {
        held.locks[held.count++] = lock;
    }
}

void Checker::check_clear_lock(const char* routine, const long* lock) noexcept {
    check_symmetric(routine, {"lock", lock, elements(1, sizeof *lock)});
    const Locked guard(locks_mutex_);
    HeldLocks& held = engine_->held_locks;
    SFT_ASSERT(held.count <= HeldLocks::kMax);
    const long** const end = held.locks + held.count;
    const long** const found = std::find(held.locks, end, lock);
    if (found != end) {
        *found = held.locks[--held.count];
    } else if (held.is_incomplete == 0) {
        report(routine, "lock %p is not held by this PE", static_cast<const void*>(lock));
    }
}

// ---- waits ----

Engine& engine(const CheckedCall&, const char* routine, const Watched& watched) noexcept {
    Engine& e = running_engine(routine);
    if (e.checker == nullptr) {
        return e;
    }
    Checker& checker = *e.checker;
    checker.check_symmetric(routine, {watched.name, watched.variables, elements(watched.nelems, watched.bytes)});
    const Extent any = elements(watched.nelems, 1);
    if (watched.indices != watched.variables) {
        checker.check_local(routine, {"indices", watched.indices, any});
    }
    if (watched.operands != watched.variables) {
        checker.check_local(routine, {"cmp_values", watched.operands, any});
    }
    if (watched.comparison < static_cast<int>(Comparison::eq) ||
        watched.comparison > static_cast<int>(Comparison::le)) {
        checker.fail(routine, "cmp has the unknown value %d: use one of the SHMEM_CMP_ constants", watched.comparison);
    }
    return e;
}

}  // namespace sft
