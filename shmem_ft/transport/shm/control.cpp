#include "shmem_ft/transport/shm/control.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "shmem_ft/base/report.hpp"

namespace sft {
namespace {

struct Layout {
    std::size_t slots, rings, total;
};

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

Layout layout_of(std::int32_t n_pes, std::int32_t n_processes) {
    const auto pes = static_cast<std::size_t>(n_pes);
    Layout layout{};
    layout.slots = aligned(sizeof(ControlHeader));
    layout.rings = aligned(layout.slots + static_cast<std::size_t>(n_processes + kJoinSlots) * sizeof(ProcessSlot));
    layout.total = layout.rings + pes * pes * sizeof(ChannelRing);
    return layout;
}

}  // namespace

int open_descriptor_of(std::int32_t pid, int fd) noexcept {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    return ::open(path, O_RDWR | O_CLOEXEC);
}

ControlSegment::~ControlSegment() { detach(); }

bool ControlSegment::create(std::int32_t n_pes, std::int32_t n_processes, std::string& error) {
    const Layout layout = layout_of(n_pes, n_processes);
    fd_ = ::memfd_create("shmem-ft-control", MFD_CLOEXEC);
    if (fd_ < 0 || ::ftruncate(fd_, static_cast<off_t>(layout.total)) != 0) {
        error = format("cannot create the control segment (%zu bytes): %s", layout.total, std::strerror(errno));
        return false;
    }
    if (!map(layout.total, error)) {
        return false;
    }
    // Everything else starts as zero, which every field takes for "nothing yet".
    header_->n_pes = n_pes;
    header_->n_processes = n_processes;
    locate_parts();
    header_->magic = kControlMagic;
    return true;
}

bool ControlSegment::attach(std::int32_t pid, int fd, std::string& error) {
    fd_ = open_descriptor_of(pid, fd);
    struct stat info {};
    if (fd_ < 0 || ::fstat(fd_, &info) != 0) {
        error = format("cannot open the control segment of process %d: %s", pid, std::strerror(errno));
        return false;
    }
    if (static_cast<std::size_t>(info.st_size) < sizeof(ControlHeader) ||
        !map(static_cast<std::size_t>(info.st_size), error)) {
        error = format("the control segment of process %d has a wrong size", pid);
        return false;
    }
    if (header_->magic != kControlMagic ||
        layout_of(header_->n_pes, header_->n_processes).total != static_cast<std::size_t>(info.st_size)) {
        error = format("process %d runs another version of this library", pid);
        return false;
    }
    locate_parts();
    return true;
}

bool ControlSegment::map(std::size_t bytes, std::string& error) {
    void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (address == MAP_FAILED) {
        error = format("cannot map the control segment (%zu bytes): %s", bytes, std::strerror(errno));
        return false;
    }
    // A child made by fork() has no business here.
    ::madvise(address, bytes, MADV_DONTFORK);
    header_ = static_cast<ControlHeader*>(address);
    bytes_ = bytes;
    return true;
}

void ControlSegment::locate_parts() noexcept {
    const Layout layout = layout_of(header_->n_pes, header_->n_processes);
    auto* base = reinterpret_cast<std::byte*>(header_);
    slots_ = reinterpret_cast<ProcessSlot*>(base + layout.slots);
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
