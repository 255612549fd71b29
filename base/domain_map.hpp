// Which memory domain a process of a job on one node is bound to (base/memory_domain.hpp).
//
// All processes have the same map, because placements follow from it: it is read when everybody has said where he is
// bound and before anybody goes on, and never changes. So of a process that comes later nothing is known.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "base/ids.hpp"

namespace sft {

class DomainMap {
public:
    // Nothing is known.
    DomainMap() = default;
    // By process, of those that the job starts with; kNoDomain: bound to several, or to none.
    explicit DomainMap(std::vector<DomainId> domains) : domains_(std::move(domains)) {}

    [[nodiscard]] DomainId domain_of(ProcId process) const noexcept {
        return process.value() >= 0 && process.index() < domains_.size() ? domains_[process.index()] : kNoDomain;
    }
    // False: they are of no use, since nobody is known to be elsewhere than somebody else.
    [[nodiscard]] bool has_several() const noexcept {
        const auto is_known = [](DomainId domain) { return domain != kNoDomain; };
        const auto first = std::find_if(domains_.begin(), domains_.end(), is_known);
        return std::any_of(first, domains_.end(),
                           [&](DomainId domain) { return is_known(domain) && domain != *first; });
    }

private:
    std::vector<DomainId> domains_;
};

}  // namespace sft
