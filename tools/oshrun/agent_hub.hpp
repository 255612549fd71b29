// The guardian's side of the agents (agent.hpp): who the hosts of the job are, what their agents tell, what they are
// told.
//
// Fault model: a host may be lost at any time, and links may be cut, to it alone or to others. Connections that break
// or fall silent are made anew by the agents, if need be through each other (agent_roads.hpp), and what has been said
// goes on. A host is lost when its agent has certainly ended (its port refuses), or when host_judge.hpp says so. That
// is final: whoever comes back later is told so, and ends its processes. Anybody may connect; who does not show the
// secret is dropped, and the first of them is named. The guardian itself may stand still for any time: it judges nobody
// by what it could not hear.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/oshrun/agent_session.hpp"
#include "tools/oshrun/agent_wire.hpp"
#include "tools/oshrun/local_processes.hpp"
#include "tools/oshrun/own_time.hpp"
#include "tools/oshrun/poller.hpp"
#include "tools/oshrun/process_tree.hpp"
#include "tools/oshrun/stderr_pump.hpp"

namespace sft::tools {

// Opened before the launcher starts, because its address goes along.
struct AgentEntrance {
    Fd listener;
    GuardianAddress address;
};
// address: what to listen on, in digits. Nothing: error_line says why.
[[nodiscard]] std::optional<AgentEntrance> open_entrance(const std::string& address, std::string& error_line);

class AgentHub {
public:
    struct Host {
        std::string name;
        bool is_lost = false;
        int pretended_node = -1;  // an agent on this machine
        ProcessName agent;        // on its own host
    };
    // What the hub has to tell, in the order in which it was heard from a host.
    struct AgentEvent {
        enum class Kind { fact, started, lost };
        Kind kind{};
        std::int32_t host = 0;
        Fact fact;
        StartedFrame started;
        std::string why;  // lost
    };

    // silence_ms 0: only the end of a connection counts.
    AgentHub(std::optional<AgentEntrance> entrance, std::uint32_t silence_ms);
    ~AgentHub();
    AgentHub(const AgentHub&) = delete;
    AgentHub& operator=(const AgentHub&) = delete;

    void watch(Poller& poller);
    // News of the sources agent_listener, agent, input and output; false: of another one.
    bool handle(const Poller::Event& news);
    // Heartbeats, silence, room to send. Call it after every batch of news.
    void attend(std::int64_t now_ns);
    [[nodiscard]] std::optional<std::int64_t> next_deadline_ns() const;
    [[nodiscard]] std::vector<AgentEvent> take_events();

    // Host 0 is the guardian's own.
    [[nodiscard]] const std::vector<Host>& hosts() const noexcept { return hosts_; }
    [[nodiscard]] bool has_lost_any() const;
    // Agents that run below the guardian itself.
    [[nodiscard]] std::vector<ProcessName> agents_here() const;

    // Whether the job has declared all processes of a host dead.
    enum class AgreedLost : std::uint8_t { no, yes };
    void set_agreed_lost(std::int32_t host, AgreedLost agreed);

    void answer(std::int32_t host, std::int32_t connection, Answer answer);
    // fd is read from now on for the process that has got Answer::go_with_input.
    void send_input(std::int32_t host, Fd fd);
    void signal(std::int32_t host, const SignalFrame& order);
    void signal_everywhere(SignalScope scope, int number);
    void watch_for_standstill(std::uint32_t bound_ms);
    void start(std::int32_t host, const StartFrame& order, const std::vector<std::string>& command);

    // Tells all agents that the job is over, and waits until they have cleaned up, or for at most patience_ms.
    void end_agents(int patience_ms);
    // Everything that the agents have sent of the output of processes has been written, or nobody reads it any more.
    void wait_for_output(int patience_ms);
    // The error number with which output for that descriptor could not be written; 0: nothing is missing.
    [[nodiscard]] int lost_output(int descriptor) const;

private:
    struct Line {
        Session session;
        std::string address;     // of its agent, and the port by which others are connected on
        std::uint16_t port = 0;  // 0: none
        std::int64_t heard_ns = 0;
        std::int64_t told_ns = 0;
        std::int64_t broken_ns = 0;  // the last time that a connection ended
        bool is_agreed_lost = false;
        bool is_connected_on = false;  // by another agent
        bool is_waiting_to_send = false;
    };
    struct Stranger {  // has not shown the secret yet
        FrameStream stream;
        std::int64_t since_ns = 0;
        std::string from;
    };
    // Bytes on their way to one of our own streams; a thread writes them, because that may block.
    struct Relay {
        Fd pipe;
        std::unique_ptr<StderrPump> pump;
        std::deque<std::pair<std::int32_t, std::string>> waiting;  // host, bytes
    };

    void accept_agents();
    void hear(int fd);
    void hear_stranger(int fd);
    void take_in(int fd, const HelloFrame& hello);
    void take_back(int fd, const HelloFrame& hello);
    void introduce(std::int32_t host);
    [[nodiscard]] WelcomeFrame welcome_to(std::int32_t host) const;
    void hear_host(std::int32_t host);
    void hear_member(std::int32_t host, const Frame& frame);
    void connection_ended(std::int32_t host);
    void look_at_port(std::int32_t host);
    void judge(std::int32_t host, std::int64_t now_ns);
    void relay(std::int32_t host, const Frame& frame);
    void write_relay(std::uint32_t descriptor);
    void read_input();
    void drop_stranger(int fd, const std::string& why);
    void drop_oldest_stranger();
    void drop_silent_strangers(std::int64_t now_ns, bool was_away);
    [[nodiscard]] std::optional<std::int64_t> first_stranger_deadline_ns() const;
    void lose(std::int32_t host, const std::string& why);
    [[nodiscard]] Session* session_of(std::int32_t host);

    std::optional<AgentEntrance> entrance_;
    std::uint32_t silence_ms_;
    OwnTime own_time_;
    Poller* poller_ = nullptr;
    std::vector<Host> hosts_;
    std::vector<Line> lines_;  // by host
    std::map<int, std::int32_t> hosts_by_fd_;
    std::map<int, Stranger> strangers_;  // by descriptor
    std::vector<AgentEvent> events_;
    std::map<std::uint32_t, Relay> relays_;  // by descriptor: 1 or 2
    Fd input_;
    std::int32_t input_host_ = -1;
    std::size_t input_untaken_bytes_ = 0;
    bool is_input_a_file_ = false;
    bool has_named_stranger_ = false;
    bool has_named_crowd_ = false;
    bool is_ending_ = false;
};

}  // namespace sft::tools
