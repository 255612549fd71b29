// What a process of oshrun's waits for: descriptors, each with a kind and a number by which its news are told.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <vector>

#include "tools/common/fd.hpp"

namespace sft::tools {

// In the order in which a batch of news is handled: reports of a process come before its end.
enum class Source : std::uint32_t {
    front,
    listener,
    connection,
    agent_listener,
    agent,
    guardian,
    roads,
    process,
    child_signal,
    input,
    output
};

class Poller {
public:
    struct Event {
        Source source{};
        std::uint32_t id = 0;
    };

    // False: too many files are open on this system.
    [[nodiscard]] bool open();
    // False: a descriptor that cannot be waited for (a file).
    bool add(int fd, Source source, std::uint32_t id, std::uint32_t events = EPOLLIN);
    void change(int fd, Source source, std::uint32_t id, std::uint32_t events);
    void remove(int fd);

    // Sorted by source. timeout_ms -1: until there is something.
    [[nodiscard]] std::vector<Event> wait(int timeout_ms);

private:
    Fd epoll_;
};

}  // namespace sft::tools
