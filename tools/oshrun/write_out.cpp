#include "tools/oshrun/write_out.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace sft::tools {

void write_out(int sink, std::string& bytes, std::atomic<int>& lost) {
    std::size_t done = 0;
    while (done < bytes.size()) {
        const ssize_t written = write(sink, bytes.data() + done, bytes.size() - done);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written < 0 && errno == EAGAIN) {
            pollfd entry{.fd = sink, .events = POLLOUT, .revents = 0};
            poll(&entry, 1, -1);
            continue;
        }
        if (written <= 0) {
            // What comes is thrown away: whoever prints must not be blocked.
            if (written < 0 && errno != EPIPE) {
                lost = errno;
            }
            break;
        }
        done += static_cast<std::size_t>(written);
    }
    bytes.clear();
}

}  // namespace sft::tools
