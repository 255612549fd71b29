// Which globals have a type whose value means nothing in another process, as far as debug information tells: a pointer
// to private memory is stale in a survivor that has gone back and wild in a substitute.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sft::tools {

struct TypedGlobal {
    std::string name;
    std::uint64_t address = 0;
    std::string warning;  // never empty
    // A function: right wherever it lies in the program, wrong where it lies in a shared library.
    bool is_function = false;
};

struct TypeReport {
    bool has_debug_info = false;
    std::vector<TypedGlobal> risky;  // by address
};

[[nodiscard]] TypeReport find_risky_globals(const std::string& program);

}  // namespace sft::tools
