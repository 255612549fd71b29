// Standard input for PE 0 that can be given again: a substitute of it runs through the start-up of the program anew,
// and reads there what its predecessor had read. A file is opened once more, where it was. Of a pipe, what goes through
// is kept until the first checkpoint is committed: a thread moves it, because nobody can look into a pipe without
// taking out of it.
//
// Fault model: PE 0 may end at any time, also in the middle of a read; what it has not read stays here.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string_view>

#include "tools/common/fd.hpp"

namespace sft::tools {

class KeptInput {
public:
    static constexpr std::size_t kBytesMax = 1U << 20U;

    // fd: the standard input of the job, not owned. Nothing is read from it before begin().
    explicit KeptInput(int fd) noexcept : fd_(fd) {}
    // Does not wait for a thread that waits for input; the process is about to end then.
    ~KeptInput();
    KeptInput(const KeptInput&) = delete;
    KeptInput& operator=(const KeptInput&) = delete;

    // PE 0, which has had that input from its launch, begins its start-up, and has `identity` (file_identity()) as its
    // standard input now. If that is still the job's, the job's can be given again from now on. Returns what takes its
    // place; none: it stays.
    [[nodiscard]] Fd begin(std::string_view identity);
    // The first checkpoint is committed: what PE 0 has not read by now is not repeated.
    void end_start_up();
    // For a substitute, whose predecessor is dead: what was read in the start-up, and what is left. None: it has none.
    [[nodiscard]] Fd give_again();
    // True once, when PE 0 has read more in its start-up than is kept.
    [[nodiscard]] bool take_excess();

private:
    class Pump;

    int fd_;
    bool is_file_ = false;
    off_t offset_ = 0;
    std::shared_ptr<Pump> pump_;  // the thread's too: it may outlive this object
};

}  // namespace sft::tools
