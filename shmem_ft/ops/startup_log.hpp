// The record of the calls that a PE made before its first committed checkpoint, as a flat piece of memory: written by
// the PE, kept and restored like its heap, read by every substitute of it.
//
// An entry says which call it was (routine, place in the program, arguments), what it gave (the returned value, the
// memory that it filled), and what had come into the PE's symmetric memory by then from others. Polling loops make the
// same entries again and again: an entry that equals the one that lies up to kBack entries back begins a repetition,
// which takes 16 bytes however long it goes on. In other loops the entries of one call differ in a few words: then only
// these are written, and which entry has the others.
//
// Pure: no I/O, no clocks, no knowledge of the job. Not safe for threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/assert.hpp"

namespace sft {

enum class StartupState : std::uint32_t {
    none = 0,   // there is no record
    recording,  // not committed yet
    complete,
    too_large,     // the calls would not have fitted
    many_threads,  // calls came from several threads, whose order is another one in every run
};

// At the beginning of the piece of memory.
struct StartupHead {
    std::uint64_t magic = 0;
    StartupState state = StartupState::none;
    std::uint32_t exposed_unseen = 0;  // others could write to the PE's memory without being seen (shmem_ptr)
    std::uint64_t used_bytes = 0;      // of the entries behind this head
    std::uint64_t n_calls = 0;         // repeated ones as well
};
static_assert(sizeof(StartupHead) == 32 && std::is_trivially_copyable_v<StartupHead>);
static_assert(std::has_unique_object_representations_v<StartupHead> && offsetof(StartupHead, used_bytes) == 16);

enum class CallKind : std::uint16_t {
    repeat = 0,
    ordinary,
    light,      // quiet or fence: recorded only if something had come from others
    heap,       // of the symmetric heap
    algo_init,  // shmem_ft_algo_init
    pointer,    // shmem_ptr: only whether there was one is the same in a substitute
    patch,      // an entry that is another one but for some words
};

struct CallKey {
    std::int32_t routine = 0;  // where its name lies in the library, from a fixed place
    std::uint32_t arguments = 0;
    std::uint64_t site = 0;   // where it was called
    std::uint64_t stack = 0;  // and by way of which callers; 0 before the first shmem_ft_algo_init

    bool operator==(const CallKey&) const = default;
};

struct CallEntry {
    std::uint32_t bytes = 0;  // with what follows; a multiple of 8
    CallKind kind = CallKind::ordinary;
    std::uint16_t result_bytes = 0;
    CallKey key;
    std::uint16_t handles[2] = {};   // that it gave, if it makes handles
    std::uint32_t n_light = 0;       // light calls since the entry before, for a light one
    std::uint32_t filled_bytes = 0;  // of the memory that the call filled; behind the result
    std::uint32_t n_changes = 0;     // what had come from others; behind that
};
static_assert(sizeof(CallEntry) == 48 && std::is_trivially_copyable_v<CallEntry>);
static_assert(std::has_unique_object_representations_v<CallEntry>, "entries are compared as bytes");

struct CallRepeat {
    std::uint32_t bytes = sizeof(CallRepeat);
    CallKind kind = CallKind::repeat;
    std::uint16_t back = 0;   // as the entry so many back, and so on
    std::uint64_t count = 0;  // so many entries
};
static_assert(sizeof(CallRepeat) == 16 && std::is_trivially_copyable_v<CallRepeat>);
static_assert(std::has_unique_object_representations_v<CallRepeat>);
static_assert(offsetof(CallRepeat, bytes) == offsetof(CallEntry, bytes) &&
                  offsetof(CallRepeat, kind) == offsetof(CallEntry, kind),
              "a reader looks which of them it is");
static_assert(sizeof(CallRepeat) <= sizeof(CallEntry), "a token is written over the entry that begins a repetition");

// Behind it the numbers of the words, then the words.
struct CallPatch {
    std::uint32_t bytes = 0;  // with what follows; a multiple of 8
    CallKind kind = CallKind::patch;
    std::uint16_t n_words = 0;
    std::uint64_t base = 0;  // where the other entry lies, which is as long and no patch itself

