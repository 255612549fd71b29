#include "shmem_ft/start/member_mark.hpp"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/report.hpp"

namespace sft {
namespace {

constexpr const char* kMark = "OSHRUN_MEMBER";

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

// Which process of which job the environment is for; empty: of none.
std::string place() {
    const std::string rank = variable("PMIX_RANK");
    return rank.empty() ? "" : rank + " " + variable("PMIX_NAMESPACE") + " " + variable("SHMEM_FT_JOB_SOCKET");
}

}  // namespace

Result<> may_be_member() {
    const std::string mark = variable(kMark);
    const std::size_t space = mark.find(' ');
    const long pid = std::strtol(mark.c_str(), nullptr, 10);
    const std::string here = place();
    if (space == std::string::npos || pid == ::getpid() || here.empty() || mark.substr(space + 1) != here) {
        return {};
    }
    return fails(
        format("this program is no member of a job: it was started by process %s of one that runs (pid %ld), whose "
               "environment it has; start it by oshrun",
               variable("PMIX_RANK").c_str(), pid));
}

void mark_member() noexcept {
    if (const std::string here = place(); !here.empty()) {
        ::setenv(kMark, (std::to_string(::getpid()) + " " + here).c_str(), 1);
    }
}

}  // namespace sft
