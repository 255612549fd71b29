// C++17 on top of shmem.h and shmem_ft.h: owners that clean up, and spans instead of pointers with counts. Everything
// here is inline and adds nothing to what the C calls do.
#ifndef SHMEM_FT_HPP
#define SHMEM_FT_HPP

#include <shmem.h>
#include <shmem_ft.h>

#include <cstddef>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#if __cplusplus >= 202002L
#include <span>
#endif

namespace shmem_ft {

// std::span, or in C++17, which has none, what is used of it: a pointer and a count, laid out alike, so that parts of a
// program may be compiled for either.
#if __cplusplus >= 202002L
template <class T>
using Span = std::span<T>;
#else
template <class T>
class Span {
public:
    constexpr Span() noexcept = default;
    constexpr Span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}

    [[nodiscard]] constexpr T *data() const noexcept { return data_; }
    [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
    [[nodiscard]] constexpr bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] constexpr T &operator[](std::size_t i) const { return data_[i]; }
    [[nodiscard]] constexpr T &front() const { return data_[0]; }
    [[nodiscard]] constexpr T &back() const { return data_[size_ - 1]; }
    [[nodiscard]] constexpr T *begin() const noexcept { return data_; }
    [[nodiscard]] constexpr T *end() const noexcept { return data_ + size_; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};
#endif

// shmem_init and shmem_finalize as a scope. Collective.
class Job {
public:
    Job() { shmem_init(); }
    ~Job() { shmem_finalize(); }
    Job(const Job &) = delete;
    Job &operator=(const Job &) = delete;

    [[nodiscard]] int my_pe() const { return shmem_my_pe(); }
    [[nodiscard]] int n_pes() const { return shmem_n_pes(); }
};

// A block of the symmetric heap. Construction and destruction are collective, in the same order on all PEs. The
// elements are uninitialised bytes: initialise them where shmem_ft_algo_init says so. In a substitute the same
// construction gives the block of the PE that it replaces.
template <class T>
class SymmetricArray {
    static_assert(std::is_trivially_copyable_v<T>, "symmetric memory is saved and restored as bytes");

public:
    // Empty (false in a condition) on all PEs if the symmetric heap has no room.
    explicit SymmetricArray(std::size_t count)
        : data_(static_cast<T *>(alignof(T) > alignof(std::max_align_t) ? shmem_align(alignof(T), count * sizeof(T))
                                                                        : shmem_malloc(count * sizeof(T)))),
          count_(data_ == nullptr ? 0 : count) {}
    ~SymmetricArray() { shmem_free(data_); }
    SymmetricArray(SymmetricArray &&other) noexcept
        : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
    SymmetricArray(const SymmetricArray &) = delete;
    SymmetricArray &operator=(const SymmetricArray &) = delete;
    SymmetricArray &operator=(SymmetricArray &&) = delete;  // would free, collectively, where nobody sees it

    explicit operator bool() const { return data_ != nullptr; }
    [[nodiscard]] Span<T> span() const { return {data_, count_}; }
    [[nodiscard]] T *data() const { return data_; }
    [[nodiscard]] std::size_t size() const { return count_; }
    [[nodiscard]] T &operator[](std::size_t i) const { return data_[i]; }
    [[nodiscard]] T *begin() const { return data_; }
    [[nodiscard]] T *end() const { return data_ + count_; }

private:
    T *data_;
    std::size_t count_;
};

// Why a PE failed.
class Status {
public:
    explicit Status(int value) : value_(value) {}

    [[nodiscard]] int value() const { return value_; }
    [[nodiscard]] int kind() const { return shmem_ft_status_kind(value_); }
    [[nodiscard]] int signal() const { return shmem_ft_status_signal(value_); }
    [[nodiscard]] int exit_code() const { return shmem_ft_status_exit_code(value_); }
    [[nodiscard]] std::string text() const {
        char buffer[160];
        return shmem_ft_status_text(value_, buffer, sizeof buffer);
    }

private:
    int value_;
};

// The PEs that had failed at the last status check: shmem_query_fault, with its arrays owned.
class FaultList {
public:
    FaultList() { shmem_query_fault(&pes_, &statuses_, &count_); }
    ~FaultList() {
        std::free(pes_);
        std::free(statuses_);
    }
    FaultList(FaultList &&other) noexcept
        : pes_(std::exchange(other.pes_, nullptr)),
          statuses_(std::exchange(other.statuses_, nullptr)),
          count_(std::exchange(other.count_, 0)) {}
    FaultList(const FaultList &) = delete;
    FaultList &operator=(const FaultList &) = delete;
    FaultList &operator=(FaultList &&) = delete;

    [[nodiscard]] bool empty() const { return count_ == 0; }
    [[nodiscard]] std::size_t size() const { return count_; }
    [[nodiscard]] Span<const int> pes() const { return {pes_, count_}; }
    [[nodiscard]] Status status(std::size_t i) const { return Status(statuses_[i]); }

