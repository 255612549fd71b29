#include "storage/disk.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/assert.hpp"
#include "base/faults/fault_points.hpp"
#include "base/process_watch.hpp"
#include "base/report.hpp"

namespace sft {
namespace {

// So that a name is on the disk, not only what it names.
int sync_folder_of(const std::string& path) noexcept {
    const std::string folder = path.substr(0, path.rfind('/'));
    const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    // Some file systems have no such thing for folders.
    const int error = ::fsync(fd) == 0 || errno == EINVAL ? 0 : errno;
    ::close(fd);
    return error;
}

}  // namespace

DiskFile::~DiskFile() {
    if (fd_ >= 0) {
        ::close(fd_);
        ::unlink(path_.c_str());
    }
}

Result<> DiskFile::wrong(const char* what) const {
    const int error = errno;
    return fails(format("%s: cannot be %s: %s", path_.c_str(), what, describe_error(error).c_str()), error);
}

Result<> DiskFile::create(const std::string& path) {
    SFT_ASSERT(fd_ < 0);
    path_ = path;
    fd_ = fails(FaultPoint::call_store_open)
              ? -1
              : ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    return fd_ >= 0 ? Result<>() : wrong("made");
}

Result<> DiskFile::resize(std::size_t bytes) {
    return ::ftruncate(fd_, static_cast<off_t>(bytes)) == 0 ? Result<>() : wrong("given its size");
}

Result<> DiskFile::write(const void* data, std::size_t bytes, std::size_t offset) {
    SFT_ASSERT(fd_ >= 0);
    const auto begin = static_cast<off_t>(offset);
    const auto all = static_cast<off_t>(bytes);
    const auto* at = static_cast<const char*>(data);
    while (bytes > 0) {
        const ssize_t written =
            fails(FaultPoint::call_store_write) ? -1 : ::pwrite(fd_, at, bytes, static_cast<off_t>(offset));
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            errno = written == 0 ? ENOSPC : errno;
            return wrong("written");
        }
        at += written;
        bytes -= static_cast<std::size_t>(written);
        offset += static_cast<std::size_t>(written);
    }
    // The device begins with it while the next piece is copied. Whether it can is of no interest: sync() waits for it.
    static_cast<void>(::sync_file_range(fd_, begin, all, SYNC_FILE_RANGE_WRITE));
    return {};
}

Result<> DiskFile::sync() {
    const bool is_done = !fails(FaultPoint::call_store_sync) && ::fsync(fd_) == 0;
    return is_done ? Result<>() : wrong("brought to the disk");
}

Result<> DiskFile::finish_as(const std::string& path) {
    if (Result<> done = sync(); !done) {
        return done;
    }
    if (fails(FaultPoint::call_store_rename) || ::rename(path_.c_str(), path.c_str()) != 0) {
        return wrong("given its name");
    }
    ::close(fd_);
    fd_ = -1;
    errno = sync_folder_of(path);
    return errno == 0 ? Result<>() : wrong("brought to the disk");
}

Result<> make_folder(const std::string& path) {
    for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
        const std::string part = path.substr(0, end);
        if (::mkdir(part.c_str(), 0777) != 0 && errno != EEXIST) {
            const int error = errno;
            return fails(format("%s: cannot be made: %s", part.c_str(), describe_error(error).c_str()), error);
        }
        if (end == std::string::npos) {
            return {};
        }
    }
}

}  // namespace sft
