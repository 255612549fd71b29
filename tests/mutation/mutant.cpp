#include "tests/mutation/mutant.hpp"

#include <cstdlib>

namespace sft::mutant {
namespace {

int from_environment() noexcept {
    const char* const text = std::getenv("SFT_MUTANT");
    return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace

const int chosen = from_environment();

}  // namespace sft::mutant
