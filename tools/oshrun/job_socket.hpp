// The guardian's side of the job channel: an abstract socket with a name that cannot be guessed, open to processes of
// the same user only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/job_channel.hpp"
#include "base/result.hpp"
#include "tools/common/fd.hpp"

namespace sft::tools {

class JobSocket {
public:
    struct Peer {
        Fd fd;
        std::int32_t pid = -1;
    };
    enum class Received { event, nothing, closed, foreign };

    // A number that cannot be guessed, and the name that it makes for the socket of the guardian with that pid.
    [[nodiscard]] static Result<std::uint64_t> draw_number();
    [[nodiscard]] static std::string name_of(std::int32_t guardian, std::uint64_t number);
    // Under that name; errno is EADDRINUSE if another process has it.
    [[nodiscard]] Result<> open_as(const std::string& name);
    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    [[nodiscard]] int fd() const noexcept { return fd_.get(); }

    // The next peer that waits, if it belongs to our user; never blocks.
    [[nodiscard]] std::optional<Peer> accept();
    // Never blocks. foreign: somebody speaks another layout of messages.
    [[nodiscard]] static Received receive(const Peer& peer, JobEvent& event);
    // One byte, and with it a descriptor to keep (its standard input) if there is one.
    static void answer(const Peer& peer, int descriptor = -1);

private:
    Fd fd_;
    std::string name_;
};

// What is said of a process that speaks another layout.
[[nodiscard]] JobEvent version_complaint(const std::string& program, std::int32_t pid);

}  // namespace sft::tools
