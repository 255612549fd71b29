// toml++, whose parser ends the process by an assertion at some malformed files: here that is an exception, as for the
// others. Whoever parses catches toml::parse_error, and NotToml.
#pragma once

#include <stdexcept>

namespace sft {

class NotToml : public std::runtime_error {
public:
    NotToml() : std::runtime_error("cannot be read as TOML") {}
};
[[noreturn]] inline void throw_not_toml() { throw NotToml(); }

}  // namespace sft

#pragma push_macro("NDEBUG")
#undef NDEBUG  // else what is wrong would be assumed not to be
#define TOML_ASSERT(condition) ((condition) ? static_cast<void>(0) : ::sft::throw_not_toml())
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")
