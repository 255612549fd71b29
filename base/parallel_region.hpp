// Whether the calling thread is inside a parallel region of OpenMP, whichever runtime the program has (GCC's and LLVM's
// are tested). Code of a region cannot be left by a jump or an exception: its runtime keeps books of who is inside, and
// the other threads of the team go on.
#pragma once

namespace sft {

// Also true in a region of one thread. Asks the runtime, which may make itself known to a thread that it has not seen
// yet.
[[nodiscard]] bool is_in_parallel_region() noexcept;

}  // namespace sft
