#include "transport/shm/control.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/faults/fault_points.hpp"
#include "base/report.hpp"

namespace sft {
namespace {

struct Layout {
    std::size_t slots, ready_words, contacts, lane_marks, meeting_points, rings, total;
};

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

Layout layout_of(std::int32_t n_pes, std::int32_t n_processes) {
    const auto pes = static_cast<std::size_t>(n_pes);
    Layout layout{};
    layout.slots = aligned(sizeof(ControlHeader));
    const auto slots = static_cast<std::size_t>(n_processes + kJoinSlots);
    layout.ready_words = aligned(layout.slots + slots * sizeof(ProcessSlot));
    layout.contacts = aligned(layout.ready_words + slots * sizeof(std::uint64_t));
    layout.lane_marks = aligned(layout.contacts + slots * sizeof(ContactSlot));
    layout.meeting_points = layout.lane_marks + pes * sizeof(LaneMarks);
    layout.rings = layout.meeting_points + ChannelMap::bytes_of_points(pes);
    layout.total = layout.rings + ChannelMap::bytes_of_rings(pes);
    SFT_ASSERT(layout.slots % 64 == 0 && layout.contacts % 64 == 0 && layout.lane_marks % 64 == 0);
    SFT_ASSERT(layout.meeting_points % 64 == 0 && layout.rings % 64 == 0);
    SFT_ASSERT(layout.ready_words % 64 == 0 && layout.ready_words - layout.slots >= slots * sizeof(ProcessSlot));
    SFT_ASSERT(layout.contacts - layout.ready_words >= slots * sizeof(std::uint64_t));
    SFT_ASSERT(layout.lane_marks - layout.contacts >= slots * sizeof(ContactSlot));
    SFT_ASSERT(layout.total > layout.rings && layout.rings > layout.meeting_points);
    return layout;
}

}  // namespace

ControlSegment::~ControlSegment() { detach(); }

Result<> ControlSegment::create(std::int32_t n_pes, std::int32_t n_processes) {
    SFT_ASSERT(header_ == nullptr && n_pes >= 1 && n_pes <= n_processes && n_processes <= kProcessesMax);
    const Layout layout = layout_of(n_pes, n_processes);
    fd_ = fails(FaultPoint::call_make_memory) ? -1 : ::memfd_create(kControlName, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd_ < 0 || ::ftruncate(fd_, static_cast<off_t>(layout.total)) != 0 ||
        ::fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        return fails(
            format("cannot create the control segment (%zu bytes): %s", layout.total, describe_error(errno).c_str()));
    }
    if (Result<> done = map(layout.total, PROT_READ | PROT_WRITE); !done) {
        return done;
    }
    // Everything else starts as zero, which every field takes for "nothing yet".
    header_->layout = kControlLayout;
    header_->n_pes = n_pes;
    header_->n_processes = n_processes;
    header_->n_nodes = 1;
    shape_ = {n_pes, n_processes, 0, 1};
    locate_parts();
    header_->magic = kControlMagic;
    return {};
}

Result<> ControlSegment::attach(std::int32_t pid, std::uint64_t start_time, int fd) {
    const Opening opening = open_descriptor_of(pid, start_time, fd);
    if (opening.reach != Reach::opened) {
        return fails(format("cannot open the control segment of the process with pid %d: %s", pid,
                            opening.reach == Reach::gone ? "it has ended" : describe_error(opening.error).c_str()));
    }
    fd_ = opening.fd;
    struct stat info {};
    if (::fstat(fd_, &info) != 0 || static_cast<std::size_t>(info.st_size) < sizeof(ControlHeader)) {
        return fails(format("the control segment of the process with pid %d has a wrong size", pid));
    }
    if (Result<> done = map(static_cast<std::size_t>(info.st_size), PROT_READ | PROT_WRITE); !done) {
        return done;
    }
    if (!take_shape()) {
        return fails(format("process %d runs another version of this library", pid));
    }
    locate_parts();
    return {};
}

Result<> ControlSegment::look(std::int32_t pid, int fd) {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    fd_ = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info {};
    if (fd_ < 0 || ::fstat(fd_, &info) != 0) {
        return fails(Error{Failure::gone, "is gone"});
    }
    // Pages of another kind of file, and of one that somebody shortens, end whoever reads them by SIGBUS.
    struct statfs system {};
    const int seals = ::fcntl(fd_, F_GET_SEALS);
    if (::fstatfs(fd_, &system) != 0 || system.f_type != TMPFS_MAGIC || seals < 0 || (seals & F_SEAL_SHRINK) == 0 ||
        static_cast<std::size_t>(info.st_size) < sizeof(ControlHeader)) {
        return fails("is no control segment of a job");
    }
    Result<> read = map(static_cast<std::size_t>(info.st_size), PROT_READ).then([this] { return take_shape(); });
    if (!read) {
        return read;
    }
    shape_.node = std::atomic_ref(header_->node).load(std::memory_order_relaxed);
    shape_.n_nodes = std::atomic_ref(header_->n_nodes).load(std::memory_order_relaxed);
    if (shape_.n_nodes < 0 || shape_.n_nodes > n_slots()) {
        return fails("is damaged, or belongs to another version of shmem-ft");
    }
    locate_parts();
    return {};
}

std::uint32_t ControlSegment::incarnation_of(PeId pe) const noexcept {
    std::uint32_t count = 0;
    for (std::int32_t process = 0; pe != kNoPe && process < n_slots(); ++process) {
        count += slot(ProcId(process)).taken_pe.load() == pe.value() + 1 ? 1U : 0U;
    }
    return count;
}

// The segment may be anybody's.
Result<> ControlSegment::take_shape() {
    if (header_->magic != kControlMagic) {
        return fails("is no control segment of a job");
    }
    if (header_->layout != kControlLayout) {
        return fails("belongs to another version of shmem-ft");
    }
    // Read once, not again when they are used.
    const std::int32_t n_pes = std::atomic_ref(header_->n_pes).load(std::memory_order_relaxed);
    const std::int32_t n_processes = std::atomic_ref(header_->n_processes).load(std::memory_order_relaxed);
    if (n_pes < 1 || n_pes > n_processes || n_processes > kProcessesMax ||
        layout_of(n_pes, n_processes).total != bytes_) {
        return fails("is damaged, or belongs to another version of shmem-ft");
    }
    shape_.n_pes = n_pes;
    shape_.n_processes = n_processes;
    return {};
}

const Contact* ControlSegment::contact(ProcId process) const noexcept {
    if (process.value() < 0 || process.value() >= n_slots()) {
        return nullptr;  // a number that came from another node
    }
    const ContactSlot& slot = contacts_[process.index()];
    return slot.is_written.load(std::memory_order_acquire) != 0 ? &slot.contact : nullptr;
}

void ControlSegment::set_contact(ProcId process, const Contact& contact) noexcept {
    SFT_ASSERT(process.value() >= 0 && process.value() < n_slots());
    SFT_ASSERT(contact.fabric_bytes <= kFabricAddressBytes && contact.node >= 0);
    ContactSlot& slot = contacts_[process.index()];
    if (slot.is_written.load(std::memory_order_acquire) == 0) {
        slot.contact = contact;
        slot.is_written.store(1, std::memory_order_release);
    }
}

void ProcessSlot::note_death(FailureReason reason, std::int64_t seen_ns) noexcept {
    SFT_ASSERT(seen_ns > 0);  // 0: nobody has seen it
    std::int64_t never = 0;
    death_seen_ns.compare_exchange_strong(never, seen_ns);
    std::uint32_t known = 0;
    const auto mine = static_cast<std::uint32_t>(reason.status());
    SFT_ASSERT(mine != 0);  // 0: nobody knows of it
    const auto says_little = static_cast<std::uint32_t>(FailureReason{FailureKind::died, 0}.status());
    while ((known == 0 || known == says_little) && !death.compare_exchange_weak(known, mine)) {
    }
}

Result<> ControlSegment::map(std::size_t bytes, int protection) {
    void* address =
        fails(FaultPoint::call_map_memory) ? MAP_FAILED : ::mmap(nullptr, bytes, protection, MAP_SHARED, fd_, 0);
    if (address == MAP_FAILED) {
        return fails(format("cannot map the control segment (%zu bytes): %s", bytes, describe_error(errno).c_str()));
    }
    // A child made by fork() has no business here, and in a core dump it would be a lot of nothing.
    ::madvise(address, bytes, MADV_DONTFORK);
    ::madvise(address, bytes, MADV_DONTDUMP);
    header_ = static_cast<ControlHeader*>(address);
    bytes_ = bytes;
    return {};
}

void ControlSegment::locate_parts() noexcept {
    const Layout layout = layout_of(shape_.n_pes, shape_.n_processes);
    SFT_ASSERT(layout.total == bytes_);
    SFT_ASSERT(reinterpret_cast<std::uintptr_t>(header_) % alignof(ControlHeader) == 0);
    auto* base = reinterpret_cast<std::byte*>(header_);
    slots_ = reinterpret_cast<ProcessSlot*>(base + layout.slots);
    ready_words_ = reinterpret_cast<std::atomic<std::uint64_t>*>(base + layout.ready_words);
    contacts_ = reinterpret_cast<ContactSlot*>(base + layout.contacts);
    lane_marks_ = reinterpret_cast<LaneMarks*>(base + layout.lane_marks);
    meeting_points_ = reinterpret_cast<MeetingPoint*>(base + layout.meeting_points);
    rings_ = reinterpret_cast<ChannelRing*>(base + layout.rings);
}

void ControlSegment::detach() noexcept {
    if (header_ != nullptr) {
        ::munmap(header_, bytes_);
        header_ = nullptr;
    }
    if (fd_ >= 0) {
        ::close(fd_);
        fd_ = -1;
    }
}

}  // namespace sft
