// Can the other nodes be reached at all? Asked once, at start-up, before anything depends on it.
//
// A filter that drops packets, or an interface that leads nowhere, answers nothing: whoever waits for a connection
// waits for ever. The kernel of a node accepts connections to a port that somebody listens on, so no process of it has
// to do anything for the answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/contact.hpp"

namespace sft {

struct Unreached {
    std::size_t index = 0;  // of the address
    int error_number = 0;   // ETIMEDOUT: no answer at all
};

// Connects to every address, and closes the connections again. Nothing: all have answered within the patience. Asks
// again every second, so that a link that loses much is no obstacle, and lets older questions be answered, so that a
// slow one is none either. With a key it is signed (net/signed_ways.hpp). Blocks.
[[nodiscard]] std::optional<Unreached> find_unreached(std::span<const MailAddress> addresses, std::int64_t patience_ns,
                                                      std::optional<std::uint64_t> key = std::nullopt);

}  // namespace sft
