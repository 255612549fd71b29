// The headers in C++: the C functions, complex numbers, and the small C++ layer for fault tolerance.
#include <pshmem.h>
#include <shmem.h>
#include <shmemx.h>

#include <algorithm>
#include <complex>
#include <cstdio>
#include <numeric>
#include <shmem_ft.hpp>

namespace {

void check(bool holds, const char* what) {
    if (!holds) {
        std::fprintf(stderr, "PE %d: cxx.cpp: %s does not hold\n", shmem_my_pe(), what);
        shmem_global_exit(1);
    }
}

std::complex<double> sums[2], terms[2];
long flag;

void use_c_functions(int me, int n) {
    terms[0] = {1.0 * me, -1.0};
    terms[1] = {0.5, 2.0 * me};
    shmem_barrier_all();
    check(shmem_complexd_sum_reduce(SHMEM_TEAM_WORLD, sums, terms, 2) == 0, "the reduction succeeds");
    check(sums[0] == std::complex<double>(n * (n - 1) / 2.0, -n), "the sum of the first");
    check(sums[1] == std::complex<double>(0.5 * n, n * (n - 1.0)), "the sum of the second");
    shmem_long_p(&flag, me + 1, (me + 1) % n);
    shmem_wait_until(&flag, SHMEM_CMP_NE, 0);
    check(flag == (me + n - 1) % n + 1, "the flag of the left neighbour");
    shmem_sync_all();
}

// The types of C, which GCC and Clang have in C++: each family of routines that takes them.
__extension__ typedef double _Complex c_double;
__extension__ typedef float _Complex c_float;
c_double c_sums[2], c_terms[2], c_work[SHMEM_REDUCE_MIN_WRKDATA_SIZE];
c_float c_products[2], c_factors[2], c_float_work[SHMEM_REDUCE_MIN_WRKDATA_SIZE];
std::complex<float> products[1], factors[1], float_work[SHMEM_REDUCE_MIN_WRKDATA_SIZE];
long sync_words[SHMEM_REDUCE_SYNC_SIZE];

template <class Part>
void check_parts(const Part& number, double real, double imaginary, const char* what) {
    check(__real__ number == real && __imag__ number == imaginary, what);
}

void use_complex_types_of_c(int me, int n) {
    std::fill_n(sync_words, SHMEM_REDUCE_SYNC_SIZE, SHMEM_SYNC_VALUE);
    for (int i = 0; i < 2; ++i) {
        __real__ c_terms[i] = me;
        __imag__ c_terms[i] = i;
        __real__ c_factors[i] = 0;
        __imag__ c_factors[i] = 1;
    }
    factors[0] = {0, 1};
    shmem_barrier_all();
    const double sum = n * (n - 1) / 2.0;
    check(shmem_complexd_sum_reduce(SHMEM_TEAM_WORLD, c_sums, c_terms, 2) == 0, "the reduction of C types succeeds");
    check_parts(c_sums[1], sum, n, "the sum of double _Complex");
    check(shmem_complexd_sum_inscan(SHMEM_TEAM_WORLD, c_sums, c_terms, 2) == 0, "the scan of C types succeeds");
    check_parts(c_sums[1], me * (me + 1) / 2.0, me + 1, "the scan of double _Complex");
    shmem_barrier_all();
    shmem_complexd_sum_to_all(c_sums, c_terms, 2, 0, 0, n, c_work, sync_words);
    check_parts(c_sums[1], sum, n, "the old sum of double _Complex");
    const int real_of_power[] = {1, 0, -1, 0}, imaginary_of_power[] = {0, 1, 0, -1};
    check(shmem_complexf_prod_reduce(SHMEM_TEAM_WORLD, c_products, c_factors, 2) == 0, "the product succeeds");
    check_parts(c_products[1], real_of_power[n % 4], imaginary_of_power[n % 4], "the product of float _Complex");
    shmem_barrier_all();
    shmem_complexf_prod_to_all(c_products, c_factors, 2, 0, 0, n, c_float_work, sync_words);
    check_parts(c_products[0], real_of_power[n % 4], imaginary_of_power[n % 4], "the old product of float _Complex");
    shmem_barrier_all();
    shmem_complexf_prod_to_all(products, factors, 1, 0, 0, n, float_work, sync_words);
    check_parts(c_products[0], products[0].real(), products[0].imag(), "both kinds of types agree");
    shmem_barrier_all();
    check(pshmem_complexd_sum_reduce(SHMEM_TEAM_WORLD, c_sums, c_terms, 1) == 0, "the profiling name takes them");
    check_parts(c_sums[0], sum, 0, "the sum by the profiling name");
}

void use_layer(const shmem_ft::Job& job) {
    shmem_ft::SymmetricArray<double> values(1000);
    check(static_cast<bool>(values) && values.size() == 1000, "the array exists");
    std::iota(values.begin(), values.end(), job.my_pe());
    shmem_barrier_all();
    shmem_ft::SymmetricArray<double> copy(1000);
    shmem_double_get(copy.data(), values.data(), values.size(), (job.my_pe() + 1) % job.n_pes());
    check(copy[999] == 999 + (job.my_pe() + 1) % job.n_pes(), "the last value of the right neighbour");
    const auto span = values.span();
    check(std::accumulate(span.begin(), span.end(), 0.0) == 499500.0 + 1000.0 * job.my_pe(), "the sum over the span");

    struct alignas(256) Aligned {
        char bytes[256];
    };
    const shmem_ft::SymmetricArray<Aligned> aligned(3);
    check(reinterpret_cast<std::uintptr_t>(aligned.data()) % 256 == 0, "the alignment of the type");
    shmem_ft::SymmetricArray<double> moved(std::move(copy));
    check(!copy && moved.size() == 1000, "the move");
    check(shmem_ft::checkpoint_or_recover(), "a checkpoint without failure");
    check(shmem_ft::FaultList().empty(), "nobody has failed");
    check(shmem_ft::Status(SHMEM_FT_KILLED_BY_SIGNAL << 16 | 9).signal() == 9, "the signal of a status");
    check(shmem_ft::Status(SHMEM_FT_EXITED << 16 | 3).exit_code() == 3, "the exit code of a status");
    check(!shmem_ft::Status(SHMEM_FT_HUNG << 16).text().empty(), "the text of a status");
}

}  // namespace

int main() {
    const shmem_ft::Job job;
    use_c_functions(job.my_pe(), job.n_pes());
    use_complex_types_of_c(job.my_pe(), job.n_pes());
    use_layer(job);
    return 0;
}