    using Number = std::uint32_t;
    [[nodiscard]] static constexpr std::size_t bytes_for(std::size_t n_words) noexcept {
        return sizeof(CallPatch) + (n_words * sizeof(Number) + 7) / 8 * 8 + n_words * sizeof(std::uint64_t);
    }
};
static_assert(sizeof(CallPatch) == 16 && std::is_trivially_copyable_v<CallPatch>);
static_assert(offsetof(CallPatch, bytes) == offsetof(CallEntry, bytes) &&
                  offsetof(CallPatch, kind) == offsetof(CallEntry, kind),
              "a reader looks which of them it is");

// In front of the bytes of one change.
struct ChangeHead {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
};
static_assert(sizeof(ChangeHead) == 16 && std::is_trivially_copyable_v<ChangeHead>);
static_assert(std::has_unique_object_representations_v<ChangeHead>);

inline constexpr std::size_t kBack = 8;
static_assert(kBack <= UINT16_MAX, "CallRepeat::back");
[[nodiscard]] constexpr std::size_t padded(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

// The entries that came last, repetitions counted as what they repeat.
class CallHistory {
public:
    // The place of the entry `back` before the next one; null: there are not so many.
    [[nodiscard]] const std::byte* at(std::size_t back) const noexcept {
        SFT_ASSERT_SLOW(back >= 1 && back <= kBack);
        return back <= n_ ? places_[(n_ - back) % kBack] : nullptr;
    }
    void add(const std::byte* place) noexcept { places_[n_++ % kBack] = place; }

private:
    std::array<const std::byte*, kBack> places_{};
    std::uint64_t n_ = 0;
};

// Writes entries. Between begin() and end() the parts of one entry are added in the order of CallEntry's members; once
// something does not fit, is_full() says so, and nothing is recorded any more.
class StartupWriter {
public:
    StartupWriter() = default;
    // 8-byte aligned, at least as long as the head.
    StartupWriter(std::byte* memory, std::size_t bytes) noexcept;

    void begin(const CallEntry& entry) noexcept;  // the parts of it that do not follow from what is added
    void result(const void* value, std::size_t bytes) noexcept;
    void filled(const void* from, std::size_t bytes) noexcept;  // may be called for several pieces of one memory
    void change(std::uintptr_t address, std::size_t bytes) noexcept;
    // How many bytes the record has grown by.
    std::size_t end() noexcept;

    [[nodiscard]] bool is_full() const noexcept { return is_full_; }
    [[nodiscard]] std::uint64_t n_calls() const noexcept { return n_calls_; }
    [[nodiscard]] std::size_t used_bytes() const noexcept { return used_; }
    // What has been written so far is all there is.
    void close(StartupState state, bool is_exposed_unseen) noexcept;

private:
    void append(const void* from, std::size_t bytes) noexcept;
    void pad() noexcept;
    [[nodiscard]] std::byte* entries() const noexcept { return memory_ + sizeof(StartupHead); }
    [[nodiscard]] bool equals(const std::byte* other) const noexcept;
    [[nodiscard]] bool ends_as_repetition() noexcept;
    [[nodiscard]] bool find_repetition() noexcept;
    void make_patch() noexcept;
    [[nodiscard]] std::size_t find_differing(const std::byte* base) noexcept;

    std::byte* memory_ = nullptr;
    std::size_t room_ = 0;  // behind the head
    std::size_t used_ = 0;
    std::size_t at_ = 0;     // where the entry under work begins
    std::size_t write_ = 0;  // and ends, so far
    CallEntry entry_;
    CallHistory history_;
    std::size_t back_ = 0;  // of the repetition that goes on, whose token lies at token_; 0: none
    std::size_t token_ = 0;
    std::uint64_t n_calls_ = 0;
    bool is_full_ = false;

    static constexpr std::size_t kBases = 64;
    static constexpr std::size_t kPatchedMax = 64;
    std::array<std::size_t, kBases> bases_{};  // by place in the program: where an entry lies that is whole, plus 1
    std::array<CallPatch::Number, kPatchedMax> differing_{};
};

// One entry, as it is read.
class RecordedCall {
public:
    // `entries`: the first of them.
    RecordedCall(const std::byte* entries, const std::byte* place);
    // The entry may lie in here.
    RecordedCall(const RecordedCall&) = delete;
    RecordedCall& operator=(const RecordedCall&) = delete;
    [[nodiscard]] const CallEntry& entry() const noexcept { return entry_; }
    [[nodiscard]] const std::byte* result() const noexcept { return place_ + sizeof(CallEntry); }
    [[nodiscard]] const std::byte* filled() const noexcept { return result() + padded(entry_.result_bytes); }
    template <class Visit>  // visit(address, from, bytes)
    void each_change(Visit&& visit) const {
        const std::byte* place = filled() + padded(entry_.filled_bytes);
        for (std::uint32_t i = 0; i < entry_.n_changes; ++i) {
            ChangeHead head;
            std::memcpy(&head, place, sizeof head);
            visit(static_cast<std::uintptr_t>(head.address), place + sizeof head, static_cast<std::size_t>(head.bytes));
            place += sizeof head + padded(head.bytes);
        }
    }

private:
    const std::byte* place_ = nullptr;
    CallEntry entry_;
    std::vector<std::byte> patched_;
};

// Goes through the entries; a copy looks ahead.
class StartupReader {
public:
    StartupReader() = default;
    StartupReader(const std::byte* memory, std::size_t bytes) noexcept;

    [[nodiscard]] StartupState state() const noexcept { return head_.state; }
    [[nodiscard]] bool is_exposed_unseen() const noexcept { return head_.exposed_unseen != 0; }
    [[nodiscard]] bool at_end() const noexcept { return place_ == nullptr; }
    [[nodiscard]] RecordedCall call() const {
        SFT_ASSERT(!at_end());
        return {entries_, place_};
    }
    void next() noexcept;
    // Entries that have been passed, and that there are.
    [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
    [[nodiscard]] std::uint64_t n_calls() const noexcept { return head_.n_calls; }
    [[nodiscard]] std::uint64_t used_bytes() const noexcept { return head_.used_bytes; }

private:
    void find() noexcept;

    StartupHead head_;
    const std::byte* entries_ = nullptr;
    std::size_t at_ = 0;  // of the entry or repetition that `place_` comes from
    const std::byte* place_ = nullptr;
    std::uint64_t repeated_ = 0;  // of the repetition at at_
    std::uint64_t position_ = 0;
    CallHistory history_;
};

}  // namespace sft
