// Takes known harmless lines of the launcher out of a stream of bytes and lets everything else through unchanged, at
// once. The launcher writes its lines into the same pipe as the output of the processes, so such a line may begin in
// the middle of one of theirs; and a progress bar without newline must not be held back. Hence a matcher that looks at
// every '[' and keeps back only bytes that still can be the beginning of such a line.
//
// The lines, of Open MPI 4.1:
//   [host:12345] PMIX ERROR: BAD-PARAM in file ../../../src/event/pmix_event_notification.c at line 1033
// when a process dies (it cannot hand on the news to clients of another PMIx version), and
//   [host:12345] plm:rsh: Warning: setpgid(10,10) failed in parent with errno=Permission denied(13)
// when the child that starts its daemon on another host was faster (it has put itself into that process group already).
#pragma once

#include <array>
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

    static constexpr std::size_t kKnownLines = 2;

private:
    enum class Verdict { mismatch, partial, complete };
    struct Place {  // in one of the known lines
        bool is_possible = true;
        bool is_inside = false;  // of a word that varies
        std::size_t at = 1;      // behind the '['
    };

    [[nodiscard]] bool goes_on(Place& place, std::string_view line, char letter) const;
    [[nodiscard]] Verdict take(char letter);

    std::string held_;  // from the '[' on
    std::array<Place, kKnownLines> places_;
};

}  // namespace sft::tools
