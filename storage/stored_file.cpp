#include "storage/stored_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/checksum.hpp"
#include "base/pages.hpp"
#include "base/process_watch.hpp"
#include "base/raw_memory.hpp"
#include "base/report.hpp"

namespace sft {
namespace {

constexpr std::string_view kFolderPrefix = "version-";

// What a file begins with, read at once: files of many PEs are looked at one after the other, over a network.
struct FileFront {
    std::array<std::byte, kPageBytes> bytes{};
    std::size_t n_read = 0;
    std::uint64_t file_bytes = 0;
};

Result<FileFront> read_front(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        const int error = errno;
        return fails(format("%s: cannot be opened: %s", path.c_str(), describe_error(error).c_str()), error);
    }
    FileFront front;
    struct stat info {};
    const ssize_t n_read = ::pread(fd, front.bytes.data(), front.bytes.size(), 0);
    const bool is_read = n_read >= 0 && ::fstat(fd, &info) == 0;
    const int error = errno;
    ::close(fd);
    if (!is_read) {
        return fails(format("%s: cannot be read: %s", path.c_str(), describe_error(error).c_str()), error);
    }
    front.n_read = static_cast<std::size_t>(n_read);
    front.file_bytes = static_cast<std::uint64_t>(info.st_size);
    return front;
}

Result<StoredHead> head_in(const FileFront& front, const std::string& path) {
    StoredHead head;
    std::memcpy(&head, front.bytes.data(), sizeof head);
    if (front.n_read < sizeof head || head.magic != StoredHead::kMagic) {
        return fails(path + ": is no stored state of a PE");
    }
    if (head.head_sum != checksum(&head, offsetof(StoredHead, head_sum))) {
        return fails(path + ": its head does not fit its checksum: the file is damaged");
    }
    if (front.file_bytes != head.file_bytes) {
        return fails(format("%s: has %llu bytes instead of %llu: the file is damaged", path.c_str(),
                            static_cast<unsigned long long>(front.file_bytes),
                            static_cast<unsigned long long>(head.file_bytes)));
    }
    return head;
}

Result<std::vector<ArrayPiece>> arrays_in(const FileFront& front, const StoredHead& head, const std::string& path) {
    static_assert(sizeof(StoredHead) + ArrayTable::kPiecesMax * sizeof(ArrayPiece) <= sizeof(FileFront::bytes));
    if (head.n_arrays > ArrayTable::kPiecesMax) {
        return fails(format("%s: has %u arrays, which is more than there can be", path.c_str(), head.n_arrays));
    }
    std::vector<ArrayPiece> arrays(head.n_arrays);
    const std::size_t bytes = arrays.size() * sizeof(ArrayPiece);
    raw_copy(reinterpret_cast<std::byte*>(arrays.data()), front.bytes.data() + sizeof head, bytes);
    const auto is_good = [](const ArrayPiece& piece) {
        return is_array_name(piece.text()) && piece.element_bytes != 0 && piece.count != 0 &&
               piece.count <= UINT64_MAX / piece.element_bytes && piece.first <= UINT64_MAX - piece.count;
    };
    if (front.n_read < sizeof head + bytes || head.arrays_sum != checksum(arrays.data(), bytes) ||
        !std::all_of(arrays.begin(), arrays.end(), is_good)) {
        return fails(path + ": its list of arrays does not fit its checksum: the file is damaged");
    }
    return arrays;
}

}  // namespace

void seal(StoredHead& head) noexcept { head.head_sum = checksum(&head, offsetof(StoredHead, head_sum)); }

Result<StoredHead> read_head(const std::string& path) {
    const Result<FileFront> front = read_front(path);
    return front ? head_in(*front, path) : Result<StoredHead>(fails(front.error()));
}

Result<StoredStart> read_start(const std::string& path) {
    const Result<FileFront> front = read_front(path);
    if (!front) {
        return fails(front.error());
    }
    const Result<StoredHead> head = head_in(*front, path);
    if (!head) {
        return fails(head.error());
    }
    Result<std::vector<ArrayPiece>> arrays = arrays_in(*front, *head, path);
    if (!arrays) {
        return fails(arrays.error());
    }
    return StoredStart{*head, *std::move(arrays)};
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
