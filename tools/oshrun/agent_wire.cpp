#include "tools/oshrun/agent_wire.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "tools/common/text.hpp"

namespace sft::tools {
namespace {

// A frame that arrives in pieces is put together here; no peer can make it grow beyond one frame and one read.
constexpr std::size_t kReadBytes = 65536;

std::string hex(const SecretHalf& secret) {
    std::string text;
    for (const std::uint8_t byte : secret) {
        text += fmt::format("{:02x}", byte);
    }
    return text;
}

std::optional<SecretHalf> parse_hex(std::string_view text) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    SecretHalf secret;
    if (text.size() != 2 * secret.size()) {
        return std::nullopt;
    }
    for (std::size_t i = 0; i < secret.size(); ++i) {
        const std::size_t high = kDigits.find(text[2 * i]);
        const std::size_t low = kDigits.find(text[2 * i + 1]);
        if (high == std::string_view::npos || low == std::string_view::npos) {
            return std::nullopt;
        }
        secret[i] = static_cast<std::uint8_t>(16 * high + low);
    }
    return secret;
}

}  // namespace

FrameStream::State FrameStream::receive() {
    std::array<char, kReadBytes> buffer;
    // Not more than one frame's worth ahead: who sends faster than we look must wait.
    while (fd_ && in_.size() < sizeof(FrameHeader) + payload_max_) {
        const ssize_t bytes = recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (bytes > 0) {
            in_.append(buffer.data(), static_cast<std::size_t>(bytes));
            continue;
        }
        if (bytes < 0 && errno == EINTR) {
            continue;
        }
        if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return State::open;
        }
        return bytes == 0 ? State::closed : State::broken;
    }
    return fd_ ? State::open : State::closed;
}

std::optional<Frame> FrameStream::next() {
    FrameHeader header;
    if (is_broken_ || in_.size() < sizeof header) {
        return std::nullopt;
    }
    std::memcpy(&header, in_.data(), sizeof header);
    const FrameHeader expected;
    if (header.magic != expected.magic || header.version != expected.version || header.bytes > payload_max_) {
        is_broken_ = true;
        return std::nullopt;
    }
    if (in_.size() < sizeof header + header.bytes) {
        return std::nullopt;
    }
    Frame frame{header.kind, in_.substr(sizeof header, header.bytes), header.number};
    in_.erase(0, sizeof header + header.bytes);
    return frame;
}

void FrameStream::send(FrameKind kind, std::string_view payload, std::uint64_t number) {
    if (!fd_) {
        return;
    }
    FrameHeader header;
    header.kind = kind;
    header.number = number;
    header.bytes = static_cast<std::uint32_t>(payload.size());
    out_.append(reinterpret_cast<const char*>(&header), sizeof header);
    out_.append(payload);
    flush();
}

void FrameStream::flush() {
    std::size_t done = 0;
    while (fd_ && done < out_.size()) {
        const ssize_t bytes = ::send(fd_.get(), out_.data() + done, out_.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (bytes < 0 && errno == EINTR) {
            continue;
        }
        if (bytes < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
            done = out_.size();  // the end of the connection is the next news
        }
        if (bytes < 0) {
            break;
        }
        done += static_cast<std::size_t>(bytes);
    }
    out_.erase(0, done);
}

bool are_equal(const SecretHalf& a, const SecretHalf& b) noexcept {
    unsigned difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        difference |= static_cast<unsigned>(a[i] ^ b[i]);
    }
    return difference == 0;
}

std::string to_text(const GuardianAddress& guardian) {
    return fmt::format("{},{},{},{},{}", guardian.address, guardian.port, hex(guardian.agent_secret),
                       hex(guardian.guardian_secret), guardian.host);
}

std::optional<GuardianAddress> parse_guardian_address(std::string_view text) {
    std::array<std::string_view, 5> words;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::size_t comma = text.find(',');
        if ((comma == std::string_view::npos) != (i + 1 == words.size())) {
            return std::nullopt;
        }
        words[i] = text.substr(0, comma);
        text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    }
    const auto port = parse_number(words[1], 1, 65535);
    const auto agent_secret = parse_hex(words[2]);
    const auto guardian_secret = parse_hex(words[3]);
    if (!port || !agent_secret || !guardian_secret) {
        return std::nullopt;
    }
    return GuardianAddress{std::string(words[0]), static_cast<std::uint16_t>(*port), *agent_secret, *guardian_secret,
                           std::string(words[4])};
}

}  // namespace sft::tools
