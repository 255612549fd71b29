#include "tools/oshrun/stderr_pump.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "tools/oshrun/stderr_filter.hpp"
#include "tools/oshrun/write_out.hpp"

namespace sft::tools {
namespace {

// A possible beginning of a filtered line is held back no longer than that.
constexpr int kHoldMax_ms = 100;

void pump_as_it_is(const Fd& source, int sink, std::atomic<int>& lost) {
    std::array<char, 16384> buffer;
    std::string out;
    while (true) {
        const ssize_t bytes = read(source.get(), buffer.data(), buffer.size());
        if (bytes < 0 && errno == EINTR) {
            continue;
        }
        if (bytes <= 0) {
            return;
        }
        out.assign(buffer.data(), static_cast<std::size_t>(bytes));
        write_out(sink, out, lost);
    }
}

void pump(const Fd& source, std::atomic<int>& lost) {
    constexpr int kSink = STDERR_FILENO;
    StderrFilter filter;
    std::array<char, 16384> buffer;
    std::string out;
    while (true) {
        pollfd entry{.fd = source.get(), .events = POLLIN, .revents = 0};
        const int ready = poll(&entry, 1, filter.is_holding() ? kHoldMax_ms : -1);
        if (ready == 0) {
            filter.flush(out);
            write_out(kSink, out, lost);
            continue;
        }
        const ssize_t bytes = ready < 0 ? -1 : read(source.get(), buffer.data(), buffer.size());
        if (bytes < 0 && errno == EINTR) {
            continue;
        }
        if (bytes <= 0) {
            break;
        }
        filter.feed({buffer.data(), static_cast<std::size_t>(bytes)}, out);
        write_out(kSink, out, lost);
    }
    filter.flush(out);
    write_out(kSink, out, lost);
}

}  // namespace

StderrPump::StderrPump(Fd source)
    : PumpThread(
          [source = std::make_shared<const Fd>(std::move(source))](std::atomic<int>& lost) { pump(*source, lost); }) {}

StderrPump::StderrPump(Fd source, int sink)
    : PumpThread([source = std::make_shared<const Fd>(std::move(source)), sink](std::atomic<int>& lost) {
          pump_as_it_is(*source, sink, lost);
      }) {}

}  // namespace sft::tools
