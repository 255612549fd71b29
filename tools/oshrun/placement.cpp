#include "tools/oshrun/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "tools/common/text.hpp"
#include "tools/oshrun/options.hpp"

namespace sft::tools {
namespace {

void add_host(std::vector<HostSlots>& hosts, std::string_view name, int slots) {
    const auto found =
        std::find_if(hosts.begin(), hosts.end(), [name](const HostSlots& host) { return host.name == name; });
    if (found == hosts.end()) {
        hosts.push_back({std::string(name), slots});
    } else {
        found->slots += slots;
    }
}

// "name" or "name:slots".
bool add_host_word(std::vector<HostSlots>& hosts, std::string_view word) {
    const std::size_t colon = word.rfind(':');
    const std::string_view name = word.substr(0, colon);
    const auto slots =
        colon == std::string_view::npos ? std::optional(1L) : parse_number(word.substr(colon + 1), 1, kProcessesMax);
    const bool is_name = !name.empty() && name.find_first_of(" \t'\"=,+*") == std::string_view::npos;
    if (!is_name || !slots) {
        return false;
    }
    add_host(hosts, name, static_cast<int>(*slots));
    return true;
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

// "n[1-3,07]x": one pair of brackets at most.
bool expand_nodes(std::string_view piece, std::vector<std::string>& names) {
    const std::size_t open = piece.find('[');
    if (open == std::string_view::npos) {
        names.emplace_back(piece);
        return !piece.empty();
    }
    const std::size_t close = piece.find(']', open);
    if (close == std::string_view::npos || piece.find('[', close) != std::string_view::npos) {
        return false;
    }
    const std::string_view before = piece.substr(0, open);
    const std::string_view after = piece.substr(close + 1);
    for (const std::string_view range : split_outside_brackets(piece.substr(open + 1, close - open - 1))) {
        const std::string_view first = range.substr(0, range.find('-'));
        const std::string_view last = range.substr(range.find('-') == std::string_view::npos ? 0 : range.find('-') + 1);
        const auto low = parse_number(first, 0, 999'999);
        const auto high = parse_number(last, 0, 999'999);
        if (!low || !high || *high < *low || *high - *low >= kProcessesMax) {
            return false;
        }
        for (long number = *low; number <= *high; ++number) {
            names.push_back(fmt::format("{}{:0{}}{}", before, number, first.size(), after));
        }
    }
    return true;
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
    int processes = 0;
    int spares = 0;

    [[nodiscard]] bool has_room() const { return processes < slots; }
};

// In rounds: a host that is full waits until all are, then everybody has as many slots once more.
int next_by_slot(std::vector<Load>& loads, std::size_t n_hosts) {
    for (int round = 1;; ++round) {
        for (std::size_t host = 0; host < n_hosts; ++host) {
            if (loads[host].processes < round * loads[host].slots) {
                return static_cast<int>(host);
            }
        }
    }
}

int next_by_node(std::vector<Load>& loads, std::size_t n_hosts) {
    std::size_t best = 0;
    const auto cost = [&](std::size_t host) {
        return std::pair(loads[host].processes / loads[host].slots, loads[host].processes);
    };
    for (std::size_t host = 1; host < n_hosts; ++host) {
        best = cost(host) < cost(best) ? host : best;
    }
    return static_cast<int>(best);
}

int next_for_spare(const std::vector<Load>& loads, std::size_t first) {
    const auto cost = [&](std::size_t host) {
        const Load& load = loads[host];
        return std::tuple(!load.has_room(), load.spares, load.processes - load.slots, -static_cast<int>(host));
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
        if (!add_host_word(hosts, word)) {
            error_line = fmt::format("--host {}: '{}' is not NAME or NAME:SLOTS", text, word);
            return std::nullopt;
        }
    }
    return hosts;
}

std::optional<std::vector<HostSlots>> parse_hostfile(std::string_view content, std::string_view file,
                                                     std::string& error_line) {
    std::vector<HostSlots> hosts;
    while (!content.empty()) {
        const std::string_view line = content.substr(0, content.find('\n'));
        content.remove_prefix(std::min(line.size() + 1, content.size()));
        const auto words = split_words(line.substr(0, line.find('#')));
        if (words && words->empty()) {
            continue;
        }
        bool is_right = words && words->size() <= 2;
        if (is_right && words->size() == 2) {
            const std::string& second = (*words)[1];
            const auto slots =
                second.starts_with("slots=") ? parse_number(second.substr(6), 1, kProcessesMax) : std::nullopt;
            is_right = slots && (*words)[0].find(':') == std::string::npos &&
                       add_host_word(hosts, fmt::format("{}:{}", (*words)[0], *slots));
        } else if (is_right) {
            is_right = add_host_word(hosts, (*words)[0]);
        }
        if (!is_right) {
            error_line = fmt::format("--hostfile {}: '{}' is not NAME, NAME:SLOTS or NAME slots=SLOTS", file, line);
            return std::nullopt;
        }
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
        if (!expand_nodes(piece, names)) {
            return std::nullopt;
        }
    }
    if (!expand_counts(tasks_per_node, counts) || counts.size() != names.size()) {
        return std::nullopt;
    }
    std::vector<HostSlots> hosts;
    for (std::size_t i = 0; i < names.size(); ++i) {
        add_host(hosts, names[i], counts[i]);
    }
    return hosts;
}

std::vector<int> place(const PlacementTask& task) {
    const std::size_t n_hosts = task.hosts.size();
    const std::size_t n_for_pes = n_hosts - static_cast<std::size_t>(task.spare_nodes);
    std::vector<Load> loads;
    for (const HostSlots& host : task.hosts) {
        loads.push_back({host.slots, 0, 0});
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
