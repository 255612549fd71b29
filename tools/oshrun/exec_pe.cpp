#include "tools/oshrun/exec_pe.hpp"

#include <cerrno>
#include <cstdlib>
#include <fmt/format.h>
#include <string>
#include <sys/personality.h>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

#include "tools/common/text.hpp"
#include "tools/oshrun/launch_command.hpp"
#include "tools/oshrun/options.hpp"

namespace sft::tools {
namespace {

int own_rank() {
    for (const char* name : {"PMIX_RANK", "OMPI_COMM_WORLD_RANK"}) {
        const char* text = std::getenv(name);
        if (text != nullptr) {
            return std::atoi(text);
        }
    }
    return -1;
}

bool await_answer(int fd) {
    char byte;
    ssize_t bytes;
    do {
        bytes = read(fd, &byte, 1);
    } while (bytes < 0 && errno == EINTR);
    return bytes == 1;
}

}  // namespace

int exec_pe(int argc, char** argv) {
    if (argc < 4) {
        print_line(fmt::format("oshrun: {} is for oshrun's own use", kExecPeOption));
        return kExitUsage;
    }
    const char* socket_name = std::getenv("SHMEM_FT_JOB_SOCKET");
    JobChannel channel;
    std::string error_line;
    if (!channel.connect(socket_name == nullptr ? "" : socket_name, error_line)) {
        print_line("oshrun: " + error_line);
        return EXIT_FAILURE;
    }
    channel.set_rank(own_rank());
    JobEvent event;
    event.kind = kEventLaunched;
    channel.report(event);
    if (!await_answer(channel.fd())) {
        return EXIT_FAILURE;  // the guardian is gone, and with it the job
    }

    // Refused in some containers: the library copes with it.
    const int persona = personality(0xffffffff);
    if (persona != -1) {
        personality(static_cast<unsigned long>(persona) | ADDR_NO_RANDOMIZE);
    }

    const std::string path = decode_argument(argv[2]);
    std::vector<std::string> words;
    for (int i = 3; i < argc; ++i) {
        words.push_back(decode_argument(argv[i]));
    }
    std::vector<char*> pointers;
    for (std::string& word : words) {
        pointers.push_back(word.data());
    }
    pointers.push_back(nullptr);
    // execvp for its treatment of scripts without a first line; the path holds a slash, so nothing is searched.
    execvp(path.c_str(), pointers.data());
    event.kind = kEventExecFailed;
    event.code = errno;
    channel.report(event);
    return kExitCannotRun;
}

}  // namespace sft::tools
