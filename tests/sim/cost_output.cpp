// The table of costs for people and for tools/plot_costs.py.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "tests/sim/cost.hpp"

namespace sft::sim {

std::string to_markdown(const std::vector<CostRow>& rows) {
    std::string text =
        "| PEs | detection ms | checkpoint control us | fault agreed us | leader's death agreed us | recovery control "
        "us | "
        "checkpoint data ms | recovery data ms | messages per PE and checkpoint | most at one process | bytes per PE | "
        "most | job MTBF h | best interval s | efficiency |\n"
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n";
    for (const CostRow& row : rows) {
        text += fmt::format(
            "| {} | {:.0f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.2f} | {} | {:.0f} | {:.0f} | "
            "{:.2f} | "
            "{:.0f} | {:.4f} |\n",
            row.pes, row.detection_ms, row.checkpoint.us, row.fault.us, row.leader_fault.us, row.recovery.us,
            row.checkpoint_data_ms, row.recovery_data_ms,
            static_cast<double>(row.checkpoint.messages) / static_cast<double>(row.pes),
            std::max({row.checkpoint.most_at_one, row.fault.most_at_one, row.leader_fault.most_at_one,
                      row.recovery.most_at_one}),
            row.bytes_per_pe, row.bytes_most, row.job_mtbf_h, row.interval_s, row.efficiency);
    }
    return text;
}

std::string to_json(const CostModel& model, const std::vector<CostRow>& rows) {
    const auto control = [](const ControlCost& cost) {
        return nlohmann::json{{"us", cost.us}, {"messages", cost.messages}, {"most_at_one", cost.most_at_one}};
    };
    nlohmann::json root = {{"model",
                            {{"latency_us", model.latency_us},
                             {"overhead_us", model.overhead_us},
                             {"network_gb_s", model.network_gb_s},
                             {"memory_gb_s", model.memory_gb_s},
                             {"state_mb", model.state_mb},
                             {"changed_share", model.changed_share},
                             {"period_ms", model.period_ms},
                             {"bound_ms", model.bound_ms},
                             {"process_mtbf_years", model.process_mtbf_years},
                             {"fan_out", model.fan_out}}},
                           {"rows", nlohmann::json::array()}};
    for (const CostRow& row : rows) {
        root["rows"].push_back({{"pes", row.pes},
                                {"detection_ms", row.detection_ms},
                                {"checkpoint", control(row.checkpoint)},
                                {"fault", control(row.fault)},
                                {"leader_fault", control(row.leader_fault)},
                                {"recovery", control(row.recovery)},
                                {"checkpoint_data_ms", row.checkpoint_data_ms},
                                {"recovery_data_ms", row.recovery_data_ms},
                                {"bytes_per_pe", row.bytes_per_pe},
                                {"bytes_most", row.bytes_most},
                                {"bytes_counted", row.bytes_counted},
                                {"job_mtbf_h", row.job_mtbf_h},
                                {"interval_s", row.interval_s},
                                {"efficiency", row.efficiency}});
    }
    return root.dump(1) + "\n";
}

}  // namespace sft::sim
