#include "base/raw_memory.hpp"

#if !SFT_ADDRESS_SANITIZER && !SFT_THREAD_SANITIZER

#include <dlfcn.h>

#include "base/private_data.hpp"

namespace sft {

SFT_LIBRARY_STATE RawMemory g_raw_memory;

void find_raw_memory() noexcept {
    void* libc = ::dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    if (libc == nullptr) {
        return;  // nothing can stand before the functions of a program without shared libraries
    }
    const auto copy = reinterpret_cast<decltype(RawMemory::copy)>(::dlsym(libc, "memcpy"));
    const auto compare = reinterpret_cast<decltype(RawMemory::compare)>(::dlsym(libc, "memcmp"));
    ::dlclose(libc);
    if (copy != nullptr && compare != nullptr) {
        g_raw_memory = {copy, compare};
    }
}

}  // namespace sft

#endif
