// Whether the program that this library is loaded into can call one of its routines: what the loader has been asked to
// find tells. What is looked up by name at run time does not show there, so a program of which nothing shows (an
// interpreter) may call anything.
#pragma once

namespace sft {

// `name` of a routine, without the p of its profiling name. False only if the program calls other routines of this
// library, and not this one.
[[nodiscard]] bool program_may_call(const char* name) noexcept;

}  // namespace sft
