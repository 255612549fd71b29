#include "tools/oshrun/program_image.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace sft::tools {

std::string image_for_joiner(const std::string& path, std::int32_t donor_pid) {
    const std::string image = "/proc/" + std::to_string(donor_pid) + "/exe";
    std::error_code problem;
    // As the kernel names a file that is gone from its place. Anything else (an interpreter, a debugger) is not what
    // stands on the command line.
    const std::string is = std::filesystem::read_symlink(image, problem).string();
    const std::string was = std::filesystem::weakly_canonical(path, problem).string() + " (deleted)";
    return !problem && is == was ? image : path;
}

// The name stands in the file if the library is needed. In a file that does not need it, it does no harm.
bool is_linked_with_mpi(const std::string& path) {
    constexpr std::string_view kName = "libmpi";
    std::ifstream file(path, std::ios::binary);
    std::string bytes;
    std::string chunk(1 << 20, '\0');
    while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || file.gcount() > 0) {
        bytes.append(chunk, 0, static_cast<std::size_t>(file.gcount()));
        if (bytes.find(kName) != std::string::npos) {
            return true;
        }
        bytes.erase(0, bytes.size() - std::min(bytes.size(), kName.size()));
    }
    return false;
}

}  // namespace sft::tools
