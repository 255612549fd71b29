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

bool StartupWriter::equals(const std::byte* other) const noexcept {
    std::uint32_t bytes = 0;
    if (other == nullptr) {
        return false;
    }
    std::memcpy(&bytes, other, sizeof bytes);
    return bytes == entry_.bytes && std::memcmp(other, entries() + at_, bytes) == 0;
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
    if (back_ != 0 && equals(history_.at(back_))) {
        CallRepeat token;
        SFT_ASSERT(token_ + sizeof token <= used_);
        std::memcpy(static_cast<void*>(&token), entries() + token_, sizeof token);
        SFT_ASSERT(token.kind == CallKind::repeat && token.back == back_ && token.count != 0);
        ++token.count;
        std::memcpy(entries() + token_, &token, sizeof token);
        history_.add(history_.at(back_));
        return 0;
    }
    for (back_ = 1; back_ <= kBack && !equals(history_.at(back_)); ++back_) {
    }
    if (back_ > kBack) {
        back_ = 0;
        history_.add(entries() + at_);
        SFT_ASSERT(write_ > used_ && write_ <= room_);
        used_ = write_;
        return used_ - before;
    }
    CallRepeat token;
    token.back = static_cast<std::uint16_t>(back_);
    token.count = 1;
    token_ = at_;
    const std::byte* const same = history_.at(back_);
    SFT_ASSERT(same != nullptr);
    std::memcpy(entries() + at_, &token, sizeof token);
    history_.add(same);
    used_ = at_ + sizeof token;
    SFT_ASSERT(used_ > before && used_ <= room_);
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
