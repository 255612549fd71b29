#include "tools/oshrun/exec_pe.hpp"

#include <fmt/format.h>
#include <sys/personality.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/text.hpp"
#include "tools/oshrun/agent_start.hpp"
#include "tools/oshrun/exec_daemon.hpp"
#include "tools/oshrun/launch_command.hpp"
#include "tools/oshrun/launcher_door.hpp"
#include "tools/oshrun/options.hpp"
#include "tools/oshrun/program_image.hpp"

namespace sft::tools {
namespace {

int own_rank() {
    for (const char* name : {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}) {
        const char* text = std::getenv(name);
        const auto rank = parse_number(text == nullptr ? "" : text, 0, kProcessesMax);
        if (rank) {
            return static_cast<int>(*rank);
        }
    }
    return -1;
}

bool is_elf_file(const std::string& path) {
    std::array<char, 4> magic{};
    std::ifstream(path, std::ios::binary).read(magic.data(), magic.size());
    return std::string_view(magic.data(), magic.size()) ==
           "\x7f"
           "ELF";
}

// The guardian's answer brings PE 0 its standard input.
bool await_answer(JobChannel& channel) {
    int input = -1;
    const bool is_there = channel.await_answer(input);
    if (input >= 0) {
        dup2(input, STDIN_FILENO);
        close(input);
    }
    return is_there;
}

}  // namespace

int become_program(std::string path, std::vector<std::string> words) {
    // Refused in some containers: the library copes with it.
    const int persona = personality(0xffffffff);
    if (persona != -1) {
        personality(static_cast<unsigned long>(persona) | ADDR_NO_RANDOMIZE);
    }
    std::vector<char*> pointers;
    pointers.reserve(words.size() + 2);
    for (std::string& word : words) {
        pointers.push_back(word.data());
    }
    pointers.push_back(nullptr);
    execv(path.c_str(), pointers.data());
    if (errno == ENOEXEC && !is_elf_file(path)) {
        // A script without a first line that names its interpreter: for the shell, as everywhere.
        std::string shell = "/bin/sh";
        pointers[0] = path.data();
        pointers.insert(pointers.begin(), shell.data());
        execv(shell.c_str(), pointers.data());
    }
    return errno;
}

int exec_pe(int argc, char** argv) {
    if (argc < 4) {
        print_line(fmt::format("oshrun: {} is for oshrun's own use", kExecPeOption));
        return kExitUsage;
    }
    const int rank = own_rank();
    JobChannel channel;
    if (const Result<> connected = connect_to_watcher(rank, channel); !connected) {
        print_line("oshrun: " + connected.error().line);
        return EXIT_FAILURE;
    }
    channel.set_rank(rank);
    JobEvent event;
    event.kind = kEventLaunched;
    channel.report(event);
    if (!await_answer(channel)) {
        return EXIT_FAILURE;  // the guardian is gone, and with it the job
    }

    const bool is_kept_to_door = std::getenv(fmt::format("OMPI_MCA_{}", kDoorSetting).c_str()) != nullptr;
    // Options that we have given to mpirun, which hands them on. Its daemons add orte_tmpdir_base, and a program that
    // uses Open MPI itself refuses to have both; its launcher's interface is on another host.
    for (const char* setting : {"orte_local_tmpdir_base", kLaunchAgentSetting, kDaemonSetting, kDoorSetting}) {
        unsetenv(fmt::format("OMPI_MCA_{}", setting).c_str());
    }
    if (is_kept_to_door) {
        unsetenv(fmt::format("OMPI_MCA_{}", kInterfaceSetting).c_str());
    }

    std::string path = decode_argument(argv[2]);
    if (const char* donor = std::getenv("SHMEM_FT_JOIN")) {
        path = image_for_joiner(path, static_cast<std::int32_t>(std::strtol(donor, nullptr, 10)));
    }
    std::vector<std::string> words;
    words.reserve(static_cast<std::size_t>(argc));
    for (int i = 3; i < argc; ++i) {
        words.push_back(decode_argument(argv[i]));
    }
    event.kind = kEventExecFailed;
    event.code = become_program(std::move(path), std::move(words));
    channel.report(event);
    return kExitCannotRun;
}

}  // namespace sft::tools
