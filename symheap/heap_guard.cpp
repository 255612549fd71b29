#include "symheap/heap_guard.hpp"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/assert.hpp"
#include "base/pages.hpp"
#include "base/private_data.hpp"
#include "base/process_watch.hpp"
#include "base/report.hpp"

namespace sft {
namespace {

// Whom the handler asks.
SFT_LIBRARY_STATE std::atomic<HeapGuard*> guard_of_process{nullptr};

// Where the kernel says so: a write, and not a jump into the heap, which would fault again and again.
bool is_write(const void* context) noexcept {
#if defined(__x86_64__)
    constexpr greg_t kWrite = 2;
    return (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & kWrite) != 0;
#else
    static_cast<void>(context);
    return false;
#endif
}

bool set_rights(std::uintptr_t begin, std::size_t bytes, int rights) noexcept {
    return ::mprotect(reinterpret_cast<void*>(begin), bytes, rights) == 0;
}

}  // namespace

Result<> HeapGuard::open(const Options& options) {
    SFT_ASSERT(!is_open() && options.heap.bytes != 0 && options.n_pes > 0 && options.entries != nullptr);
    SFT_ASSERT(options.heap.begin % kPageBytes == 0 && options.heap.bytes % kPageBytes == 0);
#if !defined(__x86_64__)
    return fails("it needs a processor of which faults tell reads and writes apart (x86-64)");
#endif
    o_ = options;
    heaps_ = std::make_unique<Heap[]>(static_cast<std::size_t>(o_.n_pes));
    HeapGuard* none = nullptr;
    const bool is_alone = guard_of_process.compare_exchange_strong(none, this);
    SFT_ASSERT(is_alone);
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigemptyset(&action.sa_mask);
    if (::sigaction(SIGSEGV, &action, &before_) != 0) {
        const int number = errno;
        close();
        return fails("cannot take SIGSEGV: " + describe_error(number), number);
    }
    return {};
}

void HeapGuard::close() noexcept {
    if (!is_open()) {
        return;
    }
    lower();
    if (has_signal()) {
        ::sigaction(SIGSEGV, &before_, nullptr);
    }
    guard_of_process.store(nullptr);
    o_ = {};
}

bool HeapGuard::has_signal() const noexcept {
    struct sigaction now = {};
    return ::sigaction(SIGSEGV, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_fault;
}

GuardWords HeapGuard::words_at(std::intptr_t distance) const noexcept {
    SFT_ASSERT(o_.words_offset >= o_.heap.bytes);
    const std::uintptr_t begin = o_.heap.begin + static_cast<std::uintptr_t>(distance);
    return {reinterpret_cast<std::byte*>(begin) + o_.words_offset, o_.heap.bytes};
}

bool HeapGuard::distance_to(PeId pe, std::intptr_t& distance) const noexcept {
    distance = o_.entries[pe.index()].heap_difference.load();
    SFT_ASSERT(pe != o_.me || distance == 0);
    return distance != kUnreachable && distance != kRemote;
}

bool HeapGuard::is_refused() const noexcept {
    for (std::int32_t i = 0; i < o_.n_pes; ++i) {
        std::intptr_t distance = 0;
        if (distance_to(PeId(i), distance) && words_at(distance).is_refused()) {
            return true;
        }
    }
    return false;
}

// Runs of held chunks; what lies between two that are near to each other is guarded with them, so that the kernel has
// few pieces of memory to keep: the handler finds that nothing is held there.
bool HeapGuard::raise(const Heap& heap) noexcept {
    constexpr std::size_t kNear = 16;
    const std::size_t n = heap.words.n_chunks();
    for (std::size_t first = 0; first < n;) {
        if (!heap.words.is_held(first)) {
            ++first;
            continue;
        }
        std::size_t end = first + 1;
        for (std::size_t next = end; next < n && next < end + kNear; ++next) {
            end = heap.words.is_held(next) ? next + 1 : end;
        }
        const std::size_t begin = first * GuardWords::kChunkBytes;
        const std::size_t bytes = std::min(end * GuardWords::kChunkBytes, o_.heap.bytes) - begin;
        if (!set_rights(heap.begin.load() + begin, bytes, PROT_READ)) {
            return false;
        }
        first = end;
    }
    return true;
}

bool HeapGuard::raise() noexcept {
    SFT_ASSERT(is_open());
    for (std::int32_t i = 0; i < o_.n_pes; ++i) {
        std::intptr_t distance = 0;
        if (!distance_to(PeId(i), distance)) {
            continue;
        }
        Heap& heap = heaps_[PeId(i).index()];
        heap.words = words_at(distance);
        heap.begin.store(o_.heap.begin + static_cast<std::uintptr_t>(distance));
        if (!raise(heap)) {
            lower();
            return false;
        }
    }
    return true;
}

// In pieces: the kernel lets nobody of the process have new pages meanwhile.
void HeapGuard::lower() noexcept {
    constexpr std::size_t kAtOnce = std::size_t{64} << 20;
    for (std::int32_t i = 0; i < o_.n_pes; ++i) {
        const std::uintptr_t begin = heaps_[PeId(i).index()].begin.load();
        for (std::size_t done = 0; begin != 0 && done < o_.heap.bytes; done += kAtOnce) {
            static_cast<void>(
                set_rights(begin + done, std::min(kAtOnce, o_.heap.bytes - done), PROT_READ | PROT_WRITE));
        }
    }
}

void HeapGuard::await_all() const noexcept {
    for (std::int32_t i = 0; i < o_.n_pes; ++i) {
        std::intptr_t distance = 0;
        if (!distance_to(PeId(i), distance)) {
            continue;
        }
        const GuardWords words = words_at(distance);
        for (std::size_t chunk = 0; chunk < words.n_chunks(); ++chunk) {
            words.await(chunk, [&] { return !distance_to(PeId(i), distance); });
        }
    }
}

// ---- in the handler ----

bool HeapGuard::let_pass(std::uintptr_t address) noexcept {
    for (std::int32_t i = 0; i < o_.n_pes; ++i) {
        const Heap& heap = heaps_[PeId(i).index()];
        const std::uintptr_t begin = heap.begin.load();
        if (begin == 0 || address < begin || address >= begin + o_.heap.bytes) {
            continue;
        }
        std::intptr_t distance = 0;
        const auto is_gone = [&] { return !distance_to(PeId(i), distance); };
        const std::size_t chunk = (address - begin) / GuardWords::kChunkBytes;
        heap.words.await(chunk, is_gone);
        const std::size_t offset = chunk * GuardWords::kChunkBytes;
        if (set_rights(begin + offset, std::min(GuardWords::kChunkBytes, o_.heap.bytes - offset),
                       PROT_READ | PROT_WRITE)) {
            return true;
        }
        // The kernel keeps no more pieces of memory: all of it then, which is one.
        for (std::size_t other = 0; other < heap.words.n_chunks(); ++other) {
            heap.words.await(other, is_gone);
        }
        return set_rights(begin, o_.heap.bytes, PROT_READ | PROT_WRITE);
    }
    return false;
}

// Without a handler before, the instruction is tried again and does what it does without one.
void HeapGuard::pass_on(int signal, siginfo_t* info, void* context) noexcept {
    if ((before_.sa_flags & SA_SIGINFO) != 0) {
        before_.sa_sigaction(signal, info, context);
    } else if (before_.sa_handler != SIG_DFL && before_.sa_handler != SIG_IGN) {
        before_.sa_handler(signal);
    } else {
        struct sigaction none = {};
        none.sa_handler = SIG_DFL;
        ::sigaction(signal, &none, nullptr);
        if (info->si_code <= 0) {
            ::raise(signal);  // somebody has sent it
        }
    }
}

void HeapGuard::on_fault(int signal, siginfo_t* info, void* context) {
    const int error_before = errno;
    HeapGuard* const guard = guard_of_process.load();
    if (guard == nullptr) {
        ::signal(signal, SIG_DFL);  // on its way out
    } else if (info->si_code != SEGV_ACCERR || !is_write(context) ||
               !guard->let_pass(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
        guard->pass_on(signal, info, context);
    }
    errno = error_before;
}

}  // namespace sft
