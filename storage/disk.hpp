// A file that is written once: under another name until it is complete and on the disk.
//
// Every failure is a line that names the file and what could not be done with it.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.hpp"

namespace sft {

class DiskFile {
public:
    DiskFile() = default;
    // What was not finished goes.
    ~DiskFile();
    DiskFile(const DiskFile&) = delete;
    DiskFile& operator=(const DiskFile&) = delete;

    // A new one, in place of what has that name.
    [[nodiscard]] Result<> create(const std::string& path);
    // A file of so many bytes, which are holes.
    [[nodiscard]] Result<> resize(std::size_t bytes);
    [[nodiscard]] Result<> write(const void* data, std::size_t bytes, std::size_t offset);
    // What was written is on the disk.
    [[nodiscard]] Result<> sync();
    // The same, and the file has this name from now on, in the same folder.
    [[nodiscard]] Result<> finish_as(const std::string& path);

private:
    [[nodiscard]] Result<> wrong(const char* what) const;

    std::string path_;
    int fd_ = -1;
};

// Makes it and those above it, as far as they are not there.
[[nodiscard]] Result<> make_folder(const std::string& path);

}  // namespace sft
