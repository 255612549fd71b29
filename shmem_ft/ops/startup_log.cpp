#include "shmem_ft/ops/startup_log.hpp"

#include <algorithm>

namespace sft {
namespace {

constexpr std::uint64_t kMagic = 0x3170757472617473;  // "startup1"

}  // namespace

// ---- writing ----

StartupWriter::StartupWriter(std::byte* memory, std::size_t bytes) noexcept
    : memory_(memory), room_(bytes - sizeof(StartupHead)) {
    SFT_ASSERT(bytes >= sizeof(StartupHead) && reinterpret_cast<std::uintptr_t>(memory) % 8 == 0);
    close(StartupState::recording, false);
}

void StartupWriter::append(const void* from, std::size_t bytes) noexcept {
    if (is_full_ || bytes > room_ - write_) {
        is_full_ = true;
        return;
    }
    SFT_ASSERT(write_ <= room_ && at_ <= write_);
    if (bytes != 0) {  // from may be null then, which memcpy does not take
        std::memcpy(entries() + write_, from, bytes);
        write_ += bytes;
    }
}

void StartupWriter::pad() noexcept {
    constexpr std::uint64_t kZeros = 0;
    append(&kZeros, padded(write_) - write_);
}

// A repetition that goes on has its token in front of the entry under work, which is given up if it equals the next one
// of the repetition. An entry that begins one is written over by the token.
void StartupWriter::begin(const CallEntry& entry) noexcept {
    SFT_ASSERT(used_ % 8 == 0 && used_ <= room_);
    at_ = write_ = used_;
    entry_ = entry;
    append(&entry_, sizeof entry_);
}

void StartupWriter::result(const void* value, std::size_t bytes) noexcept {
    SFT_ASSERT(bytes <= UINT16_MAX);
    SFT_ASSERT(is_full_ || write_ == at_ + sizeof entry_);
    entry_.result_bytes = static_cast<std::uint16_t>(bytes);
    append(value, bytes);
    pad();
}

void StartupWriter::filled(const void* from, std::size_t bytes) noexcept {
    if (bytes > UINT32_MAX - entry_.filled_bytes) {
        is_full_ = true;
        return;
    }
    entry_.filled_bytes += static_cast<std::uint32_t>(bytes);
    append(from, bytes);
}

void StartupWriter::change(std::uintptr_t address, std::size_t bytes) noexcept {
    if (entry_.n_changes++ == 0) {
        pad();  // behind what was filled
    }
    const ChangeHead head{address, bytes};
    append(&head, sizeof head);
    append(reinterpret_cast<const void*>(address), bytes);
    pad();
}

// The entry under work, whole or as a patch.
bool StartupWriter::equals(const std::byte* other) const noexcept {
    std::uint32_t bytes = 0;
    if (other == nullptr) {
        return false;
    }
    std::memcpy(&bytes, other, sizeof bytes);
    return bytes == write_ - at_ && std::memcmp(other, entries() + at_, bytes) == 0;
}

// Whether the repetition that goes on goes on with this entry.
bool StartupWriter::ends_as_repetition() noexcept {
    if (back_ == 0 || !equals(history_.at(back_))) {
        return false;
    }
    CallRepeat token;
    SFT_ASSERT(token_ + sizeof token <= used_);
    std::memcpy(static_cast<void*>(&token), entries() + token_, sizeof token);
    SFT_ASSERT(token.kind == CallKind::repeat && token.back == back_ && token.count != 0);
    ++token.count;
    std::memcpy(entries() + token_, &token, sizeof token);
    history_.add(history_.at(back_));
    return true;
}

// Whether one begins with it.
bool StartupWriter::find_repetition() noexcept {
    std::size_t back = 1;
    while (back <= kBack && !equals(history_.at(back))) {
        ++back;
    }
    if (back > kBack) {
        return false;
    }
    back_ = back;
    CallRepeat token;
    token.back = static_cast<std::uint16_t>(back_);
    token.count = 1;
    token_ = at_;
    const std::byte* const same = history_.at(back_);
    SFT_ASSERT(same != nullptr);
    std::memcpy(entries() + at_, &token, sizeof token);
    history_.add(same);
    used_ = at_ + sizeof token;
    SFT_ASSERT(used_ <= room_);
    return true;
}

// The words in which the entry under work differs from another one of its length, into differing_. More than
// kPatchedMax: too many, or a patch would not be shorter.
std::size_t StartupWriter::find_differing(const std::byte* base) noexcept {
    constexpr std::size_t kStep = 64;
    const std::byte* const own = entries() + at_;
    std::size_t n = 0;
    for (std::size_t begin = 0; begin < entry_.bytes; begin += kStep) {
        const std::size_t end = std::min<std::size_t>(begin + kStep, entry_.bytes);
        if (std::memcmp(base + begin, own + begin, end - begin) == 0) {
            continue;
        }
        for (std::size_t at = begin; at < end; at += sizeof(std::uint64_t)) {
            if (std::memcmp(base + at, own + at, sizeof(std::uint64_t)) == 0) {
                continue;
            }
            if (n == kPatchedMax || CallPatch::bytes_for(n + 1) >= entry_.bytes) {
                return kPatchedMax + 1;
            }
            differing_[n++] = static_cast<CallPatch::Number>(at / sizeof(std::uint64_t));
        }
    }
    return n;
}

// Writes a patch over the entry under work, if there is one of the same place that has nearly the same words.
void StartupWriter::make_patch() noexcept {
    std::size_t& known = bases_[(entry_.key.site ^ entry_.key.site >> 6U) % kBases];
    const std::size_t base = known - 1;
    std::uint32_t bytes = 0;
    std::size_t n = kPatchedMax + 1;
    if (known != 0) {
        std::memcpy(&bytes, entries() + base, sizeof bytes);
        n = bytes == entry_.bytes ? find_differing(entries() + base) : n;
    }
    if (n > kPatchedMax) {
        known = at_ + 1;
        return;
    }
    std::array<std::uint64_t, kPatchedMax> words;
    for (std::size_t i = 0; i < n; ++i) {
        std::memcpy(&words[i], entries() + at_ + differing_[i] * sizeof words[i], sizeof words[i]);
    }
    CallPatch patch;
    patch.bytes = static_cast<std::uint32_t>(CallPatch::bytes_for(n));
    patch.n_words = static_cast<std::uint16_t>(n);
    patch.base = base;
    write_ = at_;
    append(&patch, sizeof patch);
    append(differing_.data(), n * sizeof differing_[0]);
    pad();
    append(words.data(), n * sizeof words[0]);
    SFT_ASSERT(write_ - at_ == patch.bytes && patch.bytes < entry_.bytes);
}

std::size_t StartupWriter::end() noexcept {
    pad();
    if (is_full_ || write_ - at_ > UINT32_MAX) {
        is_full_ = true;
        return 0;
    }
    SFT_ASSERT(write_ % 8 == 0 && write_ - at_ >= sizeof entry_);
    entry_.bytes = static_cast<std::uint32_t>(write_ - at_);
    std::memcpy(entries() + at_, &entry_, sizeof entry_);
    ++n_calls_;
    const std::size_t before = used_;
    if (ends_as_repetition() || find_repetition()) {
        return used_ - before;
    }
    make_patch();
    if (write_ - at_ != entry_.bytes && (ends_as_repetition() || find_repetition())) {
        return used_ - before;
    }
    back_ = 0;
    history_.add(entries() + at_);
    SFT_ASSERT(write_ > used_ && write_ <= room_);
    used_ = write_;
    return used_ - before;
}

void StartupWriter::close(StartupState state, bool is_exposed_unseen) noexcept {
    StartupHead head;
    head.magic = kMagic;
    head.state = state;
    head.exposed_unseen = is_exposed_unseen ? 1 : 0;
    if (state == StartupState::recording || state == StartupState::complete) {
        SFT_ASSERT(used_ % 8 == 0 && used_ <= room_);
        head.used_bytes = used_;
        head.n_calls = n_calls_;
    }
    std::memcpy(static_cast<void*>(memory_), &head, sizeof head);
}

// ---- reading ----

RecordedCall::RecordedCall(const std::byte* entries, const std::byte* place) : place_(place) {
    CallPatch patch;
    std::memcpy(static_cast<void*>(&patch), place, sizeof patch);
    if (patch.kind == CallKind::patch) {
        const std::byte* const base = entries + patch.base;
        std::uint32_t bytes = 0;
        std::memcpy(&bytes, base, sizeof bytes);
        patched_.assign(base, base + bytes);
        const std::byte* const numbers = place + sizeof patch;
        const std::byte* const words = numbers + padded(patch.n_words * sizeof(CallPatch::Number));
        for (std::size_t i = 0; i < patch.n_words; ++i) {
            CallPatch::Number number = 0;
            std::memcpy(&number, numbers + i * sizeof number, sizeof number);
            SFT_ASSERT((number + std::size_t{1}) * sizeof(std::uint64_t) <= bytes);
            std::memcpy(patched_.data() + number * sizeof(std::uint64_t), words + i * sizeof(std::uint64_t),
                        sizeof(std::uint64_t));
        }
        place_ = patched_.data();
    }
    std::memcpy(static_cast<void*>(&entry_), place_, sizeof entry_);
    SFT_ASSERT(entry_.kind != CallKind::repeat && entry_.kind != CallKind::patch);
}

StartupReader::StartupReader(const std::byte* memory, std::size_t bytes) noexcept
    : entries_(memory + sizeof(StartupHead)) {
    std::memcpy(static_cast<void*>(&head_), memory, sizeof head_);
    if (head_.magic != kMagic || head_.used_bytes > bytes - sizeof head_) {
        head_ = StartupHead{};
    }
    find();
}

void StartupReader::find() noexcept {
    place_ = nullptr;
    if (at_ >= head_.used_bytes) {
        return;
    }
    CallRepeat token;
    std::memcpy(static_cast<void*>(&token), entries_ + at_, sizeof token);
    place_ = token.kind == CallKind::repeat ? history_.at(token.back) : entries_ + at_;
}

void StartupReader::next() noexcept {
    SFT_ASSERT(!at_end());
    history_.add(place_);
    ++position_;
    CallRepeat token;
    std::memcpy(static_cast<void*>(&token), entries_ + at_, sizeof token);
    if (token.kind != CallKind::repeat || ++repeated_ == token.count) {
        at_ += token.bytes;
        repeated_ = 0;
    }
    find();
}

}  // namespace sft
