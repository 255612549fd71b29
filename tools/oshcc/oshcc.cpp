// oshcc: the C compiler with this library's headers and library. See docs/man/oshcc.1.

#include "tools/oshcc/static_libs.hpp"
#include "tools/oshcc/wrapper.hpp"

int main(int argc, char** argv) {
    return sft::tools::run_wrapper({"oshcc", "OSHCC_CC", sft::tools::kDefaultCc, "C"}, argc, argv);
}
