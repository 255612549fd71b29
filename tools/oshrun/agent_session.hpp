// What the guardian and an agent say to each other, over as many connections as it takes: frames are numbered and kept
// until the other end has them, and sent once more over the next connection.
//
// Fault model: a connection may break, or fall silent, at any time, also with frames under way; the next one may take
// another way. Frames arrive whole, once and in order all the same, as long as both ends live.
//
// Memory: what the other end has not confirmed; both confirm with every beat.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "tools/oshrun/agent_wire.hpp"

namespace sft::tools {

class Session {
public:
    Session() = default;
    // stream: both ends have greeted each other over it.
    explicit Session(FrameStream stream) : stream_(std::move(stream)) {}

    [[nodiscard]] int fd() const noexcept { return stream_.fd(); }
    [[nodiscard]] bool is_connected() const noexcept { return stream_.is_open(); }
    // taken: the number of the last frame that the other end has.
    void resume(FrameStream stream, std::uint64_t taken);
    void hang_up() noexcept { stream_ = FrameStream(); }
    // The number of the last frame that has been taken here.
    [[nodiscard]] std::uint64_t taken() const noexcept { return n_taken_; }

    [[nodiscard]] FrameStream::State receive() { return stream_.receive(); }
    // Beats are among them, to be heard only.
    [[nodiscard]] std::optional<Frame> next();
    [[nodiscard]] bool is_broken() const noexcept { return is_broken_ || stream_.is_broken(); }

    void send(FrameKind kind, std::string_view payload = {});
    template <class T>
    void send(FrameKind kind, const T& part,
              std::string_view more = {}) requires std::is_trivially_copyable_v<T> && std::is_class_v<T> {
        send(kind, std::string_view(with_part(part, more)));
    }
    // A sign of life.
    void beat() { stream_.send(FrameKind::alive, AliveFrame{n_taken_}); }
    void flush() { stream_.flush(); }
    [[nodiscard]] bool has_to_send() const noexcept { return stream_.has_to_send(); }
    [[nodiscard]] std::size_t bytes_kept() const noexcept { return bytes_kept_; }

private:
    struct Kept {
        FrameKind kind{};
        std::string payload;
    };
    void drop_taken(std::uint64_t taken);

    FrameStream stream_;
    std::deque<Kept> kept_;  // the last one has the number n_sent_
    std::size_t bytes_kept_ = 0;
    std::uint64_t n_sent_ = 0;
    std::uint64_t n_taken_ = 0;
    bool is_broken_ = false;
};

}  // namespace sft::tools
