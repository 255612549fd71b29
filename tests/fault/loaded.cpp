// What lies among the globals of a program and belongs to the loader, to shared libraries or to the private variables
// of its functions: none of it may go back. PE 1 kills itself in step 3; its substitute has other addresses of
// libraries where they are randomised, and throws, prints and asks dlsym as the others do.
#include <dlfcn.h>
#include <shmem.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <locale>
#include <memory>
#include <shmem_ft.hpp>
#include <sstream>
#include <stdexcept>
#include <string>

// With external linkage, so that the compiler must take them for variables.
std::ostream* stream = &std::cerr;                       // the address of an object in a shared library
int (*compare)(const char*, const char*) = std::strcmp;  // of a function there
double (*root)(double) SHMEM_FT_PRIVATE = nullptr;       // what dlsym has given

namespace {

constexpr long kSteps = 6;
constexpr long kFatalStep = 3;

// Symmetric state.
long step;
long total;

int n_made SHMEM_FT_PRIVATE = 0;

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "loaded: error: PE %d: %s\n", shmem_my_pe(), what);
    shmem_global_exit(1);
}

std::string make_name() {
    ++n_made;
    return "a name that does not fit into the string itself";
}

// Made for the first time behind a checkpoint, and again nowhere.
const std::string& name() {
    static const std::string* kept SHMEM_FT_PRIVATE = new std::string(make_name());
    return *kept;
}

long thrown_number(long number) {
    try {
        throw std::out_of_range(std::to_string(number));
    } catch (const std::exception& error) {
        return std::stol(error.what());
    }
}

// Virtual functions of shared libraries, locales and facets.
std::string printed_number(long number) {
    const std::unique_ptr<std::ostream> out = std::make_unique<std::ostringstream>();
    out->imbue(std::locale(std::locale::classic(), new std::numpunct<char>()));
    *out << number << ' ' << 0.5;
    return dynamic_cast<std::ostringstream&>(*out).str();
}

void look_at_everything() {
    if (thrown_number(step) != step || printed_number(step) != std::to_string(step) + " 0.5") {
        fail("exceptions or streams do not work");
    }
    *stream << "" << std::flush;
    if (!stream->good() || compare("same", "same") != 0 || root == nullptr || root(4.0) != 2.0) {
        fail("an address in a library is wrong");
    }
    if (step > 1 && (name().size() != 47 || n_made != 1)) {
        fail("a private variable of a function was not initialised once");
    }
}

void compute_step(bool may_die) {
    if (may_die && step == kFatalStep && shmem_my_pe() == 1) {
        std::raise(SIGKILL);
    }
    look_at_everything();
    shmem_barrier_all();
    total += thrown_number(step) * (shmem_my_pe() + 1);
    ++step;
}

}  // namespace

int main() {
    const shmem_ft::Job job;
    void* const library = dlopen("libm.so.6", RTLD_NOW);
    root = library == nullptr ? nullptr : reinterpret_cast<double (*)(double)>(dlsym(library, "sqrt"));
    const bool may_die = shmem_ft_algo_init() != 0;
    while (step < kSteps) {
        if (shmem_ft::checkpoint_or_recover()) {
            compute_step(may_die);
        }
    }
    while (!shmem_ft::checkpoint_or_recover()) {
    }
    std::printf("result %d %ld\n", job.my_pe(), total);
    std::fflush(stdout);
    return 0;
}
