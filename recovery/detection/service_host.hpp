// What the service thread (failure_service.hpp) needs of the rest of the process. Called by that thread alone, if
// nothing else is said.
#pragma once

#include <cstdint>
#include <string>

#include "base/ids.hpp"

namespace sft {

class ServiceHost {
public:
    virtual ~ServiceHost() = default;

    // Any thread. Whether the process runs on another node.
    [[nodiscard]] virtual bool is_remote(ProcId process) const noexcept = 0;
    // Any thread. kNoPe: a spare.
    [[nodiscard]] virtual PeId own_pe() const noexcept = 0;

    // The thread has woken up, for whatever reason; and how long it may sleep until it has to, -1: as long as it likes.
    virtual void service_woken(std::int64_t now_ns) noexcept = 0;
    [[nodiscard]] virtual int service_timeout_ms(std::int64_t now_ns) const noexcept = 0;
    // Something fails for too long while everybody lives: the job shall end with this line. Must return, as the thread
    // has to go on hearing what follows. May be called again, and then does nothing.
    virtual void end_by_service(const std::string& line) noexcept = 0;
    // The service is about to kill this process.
    virtual void before_kill() noexcept = 0;
};

}  // namespace sft
