#include "tools/oshrun/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/topology.hpp"
#include "tools/common/text.hpp"
#include "tools/oshrun/options.hpp"

namespace sft::tools {
namespace {

void add_host(std::vector<HostSlots>& hosts, const HostSlots& added) {
    const auto found =
        std::find_if(hosts.begin(), hosts.end(), [&](const HostSlots& host) { return host.name == added.name; });
    if (found == hosts.end()) {
        hosts.push_back(added);
    } else {
        found->slots += added.slots;
        // One line without a limit does not lift that of another one.
        found->slots_max = std::max(found->slots_max, added.slots_max);
    }
}

// What may be anything, in a line that is to be read.
std::string_view beginning_of(std::string_view text) { return text.substr(0, 80); }

// A name or an address. The launcher reads it from a file of its own language, and prints pages about anything else.
bool is_host_name(std::string_view name) {
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    const auto is_allowed = [&](char c) {
        return is_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == ':';
    };
    return !name.empty() && name.front() != '-' && std::all_of(name.begin(), name.end(), is_allowed) &&
           std::any_of(name.begin(), name.end(), [&](char c) { return is_letter(c) || c == '.' || c == ':'; });
}

// "name" or "name:slots".
bool parse_host_word(std::string_view word, HostSlots& host) {
    const std::size_t colon = word.rfind(':');
    const auto slots =
        colon == std::string_view::npos ? std::optional(1L) : parse_number(word.substr(colon + 1), 1, kProcessesMax);
    host.name = word.substr(0, colon);
    host.slots = static_cast<int>(slots.value_or(0));
    return is_host_name(host.name) && slots;
}

// "name[1-4]:2" as well, which stands for name1:2, name2:2 and so on.
bool add_hosts(std::vector<HostSlots>& hosts, std::string_view word) {
    const Result<std::vector<std::string>> words = expand_hosts(word);
    return words && words->size() <= kProcessesMax &&
           std::all_of(words->begin(), words->end(), [&](const std::string& one) {
               HostSlots host;
               const bool is_host = parse_host_word(one, host);
               if (is_host) {
                   add_host(hosts, host);
               }
               return is_host;
           });
}

// "slots=2", "max_slots=4" or "max-slots=4".
bool parse_host_setting(std::string_view word, HostSlots& host) {
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const auto number =
        equals == std::string_view::npos ? std::nullopt : parse_number(word.substr(equals + 1), 1, kProcessesMax);
    if (!number || (name != "slots" && name != "max_slots" && name != "max-slots")) {
        return false;
    }
    (name == "slots" ? host.slots : host.slots_max) = static_cast<int>(*number);
    return true;
}

bool parse_host_line(const std::vector<std::string>& words, HostSlots& host) {
    const bool has_settings = words.size() > 1;
    if ((has_settings && words[0].find(':') != std::string::npos) || !parse_host_word(words[0], host)) {
        return false;
    }
    return std::all_of(words.begin() + 1, words.end(),
                       [&](const std::string& word) { return parse_host_setting(word, host); });
}

// The pieces between commas that are in no brackets.
std::vector<std::string_view> split_outside_brackets(std::string_view text) {
    std::vector<std::string_view> pieces;
    std::size_t begin = 0;
    int depth = 0;
    for (std::size_t i = 0; i <= text.size(); ++i) {
        if (i == text.size() || (text[i] == ',' && depth == 0)) {
            pieces.push_back(text.substr(begin, i - begin));
            begin = i + 1;
        } else {
            depth += text[i] == '[' ? 1 : text[i] == ']' ? -1 : 0;
        }
    }
    return pieces;
}

// "2(x3),1"
bool expand_counts(std::string_view text, std::vector<int>& counts) {
    for (const std::string_view piece : split_outside_brackets(text)) {
        const std::size_t bracket = piece.find("(x");
        const auto count = parse_number(piece.substr(0, bracket), 1, kProcessesMax);
        const auto times = bracket == std::string_view::npos
                               ? std::optional(1L)
                               : parse_number(piece.substr(bracket + 2, piece.size() - bracket - 3), 1, kProcessesMax);
        if (!count || !times || (bracket != std::string_view::npos && !piece.ends_with(')'))) {
            return false;
        }
        counts.insert(counts.end(), static_cast<std::size_t>(*times), static_cast<int>(*count));
    }
    return true;
}

// Hosts, and how much of them is taken.
struct Load {
    int slots = 1;
    int slots_max = 0;
    int processes = 0;
    int spares = 0;

