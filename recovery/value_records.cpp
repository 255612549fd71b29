#include "recovery/value_records.hpp"

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "base/assert.hpp"
#include "base/checksum.hpp"
#include "base/pages.hpp"
#include "recovery/membership/message.hpp"

namespace sft {
namespace {

struct RecordHead {
    std::uint64_t bytes;     // 0: nothing, or not all of it yet
    std::uint64_t checksum;  // of them
};
static_assert(sizeof(RecordHead) == 16);

constexpr std::size_t kPlaces = 2;
constexpr std::size_t kPlaceBytes = whole_pages(sizeof(RecordHead) + kMessageBytesMax);

std::size_t begin_of(ProcId process, std::size_t place) {
    SFT_ASSERT(process.value() >= 0 && place < kPlaces);
    return (process.index() * kPlaces + place) * kPlaceBytes;
}

std::optional<JobState> read(int fd, std::size_t offset, ProcId process, std::size_t place) {
    std::vector<std::byte> found(kPlaceBytes);
    const auto at = static_cast<off_t>(offset + begin_of(process, place));
    if (::pread(fd, found.data(), found.size(), at) != static_cast<ssize_t>(found.size())) {
        return std::nullopt;
    }
    RecordHead head{};
    std::memcpy(&head, found.data(), sizeof head);
    const std::byte* const bytes = found.data() + sizeof head;
    if (head.bytes == 0 || head.bytes > kMessageBytesMax || checksum(bytes, head.bytes) != head.checksum) {
        return std::nullopt;
    }
    const std::optional<Message> message = decode({bytes, head.bytes});
    return message && message->state ? message->state : std::nullopt;
}

void look_at(int fd, std::size_t offset, ProcId process, std::optional<JobState>& latest) {
    for (std::size_t place = 0; place < kPlaces; ++place) {
        std::optional<JobState> found = read(fd, offset, process, place);
        if (found && (!latest || found->index > latest->index)) {
            latest = std::move(found);
        }
    }
}

}  // namespace

std::size_t ValueRecords::bytes_for(std::int32_t n_slots) noexcept {
    SFT_ASSERT(n_slots > 0);
    return static_cast<std::size_t>(n_slots) * kPlaces * kPlaceBytes;
}

Result<> ValueRecords::open(int fd, std::size_t offset, std::int32_t n_slots, ProcId self) {
    SFT_ASSERT(fd >= 0 && offset % kPageBytes == 0 && self.value() >= 0 && self.value() < n_slots);
    fd_ = fd;
    offset_ = offset;
    n_slots_ = n_slots;
    return own_.reserve(kPlaces * kPlaceBytes).then([&] { return own_.show(fd, offset + begin_of(self, 0)); });
}

void ValueRecords::write(const JobState& value) noexcept {
    SFT_ASSERT(is_open());
    Message message;
    message.kind = MessageKind::decide;
    message.index = value.index;
    message.state = value;
    const std::vector<std::byte> bytes = encode(message);
    SFT_ASSERT(bytes.size() <= kMessageBytesMax);
    std::byte* const place = own_.address() + next_place_ * kPlaceBytes;
    auto* const head = reinterpret_cast<RecordHead*>(place);
    std::atomic_ref(head->bytes).store(0, std::memory_order_release);
    std::memcpy(place + sizeof(RecordHead), bytes.data(), bytes.size());
    head->checksum = checksum(bytes.data(), bytes.size());
    std::atomic_ref(head->bytes).store(bytes.size(), std::memory_order_release);
    next_place_ = (next_place_ + 1) % kPlaces;
}

std::optional<JobState> ValueRecords::latest(std::span<const Death> dead) const {
    SFT_ASSERT(is_open());
    std::optional<JobState> latest;
    for (const Death& death : dead) {
        SFT_ASSERT(death.process.value() < n_slots_);
        look_at(fd_, offset_, death.process, latest);
    }
    return latest;
}

std::optional<JobState> ValueRecords::latest(int fd, std::size_t offset, std::int32_t n_slots) {
    std::optional<JobState> latest;
    for (std::int32_t process = 0; process < n_slots; ++process) {
        look_at(fd, offset, ProcId(process), latest);
    }
    return latest;
}

}  // namespace sft