    // Rolls back and replaces exactly these PEs. Collective over survivors and substitutes.
    void restart() const { shmem_restart_pes(pes_, count_); }

private:
    int *pes_ = nullptr;
    int *statuses_ = nullptr;
    std::size_t count_ = 0;
};

// What a call throws that meets a fault, inside protect().
class Fault : public std::runtime_error {
public:
    explicit Fault(const char *routine) : std::runtime_error(std::string(routine) + ": a PE has failed") {}
};

namespace detail {

// True: there is a version, or one is begun; false: a PE has failed.
inline bool is_made(int result, const char *routine) {
    if (result != SHMEM_FT_SUCCESS && result != SHMEM_FT_FAILURE) {
        throw std::runtime_error(std::string(routine) +
                                 (result == SHMEM_FT_ERROR_OUT_OF_MEMORY ? ": out of memory" : ": not initialized"));
    }
    return result == SHMEM_FT_SUCCESS;
}

}  // namespace detail

// Commits a version. In protect() a fault comes as an exception. Throws std::runtime_error, on all PEs, if no version
// could be made although nobody failed (SHMEM_FT_ERROR_*).
inline void checkpoint() { detail::is_made(shmem_checkpoint_all(), "shmem_checkpoint_all"); }

// Begins a version of what memory holds now. It is made while the program goes on; what this library is called for next
// by all PEs waits for it. Collective; throws as checkpoint() does.
inline void checkpoint_nb() { detail::is_made(shmem_ft_checkpoint_nb(), "shmem_ft_checkpoint_nb"); }

// Waits until what checkpoint_nb() has begun is committed. Local. In protect() a fault comes as an exception.
inline void checkpoint_wait() { detail::is_made(shmem_ft_checkpoint_wait(), "shmem_ft_checkpoint_wait"); }

// Whether it is committed, without waiting.
[[nodiscard]] inline bool checkpoint_test() {
    const int result = shmem_ft_checkpoint_test();
    return result != SHMEM_FT_PENDING && detail::is_made(result, "shmem_ft_checkpoint_test");
}

// Calls body(), and again from its beginning whenever a call of this thread in there has met a fault: the call throws a
// Fault, everything up to here is unwound, whoever has failed is replaced, and everybody goes back to the last
// checkpoint. on_failure(const FaultList &) is called in between. A substitute recovers first and calls body() then. So
// body() begins anywhere, from what is in symmetric memory, and whatever decides how it goes on has to be there.
// Collective. Ends with body(), or with any other exception that leaves it; calls return from then on.
// body() must not catch a Fault without throwing it on, and no function in between may be noexcept. Inside a parallel
// region of OpenMP, and in other threads, calls return as with SHMEM_FT_ON_FAULT_RETURN.
//     shmem_ft::protect([&] {
//         while (residual > tolerance) {
//             shmem_ft::checkpoint();
//             compute();
//         }
//         shmem_ft::checkpoint();
//     });
template <class Body, class OnFailure>
void protect(Body &&body, OnFailure &&on_failure) {
    struct Throwing {
        Throwing() {
            shmem_ft_on_fault(
                SHMEM_FT_ON_FAULT_THROW, [](const char *routine, void *) { throw Fault(routine); }, nullptr);
        }
        ~Throwing() { shmem_ft_on_fault(SHMEM_FT_ON_FAULT_RETURN, nullptr, nullptr); }
        Throwing(const Throwing &) = delete;
        Throwing &operator=(const Throwing &) = delete;
    };
    const Throwing throwing;
    for (bool has_failed = shmem_ft_must_recover() != 0;;) {
        if (has_failed) {
            const FaultList faults;
            on_failure(faults);
            faults.restart();
        }
        try {
            body();
            return;
        } catch (const Fault &) {
            has_failed = true;
        }
    }
}

template <class Body>
void protect(Body &&body) {
    protect(std::forward<Body>(body), [](const FaultList &) {});
}

// One turn of the protected loop, for programs that look at results instead: commits a version and returns true, or
// replaces who has failed, rolls back and returns false. on_failure(const FaultList&) is called in between. Collective.
// Throws std::runtime_error, on all PEs, if no version could be made although nobody failed (SHMEM_FT_ERROR_*).
//     while (step < steps) {
//         if (shmem_ft::checkpoint_or_recover()) { compute(step); ++step; }
//     }
template <class OnFailure>
bool checkpoint_or_recover(OnFailure &&on_failure) {
    if (detail::is_made(shmem_checkpoint_all(), "shmem_checkpoint_all")) {
        return true;
    }
    const FaultList faults;
    std::forward<OnFailure>(on_failure)(faults);
    faults.restart();
    shmem_barrier_all();
    return false;
}

inline bool checkpoint_or_recover() {
    return checkpoint_or_recover([](const FaultList &) {});
}

}  // namespace shmem_ft
#endif
