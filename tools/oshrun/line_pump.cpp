#include "tools/oshrun/line_pump.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include "tools/oshrun/clock.hpp"
#include "tools/oshrun/poller.hpp"

namespace sft::tools {
namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr std::int64_t kPartialMax_ns = 100 * kNsPerMs;
constexpr std::size_t kPartialBytesMax = 1 << 16U;

struct Stream {
    Fd source;
    std::string partial;
    std::int64_t since_ns = 0;  // of what is in `partial`
};

// Nobody reads any more: what comes is thrown away, the processes must not be blocked.
void write_all(int sink, std::string& bytes) {
    std::size_t done = 0;
    while (done < bytes.size()) {
        const ssize_t written = ::write(sink, bytes.data() + done, bytes.size() - done);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written < 0 && errno == EAGAIN) {
            pollfd entry{.fd = sink, .events = POLLOUT, .revents = 0};
            poll(&entry, 1, -1);
            continue;
        }
        if (written <= 0) {
            break;
        }
        done += static_cast<std::size_t>(written);
    }
    bytes.clear();
}

class Pump {
public:
    Pump(std::vector<Fd> sources, int sink) : sink_(sink) {
        is_open_ = poller_.open();
        for (Fd& source : sources) {
            poller_.add(source.get(), Source::input, static_cast<std::uint32_t>(streams_.size()));
            streams_.push_back({std::move(source), {}, 0});
            ++n_open_;
        }
    }

    void run() {
        while (is_open_ && n_open_ > 0) {
            for (const Poller::News& news : poller_.wait(timeout_ms())) {
                take(streams_[news.id]);
            }
            flush_overdue();
        }
    }

private:
    // What is there now, but not for ever: the others wait for their turn.
    void take(Stream& stream) {
        std::array<char, 16384> buffer;
        const ssize_t bytes = read(stream.source.get(), buffer.data(), buffer.size());
        if (bytes < 0 && (errno == EINTR || errno == EAGAIN)) {
            return;
        }
        if (bytes <= 0) {  // a pty whose other side is closed gives EIO
            write_all(sink_, stream.partial);
            stream.source.reset();
            --n_open_;
            return;
        }
        std::string out = std::exchange(stream.partial, {});
        out.append(buffer.data(), static_cast<std::size_t>(bytes));
        const std::size_t end = out.rfind('\n') + 1;
        if (out.size() - end < kPartialBytesMax) {
            stream.partial = out.substr(end);
            stream.since_ns = now_ns();
            out.resize(end);
        }
        write_all(sink_, out);
    }

    [[nodiscard]] int timeout_ms() const {
        std::int64_t oldest_ns = INT64_MAX;
        for (const Stream& stream : streams_) {
            oldest_ns = stream.partial.empty() ? oldest_ns : std::min(oldest_ns, stream.since_ns);
        }
        if (oldest_ns == INT64_MAX) {
            return -1;
        }
        return static_cast<int>(std::max<std::int64_t>((oldest_ns + kPartialMax_ns - now_ns()) / kNsPerMs + 1, 0));
    }

    void flush_overdue() {
        const std::int64_t now = now_ns();
        for (Stream& stream : streams_) {
            if (!stream.partial.empty() && now - stream.since_ns >= kPartialMax_ns) {
                write_all(sink_, stream.partial);
            }
        }
    }

    int sink_;
    Poller poller_;
    bool is_open_ = false;
    std::vector<Stream> streams_;
    std::size_t n_open_ = 0;
};

}  // namespace

LinePump::LinePump(std::vector<Fd> sources, int sink)
    : done_(std::make_shared<const Fd>(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))),
      thread_([done = done_, pump = std::make_unique<Pump>(std::move(sources), sink)] {
          pump->run();
          eventfd_write(done->get(), 1);
      }) {}

LinePump::~LinePump() {
    pollfd entry{.fd = done_->get(), .events = POLLIN, .revents = 0};
    if (poll(&entry, 1, 0) == 1) {
        thread_.join();
    } else {
        thread_.detach();
    }
}

}  // namespace sft::tools
