// Where shadows belong, written once more in plain tables: what the library computes is compared with this.

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "tests/sim/checkers.hpp"

namespace sft::sim {
namespace {

// By area (or node) and domain: a job has one of the first or none of the second.
using Group = std::pair<std::int32_t, DomainId>;
using Groups = std::map<Group, std::vector<PeId>>;

Groups groups_of(const Scenario& scenario, const JobState& state, bool is_by_area) {
    Groups groups;
    for (std::int32_t pe = 0; pe < scenario.shape.n_pes; ++pe) {
        const ProcId holder = scenario.shape.holder(state, PeId(pe));
        const std::int32_t place = is_by_area ? area_of(scenario, holder) : node_of(scenario, holder).value();
        groups[Group(place, domain_of(scenario, holder))].emplace_back(pe);
    }
    return groups;
}

// The next ones in the order of the PEs.
Keepers keepers_by_number(const Scenario& scenario, const JobState& state) {
    const JobShape& shape = scenario.shape;
    Keepers keepers(static_cast<std::size_t>(shape.n_pes));
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        for (std::int32_t next = 1; next <= std::min(scenario.n_partners, shape.n_pes - 1); ++next) {
            keepers[static_cast<std::size_t>(pe)].push_back(shape.holder(state, PeId((pe + next) % shape.n_pes)));
        }
    }
    return keepers;
}

// One row for each PE, one column for each copy.
using Table = std::vector<std::vector<PeId>>;

// PEs of the next groups.
Table ring(const Groups& groups, std::int32_t n_pes, std::size_t n_copies) {
    Table table(static_cast<std::size_t>(n_pes));
    for (auto own = groups.begin(); own != groups.end(); ++own) {
        for (std::size_t rank = 0; rank < own->second.size(); ++rank) {
            auto next = own;
            for (std::size_t copy = 0; copy < n_copies; ++copy) {
                next = std::next(next) == groups.end() ? groups.begin() : std::next(next);
                table[own->second[rank].index()].push_back(next->second[rank % next->second.size()]);
            }
        }
    }
    return table;
}

class Circle {
public:
    Circle(const Groups& groups, std::size_t step, std::size_t n_copies) : n_copies_(n_copies) {
        std::int32_t number = 0;
        for (const auto& [group, pes] : groups) {
            circle_.insert(circle_.end(), pes.begin(), pes.end());
            for (const PeId pe : pes) {
                group_[pe] = number;
            }
            ++number;
        }
        table_.resize(circle_.size());
        for (std::size_t place = 0; place < circle_.size(); ++place) {
            for (std::size_t copy = 1; copy <= n_copies; ++copy) {
                table_[circle_[place].index()].push_back(circle_[(place + copy * step) % circle_.size()]);
            }
        }
    }

    [[nodiscard]] Table mended() {
        for (std::size_t copy = 0; copy < n_copies_; ++copy) {
            for (std::size_t place = 0; place < circle_.size(); ++place) {
                if (!may_keep(circle_[place], copy, table_[circle_[place].index()][copy])) {
                    mend(place, copy);
                }
            }
        }
        return table_;
    }

private:
    [[nodiscard]] bool may_keep(PeId pe, std::size_t copy, PeId keeper) const {
        std::vector<std::int32_t> used{group_.at(pe)};
        for (std::size_t i = 0; i < copy; ++i) {
            used.push_back(group_.at(table_[pe.index()][i]));
        }
        return std::find(used.begin(), used.end(), group_.at(keeper)) == used.end();
    }

    void mend(std::size_t place, std::size_t copy) {
        std::vector<PeId> behind(circle_.begin() + static_cast<std::ptrdiff_t>(place) + 1, circle_.end());
        behind.insert(behind.end(), circle_.begin(), circle_.begin() + static_cast<std::ptrdiff_t>(place));
        PeId& own = table_[circle_[place].index()][copy];
        for (const PeId other : behind) {
            PeId& its = table_[other.index()][copy];
            if (may_keep(circle_[place], copy, its) && may_keep(other, copy, own)) {
                std::swap(own, its);
                return;
            }
        }
        std::erase_if(behind, [&](PeId other) { return !may_keep(circle_[place], copy, other); });
        const PeId least =
            *std::min_element(behind.begin(), behind.end(), [&](PeId a, PeId b) { return n_more_[a] < n_more_[b]; });
        ++n_more_[least];
        --n_more_[own];
        own = least;
    }

    std::size_t n_copies_;
    std::vector<PeId> circle_;
    std::map<PeId, std::int32_t> group_;
    std::map<PeId, std::int32_t> n_more_;
    Table table_;
};

std::size_t fullest(const Groups& groups) {
    std::size_t most = 0;
    for (const auto& [group, pes] : groups) {
        most = std::max(most, pes.size());
    }
    return most;
}

}  // namespace

Keepers expected_keepers(const Scenario& scenario, const JobState& state) {
    const JobShape& shape = scenario.shape;
    if (has_witness(scenario)) {
        return {state.witness == kNoProc ? std::vector<ProcId>{} : std::vector{state.witness}};
    }
    if (shape.n_pes == 1) {
        return {{shape.holder(state, PeId(0))}};
    }
    if (scenario.n_partners > 1) {
        return keepers_by_number(scenario, state);
    }
    bool is_by_area = true;
    Groups groups = groups_of(scenario, state, is_by_area);
    if (groups.size() < 2) {
        is_by_area = false;
        groups = groups_of(scenario, state, is_by_area);
    }
    const auto n_known = std::count_if(groups.begin(), groups.end(), [&](const auto& group) {
        return scenario.nodes != nullptr || group.first.second != kNoDomain;
    });
    if (n_known < 2) {
        return keepers_by_number(scenario, state);
    }
    const Groups first = groups_of(scenario, {}, is_by_area);
    const auto n_wanted = static_cast<std::size_t>(scenario.nodes == nullptr ? 1 : scenario.n_replicas);
    const std::size_t n_copies = std::min(n_wanted, groups.size() - 1);
    const std::size_t n_steps = std::min(n_wanted, first.size() - 1) + 1;
    const Table table = n_steps * fullest(first) <= static_cast<std::size_t>(shape.n_pes)
                            ? Circle(groups, fullest(first), n_copies).mended()
                            : ring(groups, shape.n_pes, n_copies);
    Keepers keepers;
    for (const std::vector<PeId>& row : table) {
        keepers.emplace_back();
        std::transform(row.begin(), row.end(), std::back_inserter(keepers.back()),
                       [&](PeId pe) { return shape.holder(state, pe); });
    }
    return keepers;
}

}  // namespace sft::sim
