// Whatever a socket may bring: decode() refuses it, or it is the one form of a message.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "recovery/membership/message.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto bytes = std::as_bytes(std::span(data, size));
    if (const auto message = sft::decode(bytes)) {
        const auto again = sft::encode(*message);
        if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()) || sft::decode(again) != message) {
            std::abort();
        }
    }
    return 0;
}
