#include "tools/oshrun/exec_daemon.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/text.hpp"
#include "tools/oshrun/launcher_door.hpp"
#include "tools/oshrun/options.hpp"
#include "tools/oshrun/tcp.hpp"

namespace sft::tools {
namespace {

bool is_mca(std::string_view word) { return word == "-mca" || word == "--mca"; }

// srun hands the launcher's quotes on, as no shell does; the daemon takes them off its own settings.
std::string without_quotes(const std::string& word) {
    const bool has_quotes = word.size() >= 2 && word.front() == '"' && word.back() == '"';
    return has_quotes ? word.substr(1, word.size() - 2) : word;
}

// Words with "-mca NAME VALUE" taken out; value: of the last one.
std::vector<std::string> without_setting(const std::vector<std::string>& words, std::string_view name,
                                         std::string& value) {
    std::vector<std::string> rest;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (i + 2 < words.size() && is_mca(words[i]) && words[i + 1] == name) {
            value = without_quotes(words[i + 2]);
            i += 2;
        } else {
            rest.push_back(words[i]);
        }
    }
    return rest;
}

void put_in_front(const char* variable, const std::string& folder) {
    const char* before = std::getenv(variable);
    setenv(variable,
           before == nullptr || *before == '\0' ? folder.c_str() : fmt::format("{}:{}", folder, before).c_str(), 1);
}

[[noreturn]] void become_daemon(std::vector<std::string> words, pid_t parent, const sigset_t& mask) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
        _exit(kExitNotFound);
    }
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    std::vector<char*> pointers;
    for (std::string& word : words) {
        pointers.push_back(word.data());
    }
    pointers.push_back(nullptr);
    execv(pointers[0], pointers.data());
    print_line(fmt::format("oshrun: {} on {}: {}", words[0], own_host_name(), strerrordesc_np(errno)));
    _exit(kExitNotFound);
}

// Where the launcher has been given a door its daemons get one, too: at the address from which they reach it.
std::vector<std::string> with_door(const std::vector<std::string>& words) {
    std::string launchers;
    static_cast<void>(without_setting(words, kDoorSetting, launchers));
    if (launchers.empty()) {
        return words;
    }
    std::string ignored;
    std::vector<std::string> rest = without_setting(words, kInterfaceSetting, ignored);
    const std::string address = local_address_towards(launchers);
    const std::string module = door_module();
    if (!address.empty() && !module.empty()) {
        put_door({module, address});
        rest.insert(rest.end(), {"-mca", kInterfaceSetting, interface_setting_for(address)});
    }
    return rest;
}

// An agent outlives everything else here: it waits for oshrun, which waits for the launcher, which waits for the end of
// this process.
bool are_only_agents_left() {
    std::ifstream children(fmt::format("/proc/self/task/{}/children", gettid()));
    pid_t child = 0;
    while (children >> child) {
        std::string name;
        std::getline(std::ifstream(fmt::format("/proc/{}/comm", child)), name);
        if (name != "oshrun-agent") {
            return false;
        }
    }
    return true;
}

// The daemon may split off another one, which becomes our child then: the end of all but agents is the end.
int wait_for_all(pid_t daemon, const sigset_t& heard) {
    std::optional<int> exit_code;
    while (true) {
        int status = 0;
        const pid_t ended = waitpid(-1, &status, WNOHANG);
        if (ended == daemon) {
            exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        } else if (ended < 0 && errno == ECHILD) {
            return exit_code.value_or(EXIT_FAILURE);
        }
        if (ended == 0) {
            if (exit_code && are_only_agents_left()) {
                return *exit_code;
            }
            const int number = sigwaitinfo(&heard, nullptr);
            if (number > 0 && number != SIGCHLD) {
                kill(daemon, number);
            }
        }
    }
}

}  // namespace

bool is_for_daemon(int argc, char** argv) {
    for (int i = 1; i + 2 < argc; ++i) {
        if (is_mca(argv[i]) && std::strcmp(argv[i + 1], kDaemonSetting) == 0) {
            return is_mca(argv[1]) || std::strncmp(argv[1], "--debug", 7) == 0;
        }
    }
    return false;
}

int exec_daemon(int argc, char** argv) {
    // Not "oshrun": who looks for a job's oshrun goes by that name.
    prctl(PR_SET_NAME, "oshrun-daemon");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    std::signal(SIGCHLD, SIG_DFL);
    sigset_t heard;
    sigset_t before;
    sigemptyset(&heard);
    for (const int number : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) {
        sigaddset(&heard, number);
    }
    sigprocmask(SIG_BLOCK, &heard, &before);

    const char* base = std::getenv("TMPDIR");
    std::string folder = fmt::format("{}/oshrun-XXXXXX", base == nullptr || *base == '\0' ? "/tmp" : base);
    if (mkdtemp(folder.data()) == nullptr) {
        print_line(fmt::format("oshrun: cannot create {} on {}: {}", folder, own_host_name(), strerrordesc_np(errno)));
        return kExitCannotRun;
    }
    std::string daemon;
    std::string ignored;
    std::vector<std::string> words(argv + 1, argv + argc);
    // The launcher's own folder is for its host, and its daemons refuse to have both.
    words = without_setting(words, "orte_local_tmpdir_base", ignored);
    unsetenv("OMPI_MCA_orte_local_tmpdir_base");  // srun brings the whole environment along
    // It keeps its own name in its words, because it may start further ones.
    static_cast<void>(without_setting(words, kDaemonSetting, daemon));
    words = with_door(words);
    words.insert(words.begin(), daemon);
    words.insert(words.end(), {"-mca", "orte_tmpdir_base", folder});
    // As the launcher does for a daemon that it starts itself.
    const std::filesystem::path bin = std::filesystem::path(daemon).parent_path();
    put_in_front("PATH", bin.string());
    put_in_front("LD_LIBRARY_PATH", (bin.parent_path() / "lib").string());

    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child == 0) {
        become_daemon(std::move(words), parent, before);
    }
    const int exit_code = child < 0 ? kExitCannotRun : wait_for_all(child, heard);
    std::error_code error;
    std::filesystem::remove_all(folder, error);
    return exit_code;
}

}  // namespace sft::tools
