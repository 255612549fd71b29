#include "tools/oshrun/line_pump.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "tools/oshrun/poller.hpp"
#include "tools/oshrun/write_out.hpp"

namespace sft::tools {
namespace {

constexpr std::int64_t kPartialMax_ns = 100 * kNsPerMs;
constexpr std::size_t kPartialBytesMax = 1 << 16U;

struct Stream {
    Fd source;
    std::string partial;
    std::int64_t since_ns = 0;  // of what is in `partial`
};

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

    void run(std::atomic<int>& lost) {
        while (is_open_ && n_open_ > 0) {
            for (const Poller::Event& news : poller_.wait(timeout_ms())) {
                take(streams_[news.id], lost);
            }
            flush_overdue(lost);
        }
    }

private:
    // What is there now, but not for ever: the others wait for their turn.
    void take(Stream& stream, std::atomic<int>& lost) {
        std::array<char, 16384> buffer;
        const ssize_t bytes = read(stream.source.get(), buffer.data(), buffer.size());
        if (bytes < 0 && (errno == EINTR || errno == EAGAIN)) {
            return;
        }
        if (bytes <= 0) {  // a pty whose other side is closed gives EIO
            write_out(sink_, stream.partial, lost);
            // A child that has not become its program yet may have it open as well, and then closing takes it from no
            // list: its end was counted twice, and the pump ended before the other streams did.
            poller_.remove(stream.source.get());
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
        write_out(sink_, out, lost);
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

    void flush_overdue(std::atomic<int>& lost) {
        const std::int64_t now = now_ns();
        for (Stream& stream : streams_) {
            if (!stream.partial.empty() && now - stream.since_ns >= kPartialMax_ns) {
                write_out(sink_, stream.partial, lost);
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
    : PumpThread(
          [pump = std::make_shared<Pump>(std::move(sources), sink)](std::atomic<int>& lost) { pump->run(lost); }) {}

}  // namespace sft::tools
