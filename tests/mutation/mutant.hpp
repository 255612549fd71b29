// All mutants of the decision code exist at once in the copies that schemata.py writes; the environment says which one
// is alive in this process. None: the code is what it was.
#pragma once

namespace sft::mutant {

// SFT_MUTANT; 0: none.
extern const int chosen;

[[nodiscard]] inline bool flip(int id, bool value) noexcept { return value != (chosen == id); }
[[nodiscard]] inline bool runs(int id) noexcept { return chosen != id; }
// One more, or, as the next mutant, one less.
template <class Number>
[[nodiscard]] Number shift(int id, Number value) noexcept {
    return static_cast<Number>(chosen == id ? value + 1 : chosen == id + 1 ? value - 1 : value);
}

}  // namespace sft::mutant
