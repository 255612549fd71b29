#include "base/docs.hpp"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <string_view>

namespace sft {
namespace {

constexpr std::string_view kMark = "docs/";
constexpr const char* kInstalled = "/share/doc/shmem-ft/";  // of meson.build

// Of the file that this code is in: the shared library, a tool, or a program that is linked statically.
std::string own_path() {
    Dl_info info{};
    void* entry = nullptr;
    std::string file = "/proc/self/exe";  // what the loader says of the program itself is only how it was called
    if (::dladdr1(reinterpret_cast<const void*>(&with_doc_paths), &info, &entry, RTLD_DL_LINKMAP) != 0 &&
        entry != nullptr) {
        const char* name = static_cast<const link_map*>(entry)->l_name;
        file = name != nullptr && *name != '\0' ? name : file;
    }
    char path[PATH_MAX];
    return ::realpath(file.c_str(), path) != nullptr ? path : "";
}

// Looked for from the place of the library upwards: a tree that is installed may be moved, or lie below a DESTDIR.
std::string folder_with(const std::string& name) {
    std::string folder = own_path();
    for (std::size_t slash = folder.rfind('/'); slash != std::string::npos; slash = folder.rfind('/')) {
        folder.resize(slash);
        if (::access((folder + kInstalled + name).c_str(), R_OK) == 0) {
            return folder + kInstalled;
        }
    }
    return {};
}

}  // namespace

std::string with_doc_paths(std::string text) {
    for (std::size_t at = text.find(kMark); at != std::string::npos; at = text.find(kMark, at + 1)) {
        const std::size_t end = text.find(".md", at);
        const bool is_word = at == 0 || text[at - 1] == ' ' || text[at - 1] == '\n' || text[at - 1] == '(';
        if (!is_word || end == std::string::npos || text.substr(at, end - at).find(' ') != std::string::npos) {
            continue;
        }
        const std::string folder = folder_with(text.substr(at, end + 3 - at));
        text.insert(at, folder);
        at += folder.size();
    }
    return text;
}

}  // namespace sft
