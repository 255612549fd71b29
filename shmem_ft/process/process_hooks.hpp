// Where the system comes to the library outside of its calls: before main, at exit() and at fork().
//
// The globals are shared memory, so after a fork() parent and child would write the same ones. The child copies them
// first thing; until it has, the parent waits, so that the copy is that of the moment of fork().
//
// Threads: any; install_hooks() by the one that initialises.
#pragma once

namespace sft {

struct ProcessHooks {
    // exit() is under way in the process that has installed this; before the handlers that the program has registered
    // earlier than the last watch_exit(), and at the very end of them.
    void (*exit_seen)(int status) = nullptr;
    void (*exit_ends)(int status) = nullptr;
    // The library itself ends this process (base/report.hpp).
    void (*leaves)(int status) = nullptr;
    // Whether a fork() shares anything that is the parent's alone; and in its child, to keep it apart.
    bool (*shares_memory)() = nullptr;
    void (*forked)() = nullptr;
};

// Once in a process; later calls only say that this is the process that they are about.
void install_hooks(const ProcessHooks& hooks);
// Exit handlers run last first: what the program has registered so far runs behind exit_seen().
void watch_exit_of_program() noexcept;

}  // namespace sft
