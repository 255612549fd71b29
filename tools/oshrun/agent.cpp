#include "tools/oshrun/agent.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <vector>

#include "base/clock.hpp"
#include "base/realtime.hpp"
#include "tools/oshrun/agent_impl.hpp"
#include "tools/oshrun/exec_pe.hpp"
#include "tools/oshrun/host_judge.hpp"
#include "tools/oshrun/joining.hpp"
#include "tools/oshrun/preflight.hpp"

namespace sft::tools {
namespace {

// More than that is not sent to a guardian whose reader takes nothing: who writes must wait.
constexpr std::size_t kOutputUntakenMax = 1U << 20;
// Then another connection is tried; the old one may still come to life.
constexpr std::int64_t kBeatsMissed = 3;

}  // namespace

Agent::Agent(AgentTask task)
    : task_(std::move(task)),
      session_(std::move(task_.guardian)),
      processes_(std::move(task_.socket), "the program"),
      own_time_(beat_period_ns(task_.silence_ms)),
      heard_ns_(now_ns()) {}

bool Agent::start() {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, "oshrun-agent");
    std::signal(SIGPIPE, SIG_IGN);
    sigset_t mask;
    sigemptyset(&mask);
    for (const int number : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) {
        sigaddset(&mask, number);
    }
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    signals_ = Fd(signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
    raise_file_limit();
    // Spares that are started here find us as the others do.
    setenv("SHMEM_FT_JOB_SOCKET", task_.socket_name.c_str(), 1);
    if (!signals_ || !poller_.open()) {
        return false;
    }
    poller_.add(signals_.get(), Source::child_signal, 0);
    poller_.add(session_.fd(), Source::guardian, 0);
    processes_.watch(poller_);
    return true;
}

int Agent::run() {
    if (!start()) {
        return EXIT_FAILURE;
    }
    if (task_.is_realtime) {
        prefer_this_thread();
    }
    task_.hello.pid = getpid();
    task_.hello.start_time = process_start_time(task_.hello.pid);
    session_.send(FrameKind::hello, task_.hello);
    roads_ = std::make_unique<AgentRoads>(task_.address, task_.hello);
    poller_.add(roads_->fd(), Source::roads, 0);
    if (task_.forward_listener) {
        forward_ = std::make_unique<AgentForward>(std::move(task_.forward_listener), task_.address);
    }
    hear_guardian();  // what came with the welcome
    while (!is_over_) {
        for (const Poller::Event& news : poller_.wait(timeout_ms())) {
            if (!processes_.handle(news)) {
                handle(news);
            }
        }
        tell_facts();
        end_who_stands_still();
        attend_to_outputs();
        keep_in_touch();
    }
    tell_last_words();
    end_everything();
    return EXIT_SUCCESS;
}

void Agent::handle(const Poller::Event& news) {
    switch (news.source) {
        case Source::guardian: hear_guardian(); break;
        case Source::roads: hear_of_roads(); break;
        case Source::input: write_input(); break;
        case Source::output: read_output(static_cast<int>(news.id)); break;
        case Source::child_signal: {
            signalfd_siginfo info;
            while (read(signals_.get(), &info, sizeof info) == sizeof info) {
                if (info.ssi_signo != SIGCHLD) {
                    is_over_ = is_guardian_lost_ = true;  // told to end by whoever cleans up this host
                }
            }
            processes_.reap_orphans(-1);
            break;
        }
        default: break;
    }
}

void Agent::hear_guardian() {
    const FrameStream::State state = session_.receive();
    while (const auto frame = session_.next()) {
        heard_ns_ = now_ns();
        obey(*frame);
    }
    session_.flush();
    if (session_.is_connected() && (state != FrameStream::State::open || session_.is_broken())) {
        session_.hang_up();
    }
}

// The connection is gone, or silent: another one is looked for. What comes over the old one is good meanwhile.
void Agent::look_for_road(std::int64_t now_ns) {
    const bool is_silent =
        task_.silence_ms != 0 && now_ns - heard_ns_ > kBeatsMissed * beat_period_ns(task_.silence_ms);
    if (!session_.is_connected() || is_silent) {
        roads_->look(session_.taken());
    } else {
        roads_->stop();
    }
}

void Agent::hear_of_roads() {
    AgentRoads::Outcome outcome = roads_->take_outcome();
    if (outcome.found) {
        session_.resume(std::move(outcome.found->stream), outcome.found->taken);
        is_connected_on_ = !outcome.found->is_direct;
        poller_.add(session_.fd(), Source::guardian, 0);
        heard_ns_ = now_ns();
    } else if (outcome.is_answering) {
        heard_ns_ = now_ns();  // it lives, but stands still
    } else if (outcome.is_gone && roads_->is_looking()) {
        is_over_ = is_guardian_lost_ = true;
    }
}

void Agent::obey(const Frame& frame) {
    switch (frame.kind) {
        case FrameKind::answer:
            if (const auto order = fixed_part<AnswerFrame>(frame)) {
                answer(*order);
            }
            break;
        case FrameKind::signal:
            if (const auto order = fixed_part<SignalFrame>(frame)) {
                take_signal(*order);
            }
            break;
        case FrameKind::watch:
            if (const auto order = fixed_part<WatchFrame>(frame); order && !stand_still_) {
                stand_still_.emplace(order->bound_ms * kNsPerMs);
            }
            break;
        case FrameKind::start: start_spare(frame); break;
        case FrameKind::output_taken:
            if (const auto count = fixed_part<CountFrame>(frame)) {
                output_untaken_bytes_ -= std::min<std::size_t>(output_untaken_bytes_, count->bytes);
            }
            break;
        case FrameKind::input: take_input(frame.payload); break;
        case FrameKind::end: is_over_ = true; break;
        case FrameKind::peer:
            if (const auto peer = fixed_part<PeerFrame>(frame); peer && peer->port <= 65535) {
                roads_->add_peer(std::string(peer->address, strnlen(peer->address, sizeof peer->address)),
                                 static_cast<std::uint16_t>(peer->port));
            }
            break;
        default: break;  // alive
    }
}

void Agent::tell_facts() {
    for (const Fact& fact : processes_.take_facts()) {
        if (fact.ended_pid > 0) {
            session_.send(FrameKind::ended, EndedFrame{fact.ended_pid, fact.reason.status()});
            continue;
        }
        if (fact.event.kind == kEventLaunched) {
            remember_daemon(fact.event.pid);
        }
        if (fact.event.kind == JobEventKind::input_wanted) {
            processes_.answer_go(fact.connection, -1);  // oshrun keeps input for its own host only
            continue;
        }
        EventFrame frame;
        frame.connection = fact.connection;
        frame.event = fact.event;
        for (std::int64_t* time : {&frame.event.begin_ns, &frame.event.end_ns}) {
            *time += *time == 0 ? 0 : task_.clock_offset_ns;
        }
        session_.send(FrameKind::event, frame);
    }
}

// To be ended with the job if the launcher does not do it any more.
void Agent::remember_daemon(std::int32_t pid) {
    const ProcessName parent = parent_of(pid);
    const std::string name = command_name(parent.pid);
    if (name == "orted" || name == "prted") {
        daemons_.insert(parent);
    }
}

void Agent::answer(const AnswerFrame& order) {
    if (order.answer == Answer::no) {
        processes_.answer_no(order.connection);
        return;
    }
    std::array<int, 2> ends{-1, -1};
    const bool gets_input = order.answer == Answer::go_with_input && pipe2(ends.data(), O_CLOEXEC) == 0;
    const Fd read_end(ends[0]);
    if (gets_input) {
        input_ = Fd(ends[1]);
        fcntl(input_.get(), F_SETFL, O_NONBLOCK);
        poller_.add(input_.get(), Source::input, 0, 0);
    }
    processes_.answer_go(order.connection, read_end.get());
}

void Agent::take_signal(const SignalFrame& order) {
    switch (order.scope) {
        case SignalScope::one: processes_.signal(order.pid, order.number); break;
        case SignalScope::one_stopped:
            if (processes_.is_watched(order.pid) && is_stopped(order.pid)) {
                processes_.signal(order.pid, order.number);
            }
            break;
        case SignalScope::all: processes_.signal_all(order.number); break;
        case SignalScope::leftovers:
            for (const ProcessName& process : marked_processes()) {
                send_signal(process, order.number);
            }
            break;
    }
}

void Agent::start_spare(const Frame& frame) {
    const auto order = fixed_part<StartFrame>(frame, true);
    if (!order || !frame.payload.ends_with('\0')) {
        return;
    }
    JoinerTask task;
    task.rank = order->rank;
    task.donor_pid = order->donor_pid;
    task.donor_fd = order->donor_fd;
    std::string_view rest = std::string_view(frame.payload).substr(sizeof(StartFrame));
    while (!rest.empty()) {
        task.command.emplace_back(rest.substr(0, rest.find('\0')));
        rest.remove_prefix(task.command.back().size() + 1);
    }
    std::array<int, 2> out{-1, -1};
    std::array<int, 2> err{-1, -1};
    StartedFrame started{order->rank, -1, 0};
    const bool has_pipes = pipe2(out.data(), O_CLOEXEC) == 0 && pipe2(err.data(), O_CLOEXEC) == 0;
    const Fd out_write(out[1]);
    const Fd err_write(err[1]);
    task.stdout_fd = out[1];
    task.stderr_fd = err[1];
    started.pid = has_pipes && !task.command.empty() ? start_joiner(task) : -1;
    if (started.pid < 0) {
        started.error_number = errno;
        const Fd unused_out(out[0]);
        const Fd unused_err(err[0]);
    } else {
        for (const auto& [fd, as] : {std::pair{out[0], STDOUT_FILENO}, std::pair{err[0], STDERR_FILENO}}) {
            outputs_[fd] = static_cast<std::uint32_t>(as);
            poller_.add(fd, Source::output, static_cast<std::uint32_t>(fd),
                        are_outputs_paused_ ? 0U : std::uint32_t{EPOLLIN});
        }
    }
    // Before anything that it says.
    session_.send(FrameKind::started, started);
    if (started.pid > 0) {
        processes_.watch_process(started.pid);
    }
}

void Agent::take_input(const std::string& bytes) {
    if (bytes.empty()) {
        is_input_complete_ = true;
    }
    input_bytes_ += bytes;
    write_input();
}

void Agent::write_input() {
    pollfd entry{.fd = input_.get(), .events = POLLOUT, .revents = 0};
    poll(&entry, 1, 0);
    if (!input_ || (entry.revents & POLLERR) != 0) {
        if (input_ || !input_bytes_.empty()) {
            close_input();  // nobody reads any more
        }
        return;
    }
    while (!input_bytes_.empty()) {
        const ssize_t bytes = write(input_.get(), input_bytes_.data(), input_bytes_.size());
        if (bytes < 0 && errno == EINTR) {
            continue;
        }
        if (bytes < 0 && errno == EAGAIN) {
            break;
        }
        if (bytes < 0) {
            close_input();
            return;
        }
        input_bytes_.erase(0, static_cast<std::size_t>(bytes));
        session_.send(FrameKind::input_taken, CountFrame{static_cast<std::uint32_t>(bytes)});
    }
    if (input_bytes_.empty() && is_input_complete_) {
        input_.reset();
        return;
    }
    poller_.change(input_.get(), Source::input, 0, input_bytes_.empty() ? 0U : std::uint32_t{EPOLLOUT});
}

void Agent::close_input() {
    input_.reset();
    input_bytes_.clear();
    session_.send(FrameKind::input_closed);
}

void Agent::read_output(int fd) {
    std::array<char, 16384> buffer;
    const ssize_t bytes = read(fd, buffer.data(), buffer.size());
    if (bytes > 0) {
        output_untaken_bytes_ += static_cast<std::size_t>(bytes);
        session_.send(FrameKind::output, OutputFrame{outputs_.at(fd)},
                      {buffer.data(), static_cast<std::size_t>(bytes)});
    } else if (bytes == 0 || errno != EINTR) {
        outputs_.erase(fd);
        close(fd);
    }
}

void Agent::attend_to_outputs() {
    const bool must_wait = output_untaken_bytes_ > kOutputUntakenMax;
    if (must_wait != are_outputs_paused_) {
        are_outputs_paused_ = must_wait;
        for (const auto& item : outputs_) {
            poller_.change(item.first, Source::output, static_cast<std::uint32_t>(item.first),
                           must_wait ? 0U : std::uint32_t{EPOLLIN});
        }
    }
    if (!session_.is_connected()) {
        return;
    }
    const std::uint32_t events = session_.has_to_send() ? std::uint32_t{EPOLLIN | EPOLLOUT} : std::uint32_t{EPOLLIN};
    poller_.change(session_.fd(), Source::guardian, 0, events);
}

void Agent::keep_in_touch() {
    if (is_over_) {
        return;
    }
    const std::int64_t now = now_ns();
    if (own_time_.was_away(now)) {
        heard_ns_ = now;
    }
    if (is_guardian_lost(now - heard_ns_, session_.is_connected(), task_.silence_ms * kNsPerMs)) {
        is_over_ = is_guardian_lost_ = true;
        return;
    }
    look_for_road(now);
    if (now - told_ns_ >= beat_period_ns(task_.silence_ms)) {
        told_ns_ = now;
        session_.beat();
    }
}

int Agent::timeout_ms() const {
    std::int64_t wait_ns = told_ns_ + beat_period_ns(task_.silence_ms) - now_ns();
    if (stand_still_ && stand_still_->is_on()) {
        wait_ns = std::min(wait_ns, stand_still_->period_ns());
    }
    return static_cast<int>(std::max<std::int64_t>(0, (wait_ns + kNsPerMs - 1) / kNsPerMs));
}

int run_agent(AgentTask task) { return Agent(std::move(task)).run(); }

}  // namespace sft::tools
