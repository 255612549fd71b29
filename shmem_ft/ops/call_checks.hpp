// What SHMEM_FT_CHECK asks for: the checker of calls (check.hpp), and a look for words in symmetric memory that mean
// nothing in another process (symheap/stray_words.hpp). Neither is there while it is off.
//
// Threads: begin() before there is a second one, the rest by the one that makes the collective calls.
#pragma once

#include <memory>

#include "base/config.hpp"
#include "shmem_ft/ops/check.hpp"
#include "shmem_ft/ops/engine.hpp"
#include "symheap/stray_words.hpp"
#include "symheap/symmetric_memory.hpp"

namespace sft {

class CallChecks {
public:
    // Between the start and the first call of the application. The engine is to be attached behind it.
    void begin(Engine& e, CheckMode mode, const SymmetricMemory& memory);
    void set_thread_level(int level) noexcept;
    // After a rollback.
    void forget_users() noexcept;
    // The same memory lies elsewhere in its file now.
    void follow_heap(const SymmetricMemory& memory) noexcept;
    // At a checkpoint.
    void look_for_stray_words() noexcept;

private:
    Engine* engine_ = nullptr;
    std::unique_ptr<Checker> checker_;
    std::unique_ptr<StrayWords> stray_words_;
};

}  // namespace sft
