// A plan in words.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/memory_left.hpp"
#include "tools/common/text.hpp"
#include "tools/shmem-ft/plan.hpp"

namespace sft::tools {
namespace {

std::string table_of(const Plan& plan) {
    std::vector<std::vector<std::string>> rows = {{"host"}};
    for (const std::string& level : plan.levels) {
        rows.front().push_back(level);
    }
    rows.front().insert(rows.front().end(),
                        {"PEs", "spares", plan.group_smallest != 0 ? "parity of PEs" : "copies of PEs"});
    for (const Plan::Host& host : plan.hosts) {
        rows.push_back({host.name});
        for (const std::string& domain : host.domains) {
            rows.back().push_back(domain.empty() ? "-" : domain);
        }
        std::vector<std::int32_t> kept = host.kept_of;
        std::sort(kept.begin(), kept.end());
        kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
        rows.back().insert(rows.back().end(), {ranges_of(host.pes), ranges_of(host.spares), ranges_of(kept)});
    }
    std::string text;
    for (const std::vector<std::string>& row : rows) {
        std::string line = " ";
        for (std::size_t column = 0; column < row.size(); ++column) {
            std::size_t width = 0;
            for (const std::vector<std::string>& other : rows) {
                width = std::max(width, other[column].size());
            }
            line +=
                column + 1 == row.size() ? fmt::format(" {}", row[column]) : fmt::format(" {:<{}}", row[column], width);
        }
        text += line + "\n";
    }
    return text;
}

std::string risks_of(const Plan& plan) {
    std::string text;
    for (const Plan::Risk& risk : plan.risks) {
        text += fmt::format(
            "\nif each {} is lost once in {} days (--mtbf), and the job is protected again after {} s (--window):\n",
            risk.what, risk.mtbf_days, plan.window_s);
        for (std::size_t i = 0; i < risk.at_once.size(); ++i) {
            const Plan::Risk::AtOnce& item = risk.at_once[i];
            if (item.n_sets > 0 || item.a_day_error > 0) {
                text += fmt::format("  {} at once that the job does not survive: {:.2g} a day{}\n",
                                    counted(static_cast<std::int64_t>(i) + 1, risk.what), item.a_day,
                                    item.a_day_error > 0 ? fmt::format(" (+- {:.1g}, drawn)", item.a_day_error) : "");
            }
        }
        double all = 0;
        for (const Plan::Risk::AtOnce& item : risk.at_once) {
            all += item.a_day;
        }
        text += fmt::format("  all of these: {:.2g} a day\n", all);
        if (risk.n_orders > 0) {
            text += fmt::format(
                "  in a run of {} days (--run): {:.2g}; and {:.2g} (+- {:.1g}, {} orders drawn) that more are lost one "
                "after another than spares and majority allow\n",
                plan.run_days, -std::expm1(-all * plan.run_days), risk.runs_ended, risk.runs_ended_error,
                risk.n_orders);
        }
    }
    return text;
}

}  // namespace

std::string ranges_of(const std::vector<std::int32_t>& sorted) {
    std::string text;
    for (std::size_t i = 0; i < sorted.size();) {
        std::size_t end = i + 1;
        while (end < sorted.size() && sorted[end] == sorted[end - 1] + 1) {
            ++end;
        }
        text += text.empty() ? "" : ",";
        text += end - i == 1 ? fmt::format("{}", sorted[i]) : fmt::format("{}-{}", sorted[i], sorted[end - 1]);
        i = end;
    }
    return text.empty() ? "-" : text;
}

std::string heading_of(const Plan& plan) {
    const auto n_hosts =
        std::count_if(plan.hosts.begin(), plan.hosts.end(), [](const auto& it) { return it.is_used(); });
    return fmt::format("{} and {} on {}", counted(plan.n_pes, "PE"), counted(plan.n_spares, "spare"),
                       counted(n_hosts, "host"));
}

std::string where_copies_are(const Plan& plan) {
    if (plan.copies == 0) {
        return "other processes";
    }
    return plan.hosts.size() == 1 ? "memory of the host" : "other processes, kept apart by " + plan.apart;
}

// Of the state, what is kept of it and what others keep; not of the program and the libraries.
std::string memory_of(const Plan& plan) {
    if (plan.state_bytes == 0) {
        return {};
    }
    const auto fullest = std::max_element(plan.hosts.begin(), plan.hosts.end(),
                                          [](const auto& a, const auto& b) { return a.memory < b.memory; });
    double all = 0;
    for (const Plan::Host& host : plan.hosts) {
        all += host.memory;
    }
    const auto sized = [&](double states) {
        return memory_text(static_cast<std::uint64_t>(states * static_cast<double>(plan.state_bytes)));
    };
    return fmt::format("with a state of {} in each PE (--state): {} a PE; most on {}: {}\n", sized(1),
                       sized(all / plan.n_pes), fullest->name, sized(fullest->memory));
}

std::string summary_of(const Plan& plan, const Backup& backup) {
    std::string text;
    if (plan.group_smallest != 0) {
        const std::string sizes = plan.group_smallest == plan.group_largest
                                      ? fmt::format("{}", plan.group_smallest)
                                      : fmt::format("{} to {}", plan.group_smallest, plan.group_largest);
        text = fmt::format(
            "parity in groups of {} PEs, kept apart by {}; any {} of a group may be lost; memory of a PE: up to {:.2f} "
            "times what its symmetric state takes\n",
            sizes, plan.apart, plan.group_parity,
            2 + 2.0 * plan.group_parity / static_cast<double>(plan.group_smallest - plan.group_parity));
    } else {
        const std::int32_t memory = backup.mode == BackupMode::none          ? 1
                                    : backup.mode == BackupMode::single_copy ? 3
                                                                             : 2 + 2 * plan.copies;
        text = fmt::format("{} of each PE in {}; memory of a PE: {} times what its symmetric state takes\n",
                           plan.copies == 1 ? "1 copy" : fmt::format("{} copies", plan.copies), where_copies_are(plan),
                           memory);
    }
    text += memory_of(plan);
    text += "\nlost at one moment:\n";
    for (const Plan::Losses& losses : plan.losses) {
        text += fmt::format("  {}: {} of {} {}survived{}{}\n", counted(losses.n_at_once, losses.what),
                            losses.n_survived, losses.n_sets, losses.is_sample ? "drawn ones " : "",
                            losses.fatal.empty() ? "" : "; not ", losses.fatal);
    }
    for (const Plan::Demand& demand : plan.demands) {
        text += fmt::format("{}wanted by the topology ([survive]): {}: {}\n",
                            &demand == &plan.demands.front() ? "\n" : "", counted(demand.n_at_once, demand.what),
                            demand.why_not.empty() ? "survived" : "NOT SURVIVED; " + demand.why_not);
    }
    return text + risks_of(plan);
}

std::string text_of(const Plan& plan, const Backup& backup) {
    return heading_of(plan) + "\n\n" + table_of(plan) + "\n" + summary_of(plan, backup);
}

}  // namespace sft::tools
