#include "recovery/losses.hpp"

#include <algorithm>
#include <random>

#include "base/assert.hpp"
#include "base/report.hpp"
#include "recovery/membership/parity_groups.hpp"
#include "recovery/membership/quorum.hpp"
#include "recovery/membership/scheme.hpp"
#include "recovery/membership/tree.hpp"

namespace sft {
namespace {

std::string counted_out(std::int64_t n, const char* what) {
    return format("%lld %s%s", static_cast<long long>(n), what, n == 1 ? "" : "s");
}

}  // namespace

Losses::Losses(const JobShape& shape, const JobState& state, std::span<const Death> dead)
    : n_nodes_(shape.nodes == nullptr ? 1 : shape.nodes->n_nodes()) {
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        node_of_pe_.push_back(shape.node_of(state, shape.holder(state, PeId(pe))));
    }
    for (const ProcId spare : shape.idle_spares(state, dead)) {
        nodes_of_spares_.push_back(shape.node_of(state, spare));
    }
    node_of_leader_ = shape.node_of(state, Tree(shape, state, dead, kFanOut).root());
    find_keepers(shape, state);
}

void Losses::find_keepers(const JobShape& shape, const JobState& state) {
    const auto n_pes = static_cast<std::size_t>(shape.n_pes);
    keepers_.resize(n_pes);
    keepers_nodes_.resize(n_pes);
    const auto shares = shape.groups == nullptr ? shape.scheme->place(shape, state, state.replacements) : nullptr;
    for (std::size_t i = 0; i < n_pes; ++i) {
        const PeId pe(static_cast<std::int32_t>(i));
        if (shape.groups != nullptr) {
            for (const PeId other : shape.scheme->apart_from(shape, pe)) {
                keepers_[i].push_back(shape.holder(state, other));
            }
            tolerated_.push_back(shape.groups->tolerated(shape.groups->group_of(pe)));
        } else {
            for (const Share& share : shares->of(pe)) {
                keepers_[i].push_back(share.holder);
            }
        }
        for (const ProcId keeper : keepers_[i]) {
            keepers_nodes_[i].push_back(shape.node_of(state, keeper));
        }
    }
}

std::string Losses::why_fatal(const std::vector<NodeId>& nodes) const {
    std::vector<char> is_lost(static_cast<std::size_t>(n_nodes_), 0);
    for (const NodeId node : nodes) {
        SFT_ASSERT(node.value() >= 0 && node.value() < n_nodes_);
        is_lost[node.index()] = 1;
    }
    const auto lost = [&](NodeId node) { return is_lost[node.index()] != 0; };
    std::int32_t n_lost = 0;
    for (std::size_t pe = 0; pe < node_of_pe_.size(); ++pe) {
        if (!lost(node_of_pe_[pe])) {
            continue;
        }
        ++n_lost;
        const std::vector<NodeId>& keepers = keepers_nodes_[pe];
        const auto n_keepers_lost = std::count_if(keepers.begin(), keepers.end(), lost);
        if (!tolerated_.empty() && n_keepers_lost + 1 > tolerated_[pe]) {
            return format("%s of the group of PE %zu are there", counted_out(n_keepers_lost + 1, "PE").c_str(), pe);
        }
        if (tolerated_.empty() && n_keepers_lost == static_cast<std::ptrdiff_t>(keepers.size())) {
            return format("PE %zu and all its copies are there", pe);
        }
    }
    const auto n_pes = static_cast<std::int32_t>(node_of_pe_.size());
    if (!is_quorum(n_pes - n_lost, n_pes, !lost(node_of_leader_))) {
        return format("%d of %d PEs are left, which cannot tell whether they are the part that is cut off",
                      n_pes - n_lost, n_pes);
    }
    const std::int64_t n_spares =
        std::count_if(nodes_of_spares_.begin(), nodes_of_spares_.end(), [&](NodeId node) { return !lost(node); });
    if (n_spares < n_lost) {
        return format("%s %s lost, and %s %s left elsewhere", counted_out(n_lost, "PE").c_str(),
                      n_lost == 1 ? "is" : "are", counted_out(n_spares, "spare").c_str(), n_spares == 1 ? "is" : "are");
    }
    return {};
}

std::string Losses::why_fatal(const std::vector<LossUnit>& units, const UnitSet& set) const {
    std::vector<NodeId> nodes;
    std::string names;
    for (const std::int32_t number : set) {
        const LossUnit& unit = units[static_cast<std::size_t>(number)];
        names += names.empty() ? unit.name : ", " + unit.name;
        nodes.insert(nodes.end(), unit.nodes.begin(), unit.nodes.end());
    }
    const std::string why = why_fatal(nodes);
    return why.empty() ? why : names + ": " + why;
}

std::uint64_t choices(std::uint64_t n, std::uint64_t k) {
    std::uint64_t product = 1;
    for (std::uint64_t i = 0; i < k; ++i) {
        product = product * (n - i) / (i + 1);
    }
    return product;
}

bool each_set(std::int32_t n, std::int32_t k, std::uint64_t n_max, const std::function<void(const UnitSet&)>& call) {
    SFT_ASSERT(k > 0 && k <= n);
    if (choices(static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(k)) > n_max) {
        std::mt19937 random(1);  // the same job gives the same figures
        for (std::uint64_t i = 0; i < n_max; ++i) {
            UnitSet set;
            while (static_cast<std::int32_t>(set.size()) < k) {
                const auto one = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(n));
                if (std::find(set.begin(), set.end(), one) == set.end()) {
                    set.push_back(one);
                }
            }
            std::sort(set.begin(), set.end());
            call(set);
        }
        return true;
    }
    UnitSet set(static_cast<std::size_t>(k));
    for (std::int32_t i = 0; i < k; ++i) {
        set[static_cast<std::size_t>(i)] = i;
    }
    for (;;) {
        call(set);
        std::int32_t at = k - 1;
        while (at >= 0 && set[static_cast<std::size_t>(at)] == n - k + at) {
            --at;
        }
        if (at < 0) {
            return false;
        }
        std::int32_t next = ++set[static_cast<std::size_t>(at)];
        for (std::int32_t i = at + 1; i < k; ++i) {
            set[static_cast<std::size_t>(i)] = ++next;
        }
    }
}

}  // namespace sft
