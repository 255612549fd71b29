#include "symheap/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/assert.hpp"
#include "base/faults/fault_points.hpp"
#include "base/pages.hpp"
#include "base/process_watch.hpp"
#include "base/raw_memory.hpp"
#include "base/report.hpp"
#include "symheap/existing_pages.hpp"

namespace sft {
namespace {

Result<> reserve_addresses(std::size_t bytes, void*& address) {
    void* mapped = fails(FaultPoint::call_map_memory)
                       ? MAP_FAILED
                       : ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
        return fails(format("cannot reserve %zu bytes of addresses: %s", bytes, describe_error(errno).c_str()), errno);
    }
    address = mapped;
    return {};
}

Result<> show_at(void* address, std::size_t bytes, int fd, std::size_t offset) {
    SFT_ASSERT(address != nullptr && fd >= 0 && offset % kPageBytes == 0);
    void* mapped = fails(FaultPoint::call_map_memory)
                       ? MAP_FAILED
                       : ::mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd,
                                static_cast<off_t>(offset));
    if (mapped == MAP_FAILED) {
        return fails(format("cannot map %zu bytes of another process: %s", bytes, describe_error(errno).c_str()),
                     errno);
    }
    // A child made by fork() must not reach into other PEs.
    ::madvise(address, bytes, MADV_DONTFORK);
    return {};
}

}  // namespace

Segment::~Segment() { release(); }

