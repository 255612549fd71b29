// Takes known harmless lines of the launcher out of a stream of bytes and lets everything else through unchanged, at
// once. The launcher writes its lines into the same pipe as the output of the processes, so such a line may begin in
// the middle of one of theirs; and a progress bar without newline must not be held back. Hence a matcher that looks at
// every '[' and keeps back only bytes that still can be the beginning of such a line.
//
// The line, of Open MPI 4.1 when a process dies (it cannot hand on the news to clients of another PMIx version):
//   [host:12345] PMIX ERROR: BAD-PARAM in file ../../../src/event/pmix_event_notification.c at line 1033
#pragma once

#include <string>
#include <string_view>

namespace sft::tools {

class StderrFilter {
public:
    // Appends to out what may go on.
    void feed(std::string_view bytes, std::string& out);
    // Gives up waiting for the rest of a possible line: at the end, or when nothing has come for a while.
    void flush(std::string& out);
    [[nodiscard]] bool is_holding() const noexcept { return !held_.empty(); }

private:
    enum class Step { outside, host, pid, text, path, line_word, line_number };
    enum class Verdict { partial, complete, mismatch };

    [[nodiscard]] Verdict take(char letter);

    std::string held_;  // from the '[' on
    Step step_ = Step::outside;
    std::size_t position_ = 0;    // in the fixed text of the step
    std::size_t path_begin_ = 0;  // in held_
};

}  // namespace sft::tools
