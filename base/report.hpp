// The one way the library speaks: single lines on stderr, written by one write(2), so that lines of many
// processes never mix and nothing is buffered in a process that is about to end.
#pragma once

#include <string>

namespace sft {

// "shmem-ft: error: ..." and the end of the process with kExitError; never returns. For errors of this process
// only: an error that concerns the job goes through the runtime, which ends the others too.
[[noreturn]] void die(const char* format, ...) noexcept __attribute__((format(printf, 1, 2)));

// This process is being ended by exit(), by the library or with an error status: what its exit handlers call must wait
// for nobody.
[[nodiscard]] bool is_leaving() noexcept;
// The same, asked by a call whose failure the program would take for that of other PEs, and act on: only the thread
// that leaves comes back at once. Any other one, whose process is about to end, waits for that (ten seconds: an exit
// handler may wait for this thread).
[[nodiscard]] bool is_leaving_for_good() noexcept;
// Called once on that way, before the exit handlers.
void set_leave_hook(void (*hook)(int status)) noexcept;

// exit(), by the first thread that comes here; the others sleep until the process is gone.
[[noreturn]] void exit_once(int status) noexcept;
[[noreturn]] void sleep_until_the_end() noexcept;
// The program has called exit() itself, in this thread, with a status that is no success: is_leaving() from here on.
void note_exit(int status) noexcept;

// "shmem-ft: ..."
void say(const char* format, ...) noexcept __attribute__((format(printf, 1, 2)));

// printf into a string.
[[nodiscard]] std::string format(const char* format, ...) __attribute__((format(printf, 1, 2)));

// The status of a process that ends because of an error the library reports.
inline constexpr int kExitError = 70;  // EX_SOFTWARE of sysexits.h

}  // namespace sft
