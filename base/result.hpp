// What came of a call that can fail: its value, or an error that says which kind of failure it was, and a line for the
// user that names the culprit and the remedy. Nobody can forget to look at one.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <type_traits>
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
    // What `next` gives if all is well so far. (and_then() of the base knows no other class.)
    template <class Next>
    [[nodiscard]] std::invoke_result_t<Next> then(Next&& next) && {
        if (!*this) {
            return tl::unexpected<Error>(std::move(this->error()));
        }
        return std::forward<Next>(next)();
    }
};

// `return fails("...")` in a function that returns a Result.
[[nodiscard]] inline tl::unexpected<Error> fails(std::string line, int number = 0) {
    return tl::unexpected<Error>(Error{Failure::failed, std::move(line), number});
}
[[nodiscard]] inline tl::unexpected<Error> fails(Error error) { return tl::unexpected<Error>(std::move(error)); }

}  // namespace sft
