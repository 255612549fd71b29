// Places in the code of the program, in a form that means the same in every process of a job: addresses of the
// executable are alike everywhere, those of shared libraries may not be.
//
// Thread safety: one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sft {

class CodePlaces {
public:
    // The same number for the same instruction in every process.
    [[nodiscard]] std::uint64_t number_of(const void* address) noexcept;
    // Back again; null: the library that it lies in is not loaded here.
    [[nodiscard]] const void* address_of(std::uint64_t number) noexcept;
    // A number, not 0, for the way by which the program has come to the call that returns to `from`: all return
    // addresses up to main.
    [[nodiscard]] std::uint64_t number_of_stack(const void* from) noexcept;

private:
    struct Module {
        std::uintptr_t begin = 0;
        std::uintptr_t end = 0;
        std::uintptr_t base = 0;
        std::uint64_t name = 0;  // of its file; 0: the executable
    };
    void find_modules();

    std::vector<Module> modules_;
    std::size_t last_ = 0;
};

// "solve (solver.c:88)", or as much of it as can be found out: the line needs debug information and libdw.
[[nodiscard]] std::string describe_place(const void* address);

}  // namespace sft
