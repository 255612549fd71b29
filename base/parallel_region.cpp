#include "base/parallel_region.hpp"

#include <dlfcn.h>

// Weak, since most programs have no OpenMP; then it is null. omp_in_parallel() would be false in a region of one
// thread.
extern "C" [[gnu::weak]] int omp_get_level();

namespace sft {

bool is_in_parallel_region() noexcept {
    using Level = int (*)();
    Level level = &omp_get_level;
    if (level == nullptr) {
        // A runtime that came later, with a library that the program has opened by itself.
        level = reinterpret_cast<Level>(::dlsym(RTLD_DEFAULT, "omp_get_level"));
    }
    return level != nullptr && level() > 0;
}

}  // namespace sft
