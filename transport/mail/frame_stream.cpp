#include "transport/mail/frame_stream.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/faults/fault_points.hpp"

namespace sft {
namespace {

constexpr std::size_t kPortion = 16 * 1024;

}  // namespace

int FrameStream::release() noexcept {
    out_.clear();
    in_.clear();
    out_begin_ = in_begin_ = in_end_ = 0;
    return std::exchange(fd_, -1);
}

void FrameStream::append(FrameKind kind, std::uint64_t number, std::span<const std::byte> payload) {
    SFT_ASSERT(fd_ >= 0 && payload.size() <= UINT32_MAX);
    SFT_ASSERT(out_begin_ <= out_.size());
    if (out_begin_ == out_.size()) {
        out_.clear();
        out_begin_ = 0;
    }
    const StreamHead head{.kind = kind, .bytes = static_cast<std::uint32_t>(payload.size()), .number = number};
    const std::span<const std::byte> head_bytes = std::as_bytes(std::span(&head, 1));
    out_.insert(out_.end(), head_bytes.begin(), head_bytes.end());
    out_.insert(out_.end(), payload.begin(), payload.end());
}

bool FrameStream::write_some() noexcept {
    SFT_ASSERT(out_begin_ <= out_.size());
    while (n_unwritten() != 0) {
        const ssize_t bytes = fails(FaultPoint::call_send)
                                  ? -1
                                  : ::send(fd_, out_.data() + out_begin_, n_unwritten(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (bytes < 0 && errno == EINTR) {
            continue;
        }
        if (bytes < 0) {
            return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM;
        }
        SFT_ASSERT(static_cast<std::size_t>(bytes) <= n_unwritten());
        out_begin_ += static_cast<std::size_t>(bytes);
    }
    return true;
}

bool FrameStream::read_some() {
    SFT_ASSERT(fd_ >= 0 && in_begin_ <= in_end_ && in_end_ <= in_.size());
    if (in_begin_ == in_end_) {
        in_begin_ = in_end_ = 0;
    }
    if (in_.size() - in_end_ < kPortion) {
        std::copy(in_.begin() + static_cast<std::ptrdiff_t>(in_begin_),
                  in_.begin() + static_cast<std::ptrdiff_t>(in_end_), in_.begin());
        in_end_ -= std::exchange(in_begin_, 0);
        // next() has taken out every whole frame, so what is left is less than the largest one.
        in_.resize(std::max(in_.size(), in_end_ + kPortion));
    }
    SFT_ASSERT(in_.size() - in_end_ >= kPortion);
    for (;;) {
        const ssize_t bytes = fails(FaultPoint::call_receive)
                                  ? -1
                                  : ::recv(fd_, in_.data() + in_end_, in_.size() - in_end_, MSG_DONTWAIT);
        if (bytes < 0 && errno == EINTR) {
            continue;
        }
        if (bytes < 0) {
            return errno == EAGAIN;
        }
        in_end_ += static_cast<std::size_t>(bytes);
        SFT_ASSERT(in_end_ <= in_.size());
        return bytes > 0;
    }
}

FrameStream::Next FrameStream::next(Frame& frame) noexcept {
    SFT_ASSERT(in_begin_ <= in_end_ && in_end_ <= in_.size());
    const std::size_t there = in_end_ - in_begin_;
    if (there < sizeof frame.head) {
        return Next::none;
    }
    std::memcpy(&frame.head, in_.data() + in_begin_, sizeof frame.head);
    if (frame.head.bytes > bytes_max_) {
        return Next::oversize;
    }
    if (there - sizeof frame.head < frame.head.bytes) {
        return Next::none;
    }
    frame.payload = std::span(in_).subspan(in_begin_ + sizeof frame.head, frame.head.bytes);
    in_begin_ += sizeof frame.head + frame.head.bytes;
    SFT_ASSERT(in_begin_ <= in_end_);
    return Next::frame;
}

}  // namespace sft
