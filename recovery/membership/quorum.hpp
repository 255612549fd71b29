// Which of two parts that cannot reach each other may go on: never both, whoever is in which.
#pragma once

#include <cstdint>

namespace sft {

// n_reachable of the n_all participants, this one among them; has_first: the first in the order of leaders, too.
[[nodiscard]] constexpr bool is_quorum(std::int32_t n_reachable, std::int32_t n_all, bool has_first) noexcept {
    return 2 * n_reachable > n_all || (n_reachable > 0 && 2 * n_reachable == n_all && has_first);
}

}  // namespace sft
