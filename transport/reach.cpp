#include "transport/reach.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "transport/mail/remote_mail_wire.hpp"
#include "transport/net/signed_ways.hpp"

namespace sft {
namespace {

constexpr std::int64_t kAgainNs = 1000 * kNsPerMs;
// At a time, which bounds the descriptors that it takes.
constexpr std::size_t kAtOnce = 128;

// The questions to some addresses that have not been answered yet.
class Questions {
public:
    Questions(std::span<const MailAddress> addresses, std::optional<std::uint64_t> key)
        : addresses_(addresses), key_(key), is_answered_(addresses.size()) {}
    ~Questions() {
        for (const pollfd& entry : open_) {
            close_abruptly(entry.fd);
        }
    }
    Questions(const Questions&) = delete;
    Questions& operator=(const Questions&) = delete;

    // False: `unreached` says who cannot be asked.
    [[nodiscard]] bool ask_again(Unreached& unreached) {
        for (std::size_t i = 0; i < addresses_.size(); ++i) {
            if (!is_answered_[i] && !ask(i)) {
                unreached = {i, errno};
                return false;
            }
        }
        return true;
    }
    // False: `unreached` has refused.
    [[nodiscard]] bool listen(std::int64_t until_ns, Unreached& unreached) {
        const std::int64_t wait_ms = (until_ns - now_ns() + kNsPerMs - 1) / kNsPerMs;
        if (::poll(open_.data(), open_.size(), static_cast<int>(std::max<std::int64_t>(wait_ms, 0))) <= 0) {
            return true;
        }
        SFT_ASSERT(open_.size() == about_.size());
        for (std::size_t k = 0; k < open_.size(); ++k) {
            int error_number = 0;
            socklen_t bytes = sizeof error_number;
            if (open_[k].revents == 0) {
                continue;
            }
            ::getsockopt(open_[k].fd, SOL_SOCKET, SO_ERROR, &error_number, &bytes);
            // A question of which the kernel has given up hope may have been repeated.
            if (error_number != 0 && error_number != ETIMEDOUT) {
                unreached = {about_[k], error_number};
                return false;
            }
            is_answered_[about_[k]] = is_answered_[about_[k]] || error_number == 0;
        }
        drop_answered();
        return true;
    }
    [[nodiscard]] std::optional<std::size_t> first_unanswered() const {
        const auto found = std::find(is_answered_.begin(), is_answered_.end(), false);
        return found == is_answered_.end()
                   ? std::nullopt
                   : std::optional(static_cast<std::size_t>(std::distance(is_answered_.begin(), found)));
    }

private:
    bool ask(std::size_t index) {
        const int fd = make_tcp_socket(addresses_[index].family);
        if (fd < 0) {
            return false;
        }
        if (key_ && !sign_listener(fd, *key_)) {
            const int error_number = errno;
            ::close(fd);
            errno = error_number;
            return false;
        }
        const SocketAddress to(addresses_[index]);
        if (::connect(fd, to.get(), to.bytes) != 0 && errno != EINPROGRESS) {
            const int error_number = errno;
            close_abruptly(fd);
            errno = error_number;
            return false;
        }
        open_.push_back({.fd = fd, .events = POLLOUT, .revents = 0});
        about_.push_back(index);
        SFT_ASSERT(open_.size() == about_.size() && index < is_answered_.size());
        return true;
    }
    void drop_answered() {
        std::size_t kept = 0;
        for (std::size_t k = 0; k < open_.size(); ++k) {
            if (open_[k].revents != 0 || is_answered_[about_[k]]) {
                close_abruptly(open_[k].fd);
                continue;
            }
            open_[kept] = open_[k];
            about_[kept++] = about_[k];
        }
        SFT_ASSERT(kept <= open_.size());
        open_.resize(kept);
        about_.resize(kept);
    }

    std::span<const MailAddress> addresses_;
    std::optional<std::uint64_t> key_;
    std::vector<bool> is_answered_;
    std::vector<pollfd> open_;
    std::vector<std::size_t> about_;  // by question: the index of the address
};

}  // namespace

std::optional<Unreached> find_unreached(std::span<const MailAddress> addresses, std::int64_t patience_ns,
                                        std::optional<std::uint64_t> key) {
    const std::int64_t end_ns = now_ns() + patience_ns;
    for (std::size_t begin = 0; begin < addresses.size(); begin += kAtOnce) {
        Questions questions(addresses.subspan(begin, std::min(kAtOnce, addresses.size() - begin)), key);
        Unreached unreached;
        std::int64_t again_ns = 0;
        while (const auto missing = questions.first_unanswered()) {
            const std::int64_t now = now_ns();
            if (now >= end_ns) {
                return Unreached{begin + *missing, ETIMEDOUT};
            }
            if (now >= again_ns) {
                again_ns = now + kAgainNs;
                if (!questions.ask_again(unreached)) {
                    return Unreached{begin + unreached.index, unreached.error_number};
                }
            }
            if (!questions.listen(std::min(again_ns, end_ns), unreached)) {
                return Unreached{begin + unreached.index, unreached.error_number};
            }
        }
    }
    return std::nullopt;
}

}  // namespace sft
