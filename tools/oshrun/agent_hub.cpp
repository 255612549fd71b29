#include "tools/oshrun/agent_hub.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/clock.hpp"
#include "tools/common/text.hpp"
#include "tools/oshrun/host_judge.hpp"
#include "tools/oshrun/tcp.hpp"

namespace sft::tools {
namespace {

// An agent that takes nothing for so long that this much waits for it is as good as gone.
constexpr std::size_t kWaitingMax = 64U << 20;
// Whether an agent has ended; a port of a host that is there answers at once.
constexpr int kLookAtPort_ms = 100;
constexpr std::int64_t kLookAtPortFor_ns = 1'000 * kNsPerMs;

template <std::size_t N>
std::string text_of(const char (&field)[N]) {
    return {field, strnlen(field, N)};
}

}  // namespace

std::optional<AgentEntrance> open_entrance(const std::string& address, std::string& error_line) {
    AgentEntrance entrance;
    auto listening = listen_on(address, error_line);
    if (!listening) {
        return std::nullopt;
    }
    entrance.listener = std::move(listening->fd);
    entrance.address = {address, listening->port, {}, {}, own_host_name()};
    for (SecretHalf* half : {&entrance.address.agent_secret, &entrance.address.guardian_secret}) {
        if (getrandom(half->data(), half->size(), 0) != static_cast<ssize_t>(half->size())) {
            error_line = fmt::format("no random numbers: {}", strerrordesc_np(errno));
            return std::nullopt;
        }
    }
    return entrance;
}

AgentHub::AgentHub(std::optional<AgentEntrance> entrance, std::uint32_t silence_ms)
    : entrance_(std::move(entrance)), silence_ms_(silence_ms), own_time_(beat_period_ns(silence_ms)) {
    hosts_.push_back({own_host_name(), false, -1, {}});
    lines_.emplace_back();  // the guardian's own host has none
}

AgentHub::~AgentHub() = default;

void AgentHub::watch(Poller& poller) {
    poller_ = &poller;
    if (entrance_) {
        poller.add(entrance_->listener.get(), Source::agent_listener, 0);
    }
}

bool AgentHub::handle(const Poller::Event& news) {
    switch (news.source) {
        case Source::agent_listener: accept_agents(); return true;
        case Source::agent: hear(static_cast<int>(news.id)); return true;
        case Source::input: read_input(); return true;
        case Source::output: write_relay(news.id); return true;
        default: return false;
    }
}

void AgentHub::hear(int fd) {
    if (strangers_.contains(fd)) {
        hear_stranger(fd);
    } else if (const auto at = hosts_by_fd_.find(fd); at != hosts_by_fd_.end()) {
        hear_host(at->second);
    }
}

WelcomeFrame AgentHub::welcome_to(std::int32_t host) const {
    WelcomeFrame welcome;
    welcome.secret = entrance_->address.guardian_secret;
    welcome.clock_ns = now_ns();
    welcome.silence_ms = silence_ms_;
    welcome.number = host;
    welcome.taken = lines_[static_cast<std::size_t>(host)].session.taken();
    std::snprintf(welcome.boot_id, sizeof welcome.boot_id, "%s", boot_id().c_str());
    return welcome;
}

void AgentHub::take_in(int fd, const HelloFrame& hello) {
    const auto host = static_cast<std::int32_t>(hosts_.size());
    hosts_.push_back({text_of(hello.host), false, hello.pretended_node, {}});
    Line& line = lines_.emplace_back();
    Stranger stranger = std::move(strangers_.at(fd));
    strangers_.erase(fd);
    line.address = stranger.from;
    line.port = static_cast<std::uint16_t>(hello.port);
    line.heard_ns = now_ns();
    stranger.stream.believe();
    stranger.stream.send(FrameKind::welcome, welcome_to(host));
    line.session = Session(std::move(stranger.stream));
    hosts_by_fd_[fd] = host;
    introduce(host);
}

// Each knows a few others, by which it can reach us.
void AgentHub::introduce(std::int32_t host) {
    constexpr int kPeers = 3;
    const auto tell = [this](std::int32_t whom, std::int32_t of) {
        const Line& line = lines_[static_cast<std::size_t>(of)];
        PeerFrame peer;
        peer.port = line.port;
        std::snprintf(peer.address, sizeof peer.address, "%s", line.address.c_str());
        if (peer.port != 0) {
            lines_[static_cast<std::size_t>(whom)].session.send(FrameKind::peer, peer);
        }
    };
    int n_told = 0;
    for (std::int32_t other = host - 1; other > 0 && n_told < kPeers; --other) {
        if (!hosts_[static_cast<std::size_t>(other)].is_lost) {
            tell(host, other);
            tell(other, host);
            ++n_told;
        }
    }
}

// A further connection of a host that is known, perhaps by another one.
void AgentHub::take_back(int fd, const HelloFrame& hello) {
    const auto index = static_cast<std::size_t>(hello.number);
    const bool is_known =
        hello.number > 0 && index < hosts_.size() && hosts_[index].agent == ProcessName{hello.pid, hello.start_time};
    if (!is_known) {
        drop_stranger(fd, "it is none of the job's hosts");
        return;
    }
    FrameStream stream = std::move(strangers_.at(fd).stream);
    const std::string from = strangers_.at(fd).from;
    strangers_.erase(fd);
    if (hosts_[index].is_lost) {
        stream.send(FrameKind::end);  // its processes have been given up
        return;
    }
    Line& line = lines_[index];
    hosts_by_fd_.erase(line.session.fd());
    line.session.hang_up();
    stream.believe();
    stream.send(FrameKind::welcome, welcome_to(hello.number));
    line.session.resume(std::move(stream), hello.taken);
    line.heard_ns = now_ns();
    line.is_waiting_to_send = false;
    line.is_connected_on = from != line.address;
    hosts_by_fd_[fd] = hello.number;
}

void AgentHub::hear_host(std::int32_t host) {
    Line& line = lines_[static_cast<std::size_t>(host)];
    const FrameStream::State state = line.session.receive();
    while (const auto frame = line.session.next()) {
        line.heard_ns = now_ns();
        hear_member(host, *frame);
    }
    line.session.flush();
    if (line.session.is_broken()) {
        lose(host, "what it sends is not of this job");
    } else if (state != FrameStream::State::open) {
        connection_ended(host);
    }
}

// An agent that lives connects again. Whether it does its port tells, as long as its host is there.
void AgentHub::connection_ended(std::int32_t host) {
    Line& line = lines_[static_cast<std::size_t>(host)];
    hosts_by_fd_.erase(line.session.fd());
    line.session.hang_up();
    line.broken_ns = now_ns();
    if (is_ending_) {
        hosts_[static_cast<std::size_t>(host)].is_lost = true;
    } else if (line.port == 0) {
        lose(host, "the connection to it has ended");
    } else {
        look_at_port(host);
    }
}

void AgentHub::look_at_port(std::int32_t host) {
    const Line& line = lines_[static_cast<std::size_t>(host)];
    std::string ignored;
    if (!connect_to(line.address, line.port, kLookAtPort_ms, ignored) && errno == ECONNREFUSED) {
        lose(host, "oshrun's agent there has ended");
    }
}

void AgentHub::hear_member(std::int32_t host, const Frame& frame) {
    AgentEvent news;
    news.host = host;
    switch (frame.kind) {
        case FrameKind::hello:
            if (const auto hello = fixed_part<HelloFrame>(frame)) {
                hosts_[static_cast<std::size_t>(host)].agent = {hello->pid, hello->start_time};
            }
            return;
        case FrameKind::event:
            if (const auto event = fixed_part<EventFrame>(frame)) {
                news.fact.connection = event->connection;
                news.fact.event = event->event;
                news.fact.event.text[sizeof event->event.text - 1] = '\0';
                break;
            }
            return;
        case FrameKind::ended:
            if (const auto ended = fixed_part<EndedFrame>(frame); ended && ended->pid > 0) {
                news.fact.ended_pid = ended->pid;
                news.fact.reason = FailureReason::from_status(ended->reason);
                break;
            }
            return;
        case FrameKind::started:
            if (const auto started = fixed_part<StartedFrame>(frame)) {
                news.kind = AgentEvent::Kind::started;
                news.started = *started;
                break;
            }
            return;
        case FrameKind::output: relay(host, frame); return;
        case FrameKind::input_taken:
            if (const auto count = fixed_part<CountFrame>(frame)) {
                input_untaken_bytes_ -= std::min<std::size_t>(input_untaken_bytes_, count->bytes);
                read_input();
            }
            return;
        case FrameKind::input_closed: input_.reset(); return;
        case FrameKind::remark:
            print_line(
                fmt::format("oshrun: warning: {}: {}", hosts_[static_cast<std::size_t>(host)].name, frame.payload));
            return;
        default: return;  // alive
    }
    news.fact.host = host;
    events_.push_back(std::move(news));
}

void AgentHub::lose(std::int32_t host, const std::string& why) {
    Line& line = lines_[static_cast<std::size_t>(host)];
    hosts_by_fd_.erase(line.session.fd());
    line.session = Session();
    line.is_connected_on = false;
    hosts_[static_cast<std::size_t>(host)].is_lost = true;
    if (host == input_host_) {
        input_.reset();
    }
    if (!is_ending_) {
        AgentEvent news;
        news.kind = AgentEvent::Kind::lost;
        news.host = host;
        news.why = why;
        events_.push_back(std::move(news));
    }
}

void AgentHub::set_agreed_lost(std::int32_t host, AgreedLost agreed) {
    lines_[static_cast<std::size_t>(host)].is_agreed_lost = agreed == AgreedLost::yes;
}

void AgentHub::judge(std::int32_t host, std::int64_t now_ns) {
    const Line& line = lines_[static_cast<std::size_t>(host)];
    const std::int64_t silence_ns = now_ns - line.heard_ns;
    switch (judge_host({silence_ns, line.session.is_connected(), line.is_agreed_lost}, silence_ms_ * kNsPerMs)) {
        case HostVerdict::stays: break;
        case HostVerdict::lost_by_agreement:
            lose(host, fmt::format("the job has agreed on that, and nothing has been heard from it for {} ms",
                                   silence_ns / kNsPerMs));
            return;
        case HostVerdict::lost_by_silence:
            lose(host, fmt::format("nothing has been heard from it for {} ms, which is {} times SHMEM_FT_NODE_TIMEOUT",
                                   silence_ns / kNsPerMs, kBoundsUntilAlone));
            return;
    }
    if (line.session.bytes_kept() > kWaitingMax) {
        lose(host, "it takes nothing any more");
    } else if (!line.session.is_connected() && !is_ending_ && now_ns - line.broken_ns < kLookAtPortFor_ns) {
        look_at_port(host);
    }
}

void AgentHub::attend(std::int64_t now_ns) {
    const bool was_away = own_time_.was_away(now_ns);
    drop_silent_strangers(now_ns, was_away);
    for (std::size_t host = 1; host < hosts_.size(); ++host) {
        Line& line = lines_[host];
        if (was_away) {
            line.heard_ns = now_ns;
        }
        if (!hosts_[host].is_lost) {
            judge(static_cast<std::int32_t>(host), now_ns);
        }
        if (!line.session.is_connected()) {
            continue;
        }
        if (now_ns - line.told_ns >= beat_period_ns(silence_ms_)) {
            line.told_ns = now_ns;
            line.session.beat();
        }
        if (line.session.has_to_send() != line.is_waiting_to_send) {
            line.is_waiting_to_send = line.session.has_to_send();
            poller_->change(line.session.fd(), Source::agent, static_cast<std::uint32_t>(line.session.fd()),
                            line.is_waiting_to_send ? std::uint32_t{EPOLLIN | EPOLLOUT} : std::uint32_t{EPOLLIN});
        }
    }
}

std::optional<std::int64_t> AgentHub::next_deadline_ns() const {
    std::optional<std::int64_t> deadline;
    const auto add = [&](std::int64_t time_ns) { deadline = deadline ? std::min(*deadline, time_ns) : time_ns; };
    if (const auto first = first_stranger_deadline_ns()) {
        add(*first);
    }
    for (std::size_t host = 1; host < hosts_.size(); ++host) {
        if (!hosts_[host].is_lost) {
            const Line& line = lines_[host];
            add(line.session.is_connected() ? line.told_ns + beat_period_ns(silence_ms_)
                                            : now_ns() + beat_period_ns(silence_ms_));
        }
    }
    return deadline;
}

std::vector<AgentHub::AgentEvent> AgentHub::take_events() { return std::exchange(events_, {}); }

bool AgentHub::has_lost_any() const {
    return std::any_of(hosts_.begin(), hosts_.end(), [](const Host& host) { return host.is_lost; });
}

std::vector<ProcessName> AgentHub::agents_here() const {
    std::vector<ProcessName> found;
    for (const Host& host : hosts_) {
        if (host.pretended_node > 0 && host.agent.pid > 0) {
            found.push_back(host.agent);
        }
    }
    return found;
}

// Null: nobody is there to whom anything could be said.
Session* AgentHub::session_of(std::int32_t host) {
    const auto index = static_cast<std::size_t>(host);
    return host > 0 && index < lines_.size() && !hosts_[index].is_lost ? &lines_[index].session : nullptr;
}

void AgentHub::answer(std::int32_t host, std::int32_t connection, Answer answer) {
    if (Session* session = session_of(host)) {
        session->send(FrameKind::answer, AnswerFrame{connection, answer});
    }
}

void AgentHub::signal(std::int32_t host, const SignalFrame& order) {
    if (Session* session = session_of(host)) {
        session->send(FrameKind::signal, order);
    }
}

void AgentHub::signal_everywhere(SignalScope scope, int number) {
    for (std::size_t host = 1; host < hosts_.size(); ++host) {
        signal(static_cast<std::int32_t>(host), {scope, -1, number});
    }
}

void AgentHub::watch_for_standstill(std::uint32_t bound_ms) {
    for (std::size_t host = 1; host < hosts_.size(); ++host) {
        if (Session* session = session_of(static_cast<std::int32_t>(host))) {
            session->send(FrameKind::watch, WatchFrame{bound_ms});
        }
    }
}

void AgentHub::start(std::int32_t host, const StartFrame& order, const std::vector<std::string>& command) {
    if (Session* session = session_of(host)) {
        std::string words;
        for (const std::string& word : command) {
            words += word;
            words += '\0';
        }
        session->send(FrameKind::start, order, words);
    }
}

void AgentHub::end_agents(int patience_ms) {
    is_ending_ = true;
    strangers_.clear();
    for (std::size_t host = 1; host < hosts_.size(); ++host) {
        if (Session* session = session_of(static_cast<std::int32_t>(host))) {
            session->send(FrameKind::end);
        }
    }
    const auto is_anybody_there = [this] {
        return std::any_of(hosts_.begin() + 1, hosts_.end(), [](const Host& host) { return !host.is_lost; });
    };
    const std::int64_t deadline_ns = now_ns() + patience_ms * kNsPerMs;
    while (is_anybody_there() && now_ns() < deadline_ns) {
        attend(now_ns());
        constexpr int kLook_ms = 100;
        for (const Poller::Event& news : poller_->wait(kLook_ms)) {
            if (news.source == Source::agent || news.source == Source::output ||
                news.source == Source::agent_listener) {
                handle(news);
            }
        }
        events_.clear();
    }
    for (std::size_t host = 1; host < hosts_.size(); ++host) {
        const bool is_unheard = !hosts_[host].is_lost && !lines_[host].session.is_connected();
        if (is_unheard || lines_[host].is_connected_on) {
            print_line(
                fmt::format("oshrun: warning: host {} could not be reached directly in the end: what processes have "
                            "printed there last may be missing",
                            hosts_[host].name));
        }
    }
    lines_.clear();
    hosts_by_fd_.clear();
}

}  // namespace sft::tools
