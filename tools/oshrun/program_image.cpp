#include "tools/oshrun/program_image.hpp"

#include <filesystem>
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

}  // namespace sft::tools
