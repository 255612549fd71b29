// Frames over a TCP connection that never makes anybody wait: what has no room is kept, what has not come whole is
// waited for.
//
// A frame is a head, which says of what kind it is and how long, and that many bytes. The length is checked before
// anything is kept for it, so a stranger costs one buffer of a bounded size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace sft {

enum class FrameKind : std::uint32_t {
    hello = 1,  // who connects, and the secret; number: of the first message that it can still send
    welcome,    // the answer, likewise; number: of the last message that has been received
    message,    // number: its place in the order of all messages from this sender, from 1
    received,   // number: of the last message that has been taken
    goodbye,    // this process leaves because the job is over; number: how
};

struct StreamHead {
    FrameKind kind{};
    std::uint32_t bytes = 0;  // that follow
    std::uint64_t number = 0;
};
static_assert(sizeof(StreamHead) == 16 && std::is_trivially_copyable_v<StreamHead>);
static_assert(std::has_unique_object_representations_v<StreamHead>);
static_assert(offsetof(StreamHead, bytes) == 4 && offsetof(StreamHead, number) == 8);

class FrameStream {
public:
    FrameStream() = default;
    FrameStream(int fd, std::size_t bytes_max) : fd_(fd), bytes_max_(bytes_max) {}

    [[nodiscard]] int fd() const noexcept { return fd_; }
    // The owner closes.
    [[nodiscard]] int release() noexcept;
    void allow(std::size_t bytes_max) noexcept { bytes_max_ = bytes_max; }

    void append(FrameKind kind, std::uint64_t number, std::span<const std::byte> payload);
    [[nodiscard]] std::size_t n_unwritten() const noexcept { return out_.size() - out_begin_; }
    // False: the connection is broken.
    [[nodiscard]] bool write_some() noexcept;

    // Takes in what is there, one portion at most. False: the connection has ended or is broken. What has come before
    // is still to be taken out.
    [[nodiscard]] bool read_some();
    struct Frame {
        StreamHead head;
        std::span<const std::byte> payload;  // good until the next call of anything here
    };
    enum class Next { frame, none, oversize };
    [[nodiscard]] Next next(Frame& frame) noexcept;

private:
    int fd_ = -1;
    std::size_t bytes_max_ = 0;  // of one payload
    std::vector<std::byte> out_;
    std::size_t out_begin_ = 0;
    std::vector<std::byte> in_;
    std::size_t in_begin_ = 0;
    std::size_t in_end_ = 0;
};

}  // namespace sft