    [[nodiscard]] bool has_room() const { return processes < slots; }
    [[nodiscard]] bool is_full() const { return slots_max != 0 && processes >= slots_max; }
};

// In rounds: a host that is full waits until all are, then everybody has as many slots once more.
int next_by_slot(std::vector<Load>& loads, std::size_t n_hosts) {
    for (int round = 1;; ++round) {
        for (std::size_t host = 0; host < n_hosts; ++host) {
            if (!loads[host].is_full() && loads[host].processes < round * loads[host].slots) {
                return static_cast<int>(host);
            }
        }
    }
}

int next_by_node(std::vector<Load>& loads, std::size_t n_hosts) {
    std::size_t best = 0;
    const auto cost = [&](std::size_t host) {
        return std::tuple(loads[host].is_full(), loads[host].processes / loads[host].slots, loads[host].processes);
    };
    for (std::size_t host = 1; host < n_hosts; ++host) {
        best = cost(host) < cost(best) ? host : best;
    }
    return static_cast<int>(best);
}

int next_for_spare(const std::vector<Load>& loads, std::size_t first) {
    const auto cost = [&](std::size_t host) {
        const Load& load = loads[host];
        return std::tuple(load.is_full(), !load.has_room(), load.spares, load.processes - load.slots,
                          -static_cast<int>(host));
    };
    std::size_t best = first;
    for (std::size_t host = first + 1; host < loads.size(); ++host) {
        best = cost(host) < cost(best) ? host : best;
    }
    return static_cast<int>(best);
}

}  // namespace

std::optional<std::vector<HostSlots>> parse_host_list(std::string_view text, std::string& error_line) {
    std::vector<HostSlots> hosts;
    for (const std::string_view word : split_outside_brackets(text)) {
        if (!add_hosts(hosts, word)) {
            error_line =
                fmt::format("--host {}: '{}' is not NAME or NAME:SLOTS", beginning_of(text), beginning_of(word));
            return std::nullopt;
        }
    }
    return hosts;
}

std::optional<std::vector<HostSlots>> parse_hostfile(std::string_view content, std::string_view file,
                                                     std::string& error_line) {
    std::vector<HostSlots> hosts;
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // as some editors put in front
    if (content.starts_with(kByteOrderMark)) {
        content.remove_prefix(kByteOrderMark.size());
    }
    while (!content.empty()) {
        std::string_view line = content.substr(0, content.find('\n'));
        content.remove_prefix(std::min(line.size() + 1, content.size()));
        line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
        const auto words = split_words(line.substr(0, line.find('#')));
        if (words && words->empty()) {
            continue;
        }
        HostSlots host;
        if (!words || !parse_host_line(*words, host)) {
            error_line = fmt::format("--hostfile {}: '{}' is not NAME, NAME:SLOTS or NAME slots=SLOTS max_slots=SLOTS",
                                     file, beginning_of(line));
            return std::nullopt;
        }
        add_host(hosts, host);
    }
    if (hosts.empty()) {
        error_line = fmt::format("--hostfile {}: there is no host in it", file);
        return std::nullopt;
    }
    return hosts;
}

std::optional<std::vector<HostSlots>> parse_slurm_nodes(std::string_view nodes, std::string_view tasks_per_node) {
    std::vector<std::string> names;
    std::vector<int> counts;
    for (const std::string_view piece : split_outside_brackets(nodes)) {
        const Result<std::vector<std::string>> expanded = expand_hosts(piece);
        if (!expanded) {
            return std::nullopt;
        }
        names.insert(names.end(), expanded->begin(), expanded->end());
    }
    if (!expand_counts(tasks_per_node, counts) || counts.size() != names.size()) {
        return std::nullopt;
    }
    std::vector<HostSlots> hosts;
    for (std::size_t i = 0; i < names.size(); ++i) {
        add_host(hosts, {.name = names[i], .slots = counts[i]});
    }
    return hosts;
}

std::optional<std::string> lack_of_room(const PlacementTask& task) {
    // -1: no limit.
    const auto room = [&](std::size_t begin, std::size_t end) {
        long sum = 0;
        for (std::size_t host = begin; host < end; ++host) {
            if (task.hosts[host].slots_max == 0) {
                return -1L;
            }
            sum += task.hosts[host].slots_max;
        }
        return sum;
    };
    const auto lack = [](int processes, const char* what, long allowed) {
        return allowed >= 0 && processes > allowed
                   ? std::optional(
                         fmt::format("{} {} are more than the {} that max_slots of the hosts allows: raise it, "
                                     "or name more hosts",
                                     processes, what, allowed))
                   : std::nullopt;
    };
    if (task.spare_nodes == 0) {
        return lack(task.pes + task.spares, "processes", room(0, task.hosts.size()));
    }
    const std::size_t first_for_spares = task.hosts.size() - static_cast<std::size_t>(task.spare_nodes);
    auto line = lack(task.pes, "PEs", room(0, first_for_spares));
    return line ? line : lack(task.spares, "spares", room(first_for_spares, task.hosts.size()));
}

std::vector<int> place(const PlacementTask& task) {
    const std::size_t n_hosts = task.hosts.size();
    const std::size_t n_for_pes = n_hosts - static_cast<std::size_t>(task.spare_nodes);
    std::vector<Load> loads;
    for (const HostSlots& host : task.hosts) {
        loads.push_back({host.slots, host.slots_max, 0, 0});
    }
    std::vector<int> placed;
    for (int pe = 0; pe < task.pes; ++pe) {
        const int host = task.is_by_node ? next_by_node(loads, n_for_pes) : next_by_slot(loads, n_for_pes);
        ++loads[static_cast<std::size_t>(host)].processes;
        placed.push_back(host);
    }
    for (int spare = 0; spare < task.spares; ++spare) {
        const int host = next_for_spare(loads, task.spare_nodes > 0 ? n_for_pes : 0);
        ++loads[static_cast<std::size_t>(host)].processes;
        ++loads[static_cast<std::size_t>(host)].spares;
        placed.push_back(host);
    }
    return placed;
}

}  // namespace sft::tools
