// oshc++: the C++ compiler with this library's headers and library. See docs/man/oshcc.1.

#include "tools/oshcc/static_libs.hpp"
#include "tools/oshcc/wrapper.hpp"

int main(int argc, char** argv) {
    return sft::tools::run_wrapper({"oshc++", "OSHCXX_CXX", sft::tools::kDefaultCxx, "C++"}, argc, argv);
}
