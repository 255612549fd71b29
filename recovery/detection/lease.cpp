#include "recovery/detection/lease.hpp"

#include "base/assert.hpp"

namespace sft {

bool Lease::is_held(std::int64_t now_ns) const {
    if (options_.is_one_node) {
        return true;
    }
    SFT_ASSERT(options_.self.value() >= 0 && options_.self.value() < options_.control->n_slots());
    const auto lease_of = [this](ProcId process) { return options_.control->slot(process).lease_ns.load(); };
    return has_lease(options_.self, lease_of, now_ns, options_.bound_ns);
}

}  // namespace sft
