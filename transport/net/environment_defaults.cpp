#include "transport/net/environment_defaults.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

namespace sft {
namespace {

bool is_set(char** environment, const char* entry) noexcept {
    const std::size_t length = std::strcspn(entry, "=") + 1;
    for (; *environment != nullptr; ++environment) {
        if (std::strncmp(*environment, entry, length) == 0) {
            return true;
        }
    }
    return false;
}

}  // namespace

EnvironmentDefaults::EnvironmentDefaults(std::span<const EnvironmentDefault> defaults) noexcept {
    if (environ == nullptr) {
        return;
    }
    users_ = environ;
    std::size_t n = 0;
    while (users_[n] != nullptr) {
        ++n;
    }
    // Not from the heap: a tool that looks for lost memory would name it.
    void* memory = ::mmap(nullptr, (n + defaults.size() + 1) * sizeof(char*), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return;  // the other library's own defaults, then
    }
    own_ = static_cast<char**>(memory);
    std::memcpy(own_, users_, n * sizeof(char*));
    for (const EnvironmentDefault& wanted : defaults) {
        if (!is_set(users_, wanted.entry)) {
            own_[n++] = const_cast<char*>(wanted.entry);
        }
    }
    environ = own_;
}

EnvironmentDefaults::~EnvironmentDefaults() {
    // If it is another one now, somebody has called setenv meanwhile, which has copied ours.
    if (own_ != nullptr && environ == own_) {
        environ = users_;
    }
}

}  // namespace sft
