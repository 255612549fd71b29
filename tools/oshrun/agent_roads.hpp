// How an agent gets in touch with the guardian: directly, or when that fails, on through another agent
// (agent_forward.hpp).
//
// Fault model: any way may be cut, slow, or lead to somebody who has gone. A guardian whose port refuses connections
// has ended. One whose kernel takes connections lives, though it may be standing still.
//
// Threads: looking for a way blocks, so it has a thread of its own; everything else is the owner's.
#pragma once

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.hpp"
#include "tools/common/fd.hpp"
#include "tools/oshrun/agent_wire.hpp"

namespace sft::tools {

// The agent's side of the greeting.
struct Reply {
    enum class Kind { welcome, none, refused, closed, dismissed };
    Kind kind = Kind::refused;  // none: not in time; closed: no answer; dismissed: the guardian has given up this host
    WelcomeFrame welcome;
};
// error_line: why it is not a welcome.
[[nodiscard]] Reply greet_guardian(FrameStream& stream, const HelloFrame& hello, const GuardianAddress& guardian,
                                   int patience_ms, std::string& error_line);

class AgentRoads {
public:
    struct Found {
        FrameStream stream;
        std::uint64_t taken = 0;  // by the guardian, of what we have sent
        bool is_direct = true;
    };
    // What has been found out since the last call.
    struct Outcome {
        std::optional<Found> found;
        bool is_gone = false;       // the guardian has ended, or does not want to hear of this host any more
        bool is_answering = false;  // its host takes connections
    };

    AgentRoads(GuardianAddress guardian, HelloFrame hello);
    ~AgentRoads();
    AgentRoads(const AgentRoads&) = delete;
    AgentRoads& operator=(const AgentRoads&) = delete;

    // Readable: there is outcome.
    [[nodiscard]] int fd() const noexcept { return outcome_fd_.get(); }
    void add_peer(std::string address, std::uint16_t port);
    // From now on, until one is found or stop() is called. taken: of what the guardian has sent.
    void look(std::uint64_t taken);
    void stop();
    [[nodiscard]] bool is_looking();
    [[nodiscard]] Outcome take_outcome();

private:
    struct Peer {
        std::string address;
        std::uint16_t port = 0;
    };
    void run();
    void try_road(const std::optional<Peer>& peer, HelloFrame hello, int patience_ms);

    GuardianAddress guardian_;
    HelloFrame hello_;
    Fd outcome_fd_;
    Mutex mutex_{MutexRank::tool};
    Condition changed_;
    std::vector<Peer> peers_ SFT_GUARDED_BY(mutex_);
    std::uint64_t taken_ SFT_GUARDED_BY(mutex_) = 0;
    std::uint64_t n_looks_ SFT_GUARDED_BY(mutex_) = 0;  // a way that was found for an older one is not taken
    bool is_looking_ SFT_GUARDED_BY(mutex_) = false;
    bool is_over_ SFT_GUARDED_BY(mutex_) = false;
    Outcome outcome_ SFT_GUARDED_BY(mutex_);
    std::thread thread_;
};

}  // namespace sft::tools
