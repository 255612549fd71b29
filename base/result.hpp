// What came of a call that can fail: its value, or an error that says which kind of failure it was, and a line for the
// user that names the culprit and the remedy. Nobody can forget to look at one.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace sft {

enum class Failure : std::uint8_t {
    failed,            // nothing below says more
    gone,              // the process that it was about has ended: no error of the job, a death
    cannot_be_opened,  // it lives, but the system does not let us (descriptors, memory, permission)
    refused,           // it lives, and says no
};

struct Error {
    Failure failure = Failure::failed;
    std::string line;
    int number = 0;  // errno; 0: none that says anything
};

template <class T = void>
class [[nodiscard]] Result : public tl::expected<T, Error> {
public:
    using tl::expected<T, Error>::expected;
};

// `return fails("...")` in a function that returns a Result.
[[nodiscard]] inline tl::unexpected<Error> fails(std::string line, int number = 0) {
    return tl::unexpected<Error>(Error{Failure::failed, std::move(line), number});
}
// Where a plain line is wanted still.
[[nodiscard]] inline bool holds(const Result<>& result, std::string& error) {
    error = result ? error : result.error().line;
    return result.has_value();
}
[[nodiscard]] inline tl::unexpected<Error> fails(Error error) { return tl::unexpected<Error>(std::move(error)); }

}  // namespace sft
