#include "tools/oshrun/kept_input.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <thread>
#include <utility>

#include "base/job_channel.hpp"
#include "base/mutex.hpp"

namespace sft::tools {
namespace {

// More than can be under way: what is in a pipe, and what has been read and not been written.
constexpr std::size_t kUnderWayMax = 1U << 18U;

std::string path_of(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

std::string drain(const Fd& fd) {
    std::string all;
    std::array<char, 16384> buffer;
    while (true) {
        const ssize_t bytes = read(fd.get(), buffer.data(), buffer.size());
        if (bytes > 0) {
            all.append(buffer.data(), static_cast<std::size_t>(bytes));
        } else if (bytes == 0 || errno != EINTR) {
            return all;
        }
    }
}

}  // namespace

class KeptInput::Pump {
public:
    explicit Pump(int source) : source_(source), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

    // None: not possible, and nothing has been read.
    Fd open() {
        Pipe pipe;
        if (!wake_ || !open_pipe(pipe)) {
            return {};
        }
        Fd theirs = std::move(pipe.theirs);
        const Locked lock(mutex_);
        pipe_ = std::move(pipe);
        return theirs;
    }

    void run() {
        while (true) {
            std::array<pollfd, 2> entries = {{{wake_.get(), POLLIN, 0}, wish()}};
            poll(entries.data(), entries.size(), -1);
            eventfd_t ignored = 0;
            eventfd_read(wake_.get(), &ignored);
            if (entries[1].revents != 0 && entries[1].fd == source_) {
                read_some();
            }
            const Locked lock(mutex_);
            if (is_stopped_) {
                return;
            }
            write_some();
        }
    }

    void stop() {
        const Locked lock(mutex_);
        is_stopped_ = true;
        eventfd_write(wake_.get(), 1);
    }

    void end_start_up() {
        const Locked lock(mutex_);
        settle();
    }

    Fd give_again() {
        const Locked lock(mutex_);
        settle();
        Pipe pipe;
        if (is_lost_ || !open_pipe(pipe)) {
            return {};
        }
        const std::string unread = drain(pipe_.ours) + pending_;
        const std::size_t given = put_in_ - unread.size();
        // Of a predecessor that had not even read all that was kept.
        const std::size_t repeated = given < kept_.size() ? kept_.size() - given : 0;
        pending_ = kept_ + unread.substr(repeated);
        put_in_ = pending_.size();
        Fd theirs = std::move(pipe.theirs);
        pipe_ = std::move(pipe);
        eventfd_write(wake_.get(), 1);
        return theirs;
    }

    bool take_excess() {
        const Locked lock(mutex_);
        return !is_keeping_ && std::exchange(is_excess_to_tell_, false);
    }

private:
    struct Pipe {
        Fd theirs;  // read end for PE 0
        Fd ours;    // another one, which does not block: what a dead one has not read is taken back by it
        Fd in;      // does not block
    };

