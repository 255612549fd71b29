#include "tools/oshrun/agent_hub.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tools/common/text.hpp"
#include "tools/oshrun/clock.hpp"
#include "tools/oshrun/tcp.hpp"

namespace sft::tools {
namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr std::int64_t kStrangerPatience_ns = 10'000 * kNsPerMs;
constexpr std::size_t kStrangersMax = 256;
// An agent that takes nothing for so long that this much waits for it is as good as gone.
constexpr std::size_t kWaitingMax = 64U << 20;

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
    : entrance_(std::move(entrance)), silence_ms_(silence_ms), own_time_(silence_ms * kNsPerMs / kBeatsPerBound) {
    hosts_.push_back({own_host_name(), false, -1, {}});
}

AgentHub::~AgentHub() = default;

void AgentHub::watch(Poller& poller) {
    poller_ = &poller;
    if (entrance_) {
        poller.add(entrance_->listener.get(), Source::agent_listener, 0);
    }
}

bool AgentHub::handle(const Poller::News& news) {
    switch (news.source) {
        case Source::agent_listener: accept_agents(); return true;
        case Source::agent: hear(static_cast<int>(news.id)); return true;
        case Source::input: read_input(); return true;
        case Source::output: write_relay(news.id); return true;
        default: return false;
    }
}

void AgentHub::accept_agents() {
    std::string from;
    while (Fd fd = accept_from(entrance_->listener, from)) {
        const auto strangers =
            std::count_if(lines_.begin(), lines_.end(), [](const auto& item) { return item.second.host < 0; });
        if (static_cast<std::size_t>(strangers) >= kStrangersMax) {
            continue;
        }
        const int number = fd.get();
        poller_->add(number, Source::agent, static_cast<std::uint32_t>(number));
        Line& line = lines_[number];
        line.stream = FrameStream(std::move(fd), sizeof(HelloFrame));
        line.heard_ns = now_ns();
        line.from = from;
    }
}

void AgentHub::hear(int fd) {
    if (!lines_.contains(fd)) {
        return;
    }
    const FrameStream::State state = lines_.at(fd).stream.receive();
    while (lines_.contains(fd)) {
        Line& line = lines_.at(fd);
        const auto frame = line.stream.next();
        if (!frame) {
            break;
        }
        line.heard_ns = now_ns();
        if (line.host < 0) {
            hear_stranger(fd, *frame);
        } else {
            hear_member(line, *frame);
        }
    }
    if (!lines_.contains(fd)) {
        return;
    }
    lines_.at(fd).stream.flush();
    if (lines_.at(fd).stream.is_broken()) {
        drop(fd, "what it sends is not of this job");
    } else if (state != FrameStream::State::open) {
        drop(fd, "the connection to it has ended");
    }
}

void AgentHub::hear_stranger(int fd, const Frame& frame) {
    Line& line = lines_.at(fd);
    const auto hello = fixed_part<HelloFrame>(frame);
    if (frame.kind != FrameKind::hello || !hello || !are_equal(hello->secret, entrance_->address.agent_secret) ||
        hello->event_layout != JobEvent{}.layout || is_ending_) {
        drop(fd, "it does not know the job's secret");
        return;
    }
    line.stream.believe();
    line.host = static_cast<std::int32_t>(hosts_.size());
    hosts_.push_back({text_of(hello->host), false, hello->pretended_node, {}});
    WelcomeFrame welcome;
    welcome.secret = entrance_->address.guardian_secret;
    welcome.clock_ns = now_ns();
    welcome.silence_ms = silence_ms_;
    std::snprintf(welcome.boot_id, sizeof welcome.boot_id, "%s", boot_id().c_str());
    line.stream.send(FrameKind::welcome, welcome);
}

void AgentHub::hear_member(Line& line, const Frame& frame) {
    Tidings news;
    news.host = line.host;
    switch (frame.kind) {
        case FrameKind::hello:
            if (const auto hello = fixed_part<HelloFrame>(frame)) {
                hosts_[static_cast<std::size_t>(line.host)].agent = {hello->pid, hello->start_time};
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
                news.kind = Tidings::Kind::started;
                news.started = *started;
                break;
            }
            return;
        case FrameKind::output: relay(line.host, frame); return;
        case FrameKind::input_taken:
            if (const auto count = fixed_part<CountFrame>(frame)) {
                input_untaken_bytes_ -= std::min<std::size_t>(input_untaken_bytes_, count->bytes);
                read_input();
            }
            return;
        case FrameKind::input_closed: input_.reset(); return;
        case FrameKind::remark:
            print_line(fmt::format("oshrun: warning: {}: {}", hosts_[static_cast<std::size_t>(line.host)].name,
                                   frame.payload));
            return;
        default: return;  // alive
    }
    news.fact.host = line.host;
    tidings_.push_back(std::move(news));
}

void AgentHub::drop(int fd, const std::string& why) {
    if (lines_.at(fd).host >= 0) {
        lose(fd, why);
        return;
    }
    if (!has_named_stranger_ && !is_ending_) {
        has_named_stranger_ = true;
        print_line(
            fmt::format("oshrun: warning: a connection from {} has been dropped: {} (others are dropped silently)",
                        lines_.at(fd).from, why));
    }
    lines_.erase(fd);
}

void AgentHub::lose(int fd, const std::string& why) {
    const std::int32_t host = lines_.at(fd).host;
    lines_.erase(fd);
    hosts_[static_cast<std::size_t>(host)].is_lost = true;
    if (host == input_host_) {
        input_.reset();
    }
    if (!is_ending_) {
        Tidings news;
        news.kind = Tidings::Kind::lost;
        news.host = host;
        news.why = why;
        tidings_.push_back(std::move(news));
    }
}

void AgentHub::attend(std::int64_t now_ns) {
    const bool was_away = own_time_.was_away(now_ns);
    std::vector<std::pair<int, std::string>> gone;
    for (auto& [fd, line] : lines_) {
        if (was_away) {
            line.heard_ns = now_ns;
        }
        const std::int64_t silence_ns = line.host < 0 ? kStrangerPatience_ns : silence_ms_ * kNsPerMs;
        if (silence_ns != 0 && now_ns - line.heard_ns > silence_ns) {
            gone.emplace_back(fd, line.host < 0 ? "it says nothing"
                                                : fmt::format("nothing has been heard from it for {} ms "
                                                              "(SHMEM_FT_NODE_TIMEOUT)",
                                                              silence_ms_));
            continue;
        }
        if (line.stream.bytes_to_send() > kWaitingMax) {
            gone.emplace_back(fd, "it takes nothing any more");
            continue;
        }
        if (line.host >= 0 && silence_ms_ != 0 && now_ns - line.told_ns >= silence_ns / kBeatsPerBound) {
            line.told_ns = now_ns;
            line.stream.send(FrameKind::alive);
        }
        if (line.stream.has_to_send() != line.is_waiting_to_send) {
            line.is_waiting_to_send = line.stream.has_to_send();
            poller_->change(fd, Source::agent, static_cast<std::uint32_t>(fd),
                            line.is_waiting_to_send ? std::uint32_t{EPOLLIN | EPOLLOUT} : std::uint32_t{EPOLLIN});
        }
    }
    for (const auto& [fd, why] : gone) {
        drop(fd, why);
    }
}

std::optional<std::int64_t> AgentHub::next_deadline_ns() const {
    std::optional<std::int64_t> deadline;
    for (const auto& [fd, line] : lines_) {
        const std::int64_t own = line.host < 0      ? line.heard_ns + kStrangerPatience_ns
                                 : silence_ms_ != 0 ? line.told_ns + silence_ms_ * kNsPerMs / kBeatsPerBound
                                                    : now_ns() + 60'000 * kNsPerMs;
        deadline = deadline ? std::min(*deadline, own) : own;
    }
    return deadline;
}

std::vector<AgentHub::Tidings> AgentHub::take_tidings() { return std::exchange(tidings_, {}); }

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

AgentHub::Line* AgentHub::line_of(std::int32_t host) {
    for (auto& item : lines_) {
        if (item.second.host == host) {
            return &item.second;
        }
    }
    return nullptr;
}

void AgentHub::answer(std::int32_t host, std::int32_t connection, Answer answer) {
    if (Line* line = line_of(host)) {
        line->stream.send(FrameKind::answer, AnswerFrame{connection, answer});
    }
}

void AgentHub::signal(std::int32_t host, const SignalFrame& order) {
    if (Line* line = line_of(host)) {
        line->stream.send(FrameKind::signal, order);
    }
}

void AgentHub::signal_everywhere(SignalScope scope, int number) {
    for (std::size_t host = 1; host < hosts_.size(); ++host) {
        signal(static_cast<std::int32_t>(host), {scope, -1, number});
    }
}

void AgentHub::watch_for_standstill(std::uint32_t bound_ms) {
    for (auto& item : lines_) {
        if (item.second.host >= 0) {
            item.second.stream.send(FrameKind::watch, WatchFrame{bound_ms});
        }
    }
}

void AgentHub::start(std::int32_t host, const StartFrame& order, const std::vector<std::string>& command) {
    if (Line* line = line_of(host)) {
        std::string words;
        for (const std::string& word : command) {
            words += word;
            words += '\0';
        }
        line->stream.send(FrameKind::start, order, words);
    }
}

void AgentHub::end_agents(int patience_ms) {
    is_ending_ = true;
    std::erase_if(lines_, [](const auto& item) { return item.second.host < 0; });
    for (auto& item : lines_) {
        item.second.stream.send(FrameKind::end);
    }
    const std::int64_t deadline_ns = now_ns() + patience_ms * kNsPerMs;
    while (!lines_.empty() && now_ns() < deadline_ns) {
        attend(now_ns());
        constexpr int kLook_ms = 100;
        for (const Poller::News& news : poller_->wait(kLook_ms)) {
            if (news.source == Source::agent || news.source == Source::output) {
                handle(news);
            }
        }
        tidings_.clear();
    }
    lines_.clear();
}

}  // namespace sft::tools
