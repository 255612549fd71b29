#include "tools/oshrun/launcher_args.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace sft::tools {
namespace {

// Options of Open MPI 4's mpirun without a value, without the dashes: it takes each with one and with two.
constexpr std::array kFlags = std::to_array<std::string_view>({"allow-run-as-root",
                                                               "bind-to-core",
                                                               "bind-to-socket",
                                                               "bycore",
                                                               "bynode",
                                                               "byslot",
                                                               "continuous",
                                                               "d",
                                                               "debug",
                                                               "debug-daemons",
                                                               "debug-daemons-file",
                                                               "debug-devel",
                                                               "disable-recovery",
                                                               "display-allocation",
                                                               "display-devel-allocation",
                                                               "display-devel-map",
                                                               "display-diffable-map",
                                                               "display-map",
                                                               "display-topo",
                                                               "do-not-launch",
                                                               "do-not-resolve",
                                                               "enable-recovery",
                                                               "get-stack-traces",
                                                               "index-argv-by-rank",
                                                               "leave-session-attached",
                                                               "merge-stderr-to-stdout",
                                                               "nolocal",
                                                               "nooversubscribe",
                                                               "noprefix",
                                                               "novm",
                                                               "oversubscribe",
                                                               "pernode",
                                                               "preload-binary",
                                                               "q",
                                                               "quiet",
                                                               "report-bindings",
                                                               "report-child-jobs-separately",
                                                               "report-state-on-timeout",
                                                               "s",
                                                               "set-cwd-to-session-dir",
                                                               "show-progress",
                                                               "tag-output",
                                                               "timestamp-output",
                                                               "use-hwthread-cpus",
                                                               "use-regexp",
                                                               "v",
                                                               "verbose",
                                                               "xml"});

bool is_option(std::string_view word) { return word.size() > 1 && word[0] == '-'; }

bool is_flag(std::string_view word) {
    word.remove_prefix(word.starts_with("--") ? 2 : 1);
    return std::find(kFlags.begin(), kFlags.end(), word) != kFlags.end();
}

}  // namespace

std::optional<std::string> word_taken_for_program(LauncherKind launcher, const std::vector<std::string>& words) {
    bool may_be_value = false;
    for (const std::string& word : words) {
        if (!is_option(word) && !may_be_value) {
            return word;
        }
        if (is_option(word)) {
            may_be_value = launcher != LauncherKind::mpirun || !is_flag(word);
        }
    }
    return std::nullopt;
}

}  // namespace sft::tools