Segment::Segment(Segment&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      address_(std::exchange(other.address_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      offset_(std::exchange(other.offset_, 0)) {}

Segment& Segment::operator=(Segment&& other) noexcept {
    if (this != &other) {
        release();
        fd_ = std::exchange(other.fd_, -1);
        address_ = std::exchange(other.address_, nullptr);
        bytes_ = std::exchange(other.bytes_, 0);
        offset_ = std::exchange(other.offset_, 0);
    }
    return *this;
}

Result<> Segment::create(const char* name, std::size_t bytes) {
    SFT_ASSERT(fd_ < 0 && address_ == nullptr);  // what it had would be lost
    SFT_ASSERT(bytes > 0);
    fd_ = fails(FaultPoint::call_make_memory) ? -1 : ::memfd_create(name, MFD_CLOEXEC);
    if (fd_ < 0 || ::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) {
        return fails(format("cannot create %zu bytes of shared memory (%s): %s", bytes, name,
                            describe_error(errno).c_str()),
                     errno);
    }
    bytes_ = bytes;
    return {};
}

Result<> Segment::open(std::int32_t pid, std::uint64_t start_time, int fd, std::size_t bytes) {
    SFT_ASSERT(fd_ < 0 && address_ == nullptr && bytes > 0);
    const Opening opening = open_descriptor_of(pid, start_time, fd);
    if (opening.reach != Reach::opened) {
        const bool is_gone = opening.reach == Reach::gone;
        return fails({is_gone ? Failure::gone : Failure::cannot_be_opened,
                      is_gone ? "it is gone" : describe_error(opening.error), opening.error});
    }
    fd_ = opening.fd;
    bytes_ = bytes;
    return {};
}

Result<> Segment::map_at(void* address) {
    SFT_ASSERT(fd_ >= 0 && address_ == nullptr && bytes_ > 0);
    const int fixed = address == nullptr ? 0 : MAP_FIXED_NOREPLACE;
    void* mapped = fails(FaultPoint::call_map_memory)
                       ? MAP_FAILED
                       : ::mmap(address, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | fixed, fd_,
                                static_cast<off_t>(offset_));
    if (mapped == MAP_FAILED || (address != nullptr && mapped != address)) {
        const int number = mapped == MAP_FAILED ? errno : 0;
        if (mapped != MAP_FAILED) {
            ::munmap(mapped, bytes_);
        }
        return fails(format("cannot map %zu bytes of shared memory at %p: %s", bytes_, address,
                            number != 0 ? describe_error(number).c_str() : "the address is taken"),
                     number);
    }
    address_ = mapped;
    return {};
}

Result<> Segment::map_over(void* address) {
    SFT_ASSERT(fd_ >= 0 && address_ == nullptr && bytes_ > 0);
    SFT_ASSERT(address != nullptr &&
               reinterpret_cast<std::uintptr_t>(address) % kPageBytes == 0);  // what is there goes
    void* mapped =
        fails(FaultPoint::call_map_memory)
            ? MAP_FAILED
            : ::mmap(address, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_, static_cast<off_t>(offset_));
    if (mapped == MAP_FAILED) {
        return fails(format("cannot map shared memory over %p: %s", address, describe_error(errno).c_str()), errno);
    }
    address_ = mapped;
    return {};
}

// Holes stay holes. Not by pwrite(): a sanitizer finds the gaps between globals in what a call is given.
Result<> Segment::copy_into(int file, std::size_t offset) const {
    void* const copy = fails(FaultPoint::call_map_memory) ? MAP_FAILED
                                                          : ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED,
                                                                   file, static_cast<off_t>(offset));
    if (copy == MAP_FAILED) {
        return fails(format("cannot map %zu bytes of shared memory: %s", bytes_, describe_error(errno).c_str()), errno);
    }
    each_existing(fd_, offset_, bytes_, [&](std::size_t begin, std::size_t end) {
        raw_copy(static_cast<std::byte*>(copy) + begin, static_cast<const std::byte*>(address_) + begin, end - begin);
    });
    ::munmap(copy, bytes_);
    return {};
}

Result<> Segment::move_to(int file, std::size_t offset, Contents contents) {
    SFT_ASSERT(fd_ >= 0 && address_ != nullptr && offset % kPageBytes == 0);
    if (contents == Contents::copied) {
        if (Result<> copied = copy_into(file, offset); !copied) {
            return copied;
        }
    }
    if (::dup3(file, fd_, O_CLOEXEC) < 0) {
        return fails(format("cannot have another descriptor of shared memory: %s", describe_error(errno).c_str()),
                     errno);
    }
    offset_ = offset;
    return map_over(std::exchange(address_, nullptr));
}

void Segment::release() noexcept {
    if (address_ != nullptr) {
        ::munmap(address_, bytes_);
        address_ = nullptr;
    }
    if (fd_ >= 0) {
        ::close(fd_);
        fd_ = -1;
    }
}

Window::~Window() { release(); }

Window::Window(Window&& other) noexcept
    : address_(std::exchange(other.address_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Result<> Window::reserve(std::size_t bytes) {
    SFT_ASSERT(address_ == nullptr && bytes > 0);  // addresses that were given out stay
    return reserve_addresses(bytes, address_).then([&] {
        bytes_ = bytes;
        return Result<>();
    });
}

Result<> Window::show(int fd, std::size_t offset) { return show_at(address_, bytes_, fd, offset); }

void Window::release() noexcept {
    if (address_ != nullptr) {
        ::munmap(address_, bytes_);
        address_ = nullptr;
    }
}

WindowRow::~WindowRow() {
    if (address_ != nullptr) {
        ::munmap(address_, count_ * bytes_);
    }
}

Result<> WindowRow::reserve(std::size_t count, std::size_t bytes) {
    SFT_ASSERT(address_ == nullptr && count > 0 && bytes > 0 && bytes % kPageBytes == 0);
    return reserve_addresses(count * bytes, address_).then([&] {
        count_ = count;
        bytes_ = bytes;
        return Result<>();
    });
}

Result<> WindowRow::show(std::size_t number, int fd, std::size_t offset) {
    return show_at(address(number), bytes_, fd, offset);
}

Result<> WindowRow::show_all(int fd, std::size_t offset) { return show_at(address_, count_ * bytes_, fd, offset); }

std::byte* WindowRow::address(std::size_t number) const noexcept {
    SFT_ASSERT(address_ != nullptr && number < count_);
    return static_cast<std::byte*>(address_) + number * bytes_;
}

}  // namespace sft