    static bool open_pipe(Pipe& pipe) {
        std::array<int, 2> ends{-1, -1};
        if (pipe2(ends.data(), O_CLOEXEC) != 0) {
            return false;
        }
        pipe.theirs = Fd(ends[0]);
        pipe.in = Fd(ends[1]);
        // Opened anew and not doubled: the flag would be theirs too.
        pipe.ours = Fd(::open(path_of(ends[0]).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
        return pipe.ours && fcntl(pipe.in.get(), F_SETFL, O_NONBLOCK) == 0;
    }

    pollfd wish() {
        const Locked lock(mutex_);
        if (!pending_.empty()) {
            return {pipe_.in.get(), POLLOUT, 0};
        }
        if (has_ended_) {
            pipe_.in.reset();
        }
        return {has_ended_ ? -1 : source_, POLLIN, 0};
    }

    void write_some() SFT_REQUIRES(mutex_) {
        const ssize_t bytes = pending_.empty() ? 0 : write(pipe_.in.get(), pending_.data(), pending_.size());
        if (bytes > 0) {
            pending_.erase(0, static_cast<std::size_t>(bytes));
        }
    }

    // Read without the lock: somebody else may have taken what was there, and then this waits.
    void read_some() {
        std::array<char, 16384> buffer;
        const ssize_t bytes = read(source_, buffer.data(), buffer.size());
        const bool has_ended = bytes == 0 || (bytes < 0 && errno != EINTR && errno != EAGAIN);
        const Locked lock(mutex_);
        has_ended_ = has_ended;
        if (bytes <= 0) {
            return;
        }
        const std::string_view read_now(buffer.data(), static_cast<std::size_t>(bytes));
        pending_ += read_now;
        put_in_ += read_now.size();
        if (is_keeping_ && !is_lost_) {
            kept_ += read_now;
            if (kept_.size() > kBytesMax + kUnderWayMax) {
                lose();
            }
        }
    }

    // Of what has been moved, PE 0 has read what is not in the pipe.
    void settle() SFT_REQUIRES(mutex_) {
        if (!std::exchange(is_keeping_, false) || is_lost_) {
            return;
        }
        int in_pipe = 0;
        ioctl(pipe_.ours.get(), FIONREAD, &in_pipe);
        kept_.resize(put_in_ - pending_.size() - static_cast<std::size_t>(in_pipe));
        if (kept_.size() > kBytesMax) {
            lose();
        }
    }

    void lose() SFT_REQUIRES(mutex_) {
        kept_ = {};
        is_lost_ = true;
        is_excess_to_tell_ = true;
    }

    const int source_;
    const Fd wake_;
    Mutex mutex_{MutexRank::tool};
    Pipe pipe_ SFT_GUARDED_BY(mutex_);            // but for their end
    std::string pending_ SFT_GUARDED_BY(mutex_);  // read from the source, not written to the pipe
    std::string kept_ SFT_GUARDED_BY(mutex_);     // once nothing is added any more: what PE 0 has read in its start-up
    std::size_t put_in_ SFT_GUARDED_BY(mutex_) = 0;  // into the pipe that is in use, or to be
    bool is_keeping_ SFT_GUARDED_BY(mutex_) = true;
    bool is_lost_ SFT_GUARDED_BY(mutex_) = false;
    bool is_excess_to_tell_ SFT_GUARDED_BY(mutex_) = false;
    bool has_ended_ SFT_GUARDED_BY(mutex_) = false;
    bool is_stopped_ SFT_GUARDED_BY(mutex_) = false;
};

KeptInput::~KeptInput() {
    if (pump_) {
        pump_->stop();
    }
}

Fd KeptInput::begin(std::string_view identity) {
    struct stat info {};
    if (is_file_ || pump_ || identity.empty() || identity != file_identity(fd_) || fstat(fd_, &info) != 0) {
        return {};
    }
    if (S_ISREG(info.st_mode)) {
        offset_ = lseek(fd_, 0, SEEK_CUR);
        is_file_ = offset_ >= 0;
        return {};
    }
    if (!S_ISFIFO(info.st_mode) && !S_ISSOCK(info.st_mode)) {
        return {};
    }
    auto pump = std::make_shared<Pump>(fd_);
    Fd theirs = pump->open();
    if (theirs) {
        pump_ = pump;
        std::thread([pump] { pump->run(); }).detach();
    }
    return theirs;
}

void KeptInput::end_start_up() {
    if (pump_) {
        pump_->end_start_up();
    }
}

Fd KeptInput::give_again() {
    if (pump_) {
        return pump_->give_again();
    }
    Fd again(is_file_ ? open(path_of(fd_).c_str(), O_RDONLY | O_CLOEXEC) : -1);
    if (again && lseek(again.get(), offset_, SEEK_SET) != offset_) {
        again.reset();
    }
    return again;
}

bool KeptInput::take_excess() { return pump_ && pump_->take_excess(); }

}  // namespace sft::tools
