// How often a test repeats what it draws at random. A sanitizer makes it many times as slow, and looks at how memory is
// used, which a tenth shows as well.
#pragma once

#include <algorithm>

#include "base/instruments.hpp"

namespace sft {

template <class Number>
[[nodiscard]] Number rounds(Number plain) {
    return is_address_sanitized() || is_thread_sanitized() ? std::max<Number>(1, plain / 10) : plain;
}

}  // namespace sft
