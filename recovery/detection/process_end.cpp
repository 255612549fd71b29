#include "recovery/detection/process_end.hpp"

#include "base/assert.hpp"

namespace sft {

ProcessEnd meaning_of_end(const EndSigns& signs) noexcept {
    if (signs.state == ProcessState::finalized || signs.state == ProcessState::ended) {
        return {.left = signs.state == ProcessState::ended ? Stage::ended : Stage::finished, .reason = {}};
    }
    if (signs.is_hung) {
        return {.left = {}, .reason = {FailureKind::hung, 0}};
    }
    if (signs.by_kernel.kind == FailureKind::died && signs.exit_status != 0) {
        const auto status = static_cast<std::uint16_t>((signs.exit_status - 1) & 0xffU);
        return {.left = {}, .reason = {FailureKind::exited, status}};
    }
    SFT_ASSERT(signs.by_kernel.kind != FailureKind::none);
    return {.left = {}, .reason = signs.by_kernel};
}

Stage stage_of_goodbye(std::uint64_t goodbye) noexcept {
    return goodbye == static_cast<std::uint64_t>(Stage::ended) ? Stage::ended : Stage::finished;
}

}  // namespace sft
