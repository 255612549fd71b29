#include "base/assert.hpp"

#include <unistd.h>

#include <atomic>

#include "base/private_data.hpp"
#include "base/report.hpp"

namespace sft {
namespace {

SFT_LIBRARY_STATE std::atomic<void (*)(const char*)> g_defect_hook{nullptr};
SFT_LIBRARY_STATE std::atomic_flag g_has_defect = ATOMIC_FLAG_INIT;

}  // namespace

void set_defect_hook(void (*hook)(const char* line)) noexcept { g_defect_hook.store(hook); }

// Without exit handlers: nothing of this process can be relied on any more.
void end_by_defect(const char* file, int line, const char* what) noexcept {
    if (g_has_defect.test_and_set()) {
        sleep_until_the_end();
    }
    const std::string text = format("defect of the library, please report: %s:%d: %s", file, line, what);
    if (void (*const hook)(const char*) = g_defect_hook.exchange(nullptr); hook != nullptr) {
        hook(text.c_str());
    }
    say("error: %s", text.c_str());
    ::_exit(kExitError);
}

}  // namespace sft
