// A process of a job as oshrun sees it, without the library: it sends what its arguments say, so that any course of
// events can be played.
//
//   fake_pe RANKS:STEP,STEP,... ...      RANKS: a number, or * for those that no other argument names
//
// Steps: hello init taken=PE finalize exiting=CODE global_exit=CODE unrecoverable=TEXT   reports
//        late=STEP (in shmem_init)  wish=PE (a spare is wanted for it)  seen=RANK (found dead, with its host)
//        agreed=RANK (lost, so the job says)
//        sleep=SECONDS  out=TEXT  err=TEXT  read                                          (read: stdin to stdout)
//        exit=CODE  signal=NUMBER  stop  hang                                             ends of the process
//        fork=SECONDS                                  leaves a process behind that holds the output open
//        ignore=SIGNAL                                 does not end by that signal
//        create=FILE  await=FILE  (in $RENDEZVOUS, or a path from /)   says to others that it is here, waits for others
//        environment=NAME  randomised  foreign         shows a variable, the personality; sends another layout
// Like the library, it ends when its connection to the guardian does.

#include <fcntl.h>
#include <poll.h>
#include <sys/personality.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/job_channel.hpp"
#include "base/process_watch.hpp"

namespace {

using sft::JobChannel;
using sft::JobEvent;
using sft::JobEventKind;

std::string rendezvous(const std::string& file) {
    return file.starts_with('/') ? file : std::string(std::getenv("RENDEZVOUS")) + "/" + file;
}

struct Player {
    JobChannel channel;
    int rank = 0;

    void report(JobEventKind kind, int code = 0, int pe = -1, const char* text = "") {
        JobEvent event;
        event.kind = kind;
        event.code = code;
        event.pe = pe;
        std::snprintf(event.text, sizeof event.text, "%s", text);
        channel.report(event);
    }

    void say_hello() {
        const char* name = std::getenv("SHMEM_FT_JOB_SOCKET");
        if (const auto connected = channel.connect(name == nullptr ? "" : name); !connected) {
            std::fprintf(stderr, "fake_pe: %s\n", connected.error().line.c_str());
            _exit(99);
        }
        channel.set_rank(rank);
        std::thread([fd = channel.fd()] {
            pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
            while (poll(&entry, 1, -1) <= 0) {
            }
            _exit(98);
        }).detach();
        report(JobEventKind::hello, 0, rank);
    }
};

void sleep_for(double seconds) {
    timespec rest{.tv_sec = static_cast<time_t>(seconds),
                  .tv_nsec = static_cast<long>((seconds - static_cast<double>(static_cast<time_t>(seconds))) * 1e9)};
    while (nanosleep(&rest, &rest) != 0) {
    }
}

void leave_process_behind(double seconds) {
    if (fork() == 0) {
        setsid();
        sleep_for(seconds);
        _exit(0);
    }
}

void copy_input() {
    char buffer[4096];
    ssize_t bytes;
    while ((bytes = read(STDIN_FILENO, buffer, sizeof buffer)) > 0) {
        std::fwrite(buffer, 1, static_cast<std::size_t>(bytes), stdout);
    }
    std::fflush(stdout);
}

bool play_report(Player& player, const std::string& verb, const std::string& value) {
    const int number = std::atoi(value.c_str());
    if (verb == "hello") {
        player.say_hello();
    } else if (verb == "init") {
        player.report(JobEventKind::initialized, 0, player.rank);
    } else if (verb == "taken") {
        player.report(JobEventKind::pe_taken, 0, number);
    } else if (verb == "finalize") {
        player.report(JobEventKind::finalized);
    } else if (verb == "exiting") {
        player.report(JobEventKind::exiting, number);
    } else if (verb == "global_exit") {
        player.report(JobEventKind::global_exit, number);
    } else if (verb == "unrecoverable") {
        player.report(JobEventKind::unrecoverable, 70, -1, value.c_str());
    } else if (verb == "late") {
        player.report(JobEventKind::start_late, number, -1, "waits");
    } else if (verb == "wish") {
        player.report(JobEventKind::spare_wanted, 0, number);
    } else if (verb == "seen" || verb == "agreed") {
        JobEvent event;
        event.kind = verb == "seen" ? JobEventKind::failure_seen : JobEventKind::agreed_lost;
        event.value = static_cast<std::uint64_t>(number);
        event.code = sft::FailureReason{sft::FailureKind::node_lost, 0}.status();
        player.channel.report(event);
    } else if (verb == "foreign") {
        JobEvent event;
        event.layout = 999;
        player.channel.report(event);
    } else {
        return false;
    }
    return true;
}

bool play_act(const std::string& verb, const std::string& value) {
    const int number = std::atoi(value.c_str());
    if (verb == "sleep") {
        sleep_for(std::atof(value.c_str()));
    } else if (verb == "out") {
        std::printf("%s\n", value.c_str());
        std::fflush(stdout);
    } else if (verb == "err") {
        std::fprintf(stderr, "%s\n", value.c_str());
    } else if (verb == "read") {
        copy_input();
    } else if (verb == "exit") {
        _exit(number);
    } else if (verb == "signal") {
        std::signal(number, SIG_DFL);
        raise(number);
    } else if (verb == "stop") {
        raise(SIGSTOP);
    } else if (verb == "hang") {
        while (true) {
            pause();
        }
    } else if (verb == "fork") {
        leave_process_behind(std::atof(value.c_str()));
    } else if (verb == "ignore") {
        std::signal(number, SIG_IGN);
    } else if (verb == "environment") {
        const char* found = std::getenv(value.c_str());
        std::printf("%s=%s\n", value.c_str(), found == nullptr ? "(unset)" : found);
        std::fflush(stdout);
    } else if (verb == "create") {
        close(open(rendezvous(value).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    } else if (verb == "await") {
        while (access(rendezvous(value).c_str(), F_OK) != 0) {
            sleep_for(0.01);
        }
    } else if (verb == "randomised") {
        std::printf("randomised=%d\n", (personality(0xffffffff) & ADDR_NO_RANDOMIZE) == 0);
        std::fflush(stdout);
    } else {
        return false;
    }
    return true;
}

void play(Player& player, std::string_view script) {
    while (!script.empty()) {
        const std::size_t comma = script.find(',');
        const std::string step(script.substr(0, comma));
        script.remove_prefix(comma == std::string_view::npos ? script.size() : comma + 1);
        const std::size_t equals = step.find('=');
        const std::string verb = step.substr(0, equals);
        const std::string value = equals == std::string::npos ? "" : step.substr(equals + 1);
        if (!play_report(player, verb, value) && !play_act(verb, value)) {
            std::fprintf(stderr, "fake_pe: no such step: %s\n", step.c_str());
            _exit(97);
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    Player player;
    const char* rank = std::getenv("PMIX_RANK");
    player.rank = rank == nullptr ? 0 : std::atoi(rank);
    std::string_view script;
    for (int i = 1; i < argc; ++i) {
        const std::string_view argument = argv[i];
        const std::size_t colon = argument.find(':');
        const std::string_view who = argument.substr(0, colon);
        if (who == std::to_string(player.rank) || (who == "*" && script.empty())) {
            script = argument.substr(colon + 1);
        }
    }
    play(player, script);
    return 0;
}
