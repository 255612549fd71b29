// The deliberate bugs by name, for --mutation. Only in the executable that is built with them.
#pragma once

#include <string>
#include <vector>

#include "recovery/membership/mutation.hpp"

namespace sft::sim {

// Empty in a build without them.
[[nodiscard]] const std::vector<std::string>& mutation_names();
// False: there is no such bug here.
[[nodiscard]] bool switch_on(const std::string& name);
void switch_off();

}  // namespace sft::sim
