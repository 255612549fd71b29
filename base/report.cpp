#include "base/report.hpp"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "base/private_data.hpp"

namespace sft {
namespace {

constexpr std::size_t kLineBytesMax = 1024;

SFT_LIBRARY_STATE std::atomic<pid_t> g_exiting_thread{0};
SFT_LIBRARY_STATE std::atomic<void (*)(int)> g_leave_hook{nullptr};

void write_line(const char* prefix, const char* format, std::va_list arguments) noexcept {
    char line[kLineBytesMax];
    int used = std::snprintf(line, sizeof line, "%s", prefix);
    const int body = std::vsnprintf(line + used, sizeof line - static_cast<std::size_t>(used) - 1, format, arguments);
    used = body < 0 ? used : used + body;
    if (used > static_cast<int>(sizeof line) - 2) {
        used = static_cast<int>(sizeof line) - 2;
    }
    line[used] = '\n';
    // A failing write to stderr has nobody to be reported to.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line, static_cast<std::size_t>(used) + 1);
}

}  // namespace

void die(const char* format, ...) noexcept {
    std::va_list arguments;
    va_start(arguments, format);
    write_line("shmem-ft: error: ", format, arguments);
    va_end(arguments);
    exit_once(kExitError);
}

// Several threads may find a reason at the same time, and exit() may be called by one of them only. In an exit handler
// the same thread may come here again.
void exit_once(int status) noexcept {
    note_exit(status);
    std::exit(status);
}

void note_exit(int status) noexcept {
    pid_t nobody = 0;
    const pid_t self = ::gettid();
    if (!g_exiting_thread.compare_exchange_strong(nobody, self) && nobody != self) {
        sleep_until_the_end();
    }
    if (const auto hook = nobody == 0 ? g_leave_hook.load() : nullptr) {
        hook(status);
    }
}

bool is_leaving() noexcept { return g_exiting_thread.load() != 0; }

bool is_leaving_for_good() noexcept {
    constexpr int kMost_ms = 10'000;
    const pid_t thread = g_exiting_thread.load();
    if (thread != 0 && thread != ::gettid()) {
        ::poll(nullptr, 0, kMost_ms);
    }
    return thread != 0;
}

void set_leave_hook(void (*hook)(int status)) noexcept { g_leave_hook.store(hook); }

void sleep_until_the_end() noexcept {
    for (;;) {
        ::pause();
    }
}

void say(const char* format, ...) noexcept {
    std::va_list arguments;
    va_start(arguments, format);
    write_line("shmem-ft: ", format, arguments);
    va_end(arguments);
}

std::string format(const char* format, ...) {
    char text[kLineBytesMax];
    std::va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text;
}

}  // namespace sft
