#include "storage/stored_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <string_view>

#include "base/checksum.hpp"
#include "base/process_watch.hpp"
#include "base/report.hpp"

namespace sft {
namespace {

constexpr std::string_view kFolderPrefix = "version-";

}  // namespace

void seal(StoredHead& head) noexcept { head.head_sum = checksum(&head, offsetof(StoredHead, head_sum)); }

Result<StoredHead> read_head(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        const int error = errno;
        return fails(format("%s: cannot be opened: %s", path.c_str(), describe_error(error).c_str()), error);
    }
    StoredHead head;
    struct stat info {};
    errno = 0;
    const bool is_read =
        ::pread(fd, &head, sizeof head, 0) == static_cast<ssize_t>(sizeof head) && ::fstat(fd, &info) == 0;
    const int error = errno;
    ::close(fd);
    if (!is_read && error != 0) {
        return fails(format("%s: cannot be read: %s", path.c_str(), describe_error(error).c_str()), error);
    }
    if (!is_read || head.magic != StoredHead::kMagic) {
        return fails(path + ": is no stored state of a PE");
    }
    if (head.head_sum != checksum(&head, offsetof(StoredHead, head_sum))) {
        return fails(path + ": its head does not fit its checksum: the file is damaged");
    }
    if (static_cast<std::uint64_t>(info.st_size) != head.file_bytes) {
        return fails(format("%s: has %lld bytes instead of %llu: the file is damaged", path.c_str(),
                            static_cast<long long>(info.st_size), static_cast<unsigned long long>(head.file_bytes)));
    }
    return head;
}

Result<std::vector<ArrayPiece>> read_arrays(const std::string& path, const StoredHead& head) {
    if (head.n_arrays > ArrayTable::kPiecesMax) {
        return fails(format("%s: has %u arrays, which is more than there can be", path.c_str(), head.n_arrays));
    }
    std::vector<ArrayPiece> arrays(head.n_arrays);
    const std::size_t bytes = arrays.size() * sizeof(ArrayPiece);
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const bool is_read = fd >= 0 && ::pread(fd, arrays.data(), bytes, sizeof head) == static_cast<ssize_t>(bytes);
    const int error = errno;
    if (fd >= 0) {
        ::close(fd);
    }
    if (!is_read) {
        return fails(format("%s: cannot be read: %s", path.c_str(), describe_error(error).c_str()), error);
    }
    const auto is_good = [](const ArrayPiece& piece) {
        return is_array_name(piece.text()) && piece.element_bytes != 0 && piece.count != 0 &&
               piece.count <= UINT64_MAX / piece.element_bytes && piece.first <= UINT64_MAX - piece.count;
    };
    if (head.arrays_sum != checksum(arrays.data(), bytes) || !std::all_of(arrays.begin(), arrays.end(), is_good)) {
        return fails(path + ": its list of arrays does not fit its checksum: the file is damaged");
    }
    return arrays;
}

std::string without_last_slash(std::string path) {
    while (path.size() > 1 && path.back() == '/') {
        path.pop_back();
    }
    return path;
}

std::string version_folder(const std::string& dir, Version version) {
    return format("%s/version-%08u", dir.c_str(), version.value());
}

Version version_of_folder(const std::string& name) noexcept {
    std::string_view digits(name);
    if (!digits.starts_with(kFolderPrefix)) {
        return kNoVersion;
    }
    digits.remove_prefix(kFolderPrefix.size());
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    const bool is_one = error == std::errc{} && end == digits.data() + digits.size();
    return is_one ? Version(number) : kNoVersion;
}

std::string state_file(const std::string& folder, PeId pe) {
    return format("%s/pe-%05d.state", folder.c_str(), pe.value());
}

std::string unfinished(const std::string& path) { return path + ".part"; }

}  // namespace sft
