#include "base/text_file.hpp"

#include <fcntl.h>
#include <unistd.h>

namespace sft {

std::string text_of(const char* path) {
    std::string text;
    char buffer[1 << 14];
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t n = 0; file >= 0 && (n = ::read(file, buffer, sizeof buffer)) > 0;) {
        text.append(buffer, static_cast<std::size_t>(n));
    }
    if (file >= 0) {
        ::close(file);
    }
    return text;
}

}  // namespace sft
