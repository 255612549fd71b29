// A piece of memory that the processes of a node share: an unnamed memory file and its mapping here.
//
// Ownership: the process that created the file owns it; others map it through /proc/PID/fd/FD. The memory lives as
// long as anybody has it open or mapped, so a mapping of a dead process's memory stays harmless.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/pages.hpp"
#include "base/result.hpp"

namespace sft {

class Segment {
public:
    Segment() = default;
    ~Segment();
    Segment(const Segment&) = delete;
    Segment& operator=(const Segment&) = delete;
    Segment(Segment&& other) noexcept;
    Segment& operator=(Segment&& other) noexcept;

    // Creates a file of that size; pages never touched cost nothing. Not mapped yet.
    [[nodiscard]] Result<> create(const char* name, std::size_t bytes);
    // Opens the file that the process with that pid and start time has open as `fd`. The failure says no more than what
    // the system says.
    [[nodiscard]] Result<> open(std::int32_t pid, std::uint64_t start_time, int fd, std::size_t bytes);
    // Maps the file at `address` (which must be free, or null: anywhere).
    [[nodiscard]] Result<> map_at(void* address);
    // Maps the file over whatever is mapped at `address` now, in one step.
    [[nodiscard]] Result<> map_over(void* address);
    // From now on that is bytes() of `file`, from `offset` on: fd() is another descriptor of it, with the same number
    // as before, and it is mapped where the old file was. What the old file had is lost, unless `copies`: then what
    // exists of it is in `file` before. REQUIRES: it is mapped.
    enum class Contents : bool { lost, copied };
    [[nodiscard]] Result<> move_to(int file, std::size_t offset, Contents contents);
    // Leaves the mapping in place without owning it any more.
    void forget_mapping() noexcept { address_ = nullptr; }
    void release() noexcept;

    [[nodiscard]] int fd() const noexcept { return fd_; }
    [[nodiscard]] std::byte* address() const noexcept { return static_cast<std::byte*>(address_); }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
    // Where it begins in the file.
    [[nodiscard]] std::size_t offset() const noexcept { return offset_; }

private:
    [[nodiscard]] Result<> copy_into(int file, std::size_t offset) const;

    int fd_ = -1;
    void* address_ = nullptr;
    std::size_t bytes_ = 0;
    std::size_t offset_ = 0;
};

// A reserved range of addresses into which the memory of another process is mapped; the range stays the same when
// the process behind it changes, so addresses given out by shmem_ptr stay valid.
class Window {
public:
    Window() = default;
    ~Window();
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;
    Window(Window&& other) noexcept;
    Window& operator=(Window&&) = delete;

    [[nodiscard]] Result<> reserve(std::size_t bytes);
    // Maps the first bytes() of `fd` (from file offset `offset`) into the window, replacing what was there.
    [[nodiscard]] Result<> show(int fd, std::size_t offset);
    void release() noexcept;

    [[nodiscard]] std::byte* address() const noexcept { return static_cast<std::byte*>(address_); }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

private:
    void* address_ = nullptr;
    std::size_t bytes_ = 0;
};

// Windows of one size, one behind the other: one reservation, and one mapping where what they show lies one behind the
// other in one file.
class WindowRow {
public:
    WindowRow() = default;
    ~WindowRow();
    WindowRow(const WindowRow&) = delete;
    WindowRow& operator=(const WindowRow&) = delete;

    // bytes: a multiple of the page size.
    [[nodiscard]] Result<> reserve(std::size_t count, std::size_t bytes);
    // As Window::show().
    [[nodiscard]] Result<> show(std::size_t number, int fd, std::size_t offset);
    // All of them: the first one shows what begins at `offset`, the next one what follows.
    [[nodiscard]] Result<> show_all(int fd, std::size_t offset);

    // Of one window each.
    [[nodiscard]] std::byte* address(std::size_t number) const noexcept;
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

private:
    void* address_ = nullptr;
    std::size_t count_ = 0;
    std::size_t bytes_ = 0;
};

}  // namespace sft
