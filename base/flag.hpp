// One thread says to another that something has happened. No std::atomic: its wait() keeps counters of waiting threads
// in a global of the library, which in a program that is linked statically goes back with a version.
//
// Threads: set() and wait() by any, clear() while nobody waits.
#pragma once

#include <semaphore.h>

#include "base/assert.hpp"

namespace sft {

class Flag {
public:
    Flag() noexcept { SFT_ASSERT(::sem_init(&semaphore_, 0, 0) == 0); }
    ~Flag() { ::sem_destroy(&semaphore_); }
    Flag(const Flag&) = delete;
    Flag& operator=(const Flag&) = delete;

    void set() noexcept { ::sem_post(&semaphore_); }
    // Until it is set, which it stays.
    void wait() noexcept {
        while (::sem_wait(&semaphore_) != 0) {
        }
        set();
    }
    void clear() noexcept {
        while (::sem_trywait(&semaphore_) == 0) {
        }
    }

private:
    sem_t semaphore_{};
};

}  // namespace sft
