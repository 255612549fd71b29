// Set-up, exit, queries, memory, and the old names of all these.
#include "shmem_ft/ops/job.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <initializer_list>

#include "shmem_ft/api/stamp.hpp"
#include "shmem_ft/ops/collectives.hpp"
#include "shmem_ft/ops/heap_calls.hpp"
#include "shmem_ft/ops/query.hpp"
#include "shmem_ft/ops/teams.hpp"

namespace {

static_assert(SHMEM_THREAD_SINGLE == 0 && SHMEM_THREAD_MULTIPLE == sft::job::kThreadMultiple);
static_assert(sizeof SHMEM_VENDOR_STRING <= SHMEM_MAX_NAME_LEN);

void init_plain(const char*) noexcept { static_cast<void>(sft::job::init({}, nullptr)); }

void init_until_exit() noexcept {
    if (!sft::job::is_initialized()) {
        static_cast<void>(sft::job::init({.finalize_at_exit = true}, nullptr));
    }
}

void get_version(int* major, int* minor) noexcept {
    *major = SHMEM_MAJOR_VERSION;
    *minor = SHMEM_MINOR_VERSION;
}

// A call outside init and finalize is named before the runtime sees it.
void* checked(const char* routine) noexcept { return &sft::engine(routine); }

using Arguments = std::initializer_list<sft::CommonArgument>;

sft::CommonArgument pointer(const char* name, const void* address) noexcept {
    return {name, reinterpret_cast<std::uintptr_t>(address), sft::CommonArgument::Form::address};
}

// The same for calls that all PEs make with the same arguments. What does nothing (no size, a null pointer) need not be
// called by all.
void checked(const char* routine, std::size_t size, Arguments arguments) noexcept {
    sft::Engine& e = sft::engine(routine);
    if (sft::is_checking() && size != 0) {
        sft::compare_calls(e, sft::world(e), routine, arguments);
    }
}

void checked_alignment(const char* routine, std::size_t alignment, std::size_t size) noexcept {
    checked(routine, size, {{"alignment", alignment}, {"size", size}});
    if (sft::is_checking() && size != 0 && (!std::has_single_bit(alignment) || alignment % sizeof(void*) != 0)) {
        sft::g_engine->checker->report(routine, "alignment %zu is no power of two or no multiple of %zu", alignment,
                                       sizeof(void*));
    }
}

void checked_block(const char* routine, const void* address, Arguments arguments) noexcept {
    checked(routine, address == nullptr ? 0 : 1, arguments);
    if (sft::is_checking()) {
        sft::g_engine->checker->check_block(routine, address);
    }
}

void checked_realloc(const char* routine, const void* address, std::size_t size) noexcept {
    checked(routine, address == nullptr ? size : 1, {pointer("ptr", address), {"size", size}});
    if (sft::is_checking()) {
        sft::g_engine->checker->check_block(routine, address);
    }
}

void finalize() {
    checked("shmem_finalize", 1, {});
    if (sft::is_checking() && sft::job::is_last_finalize()) {
        sft::g_engine->checker->check_no_private_contexts("shmem_finalize", sft::kTeamInvalid);
    }
    sft::job::finalize();
    if (sft::job::is_initialized()) {  // the last one leaves nothing behind in which a fault could be met
        sft::look_for_fault(sft::g_engine, "shmem_finalize");
    }
}

// For the record of the start-up; calls for nothing do nothing.
sft::StartupCall allocates(const sft::StartupCall& told, const sft::StartupCall::Allocation& made) noexcept {
    return made.bytes == 0 ? told : told.allocating(made);
}

sft::StartupCall frees(const sft::StartupCall& told, const sft::Engine& e, const void* block) noexcept {
    return block == nullptr ? told : told.of_kind(sft::CallKind::heap).with_symmetric(e, block);
}

// Behind checked().
sft::HeapCalls& heap() noexcept { return *sft::g_engine->heap; }

int my_pe(const char* routine) noexcept { return sft::engine(routine).peers.me.value(); }
int n_pes(const char* routine) noexcept { return sft::engine(routine).peers.n_pes; }

}  // namespace

SFT_ENTRY(void, shmem_init, (void), init_plain("shmem_init"))
SFT_ENTRY(int, shmem_init_thread, (int requested, int* provided),
          sft::job::init({.requested_thread_level = requested, .report_failure = true}, provided))
SFT_ENTRY(void, start_pes, (int), init_until_exit())
SFT_ENTRY(void, shmem_finalize, (void), finalize())
// Written out, because an entry that never returns cannot be a return statement.
extern "C" void pshmem_global_exit(int status) {
    checked("shmem_global_exit");
    sft::job::global_exit(status);
}
extern "C" __attribute__((weak, alias("pshmem_global_exit"))) void shmem_global_exit(int status);
SFT_ENTRY(void, shmem_query_initialized, (int* initialized), void(*initialized = sft::job::is_initialized() ? 1 : 0))
SFT_ENTRY(void, shmem_query_thread, (int* provided), void(*provided = sft::job::thread_level()))

SFT_ENTRY(int, shmem_my_pe, (void), my_pe("shmem_my_pe"))
SFT_ENTRY(int, shmem_n_pes, (void), n_pes("shmem_n_pes"))
SFT_ENTRY(int, _my_pe, (void), my_pe("_my_pe"))
SFT_ENTRY(int, _num_pes, (void), n_pes("_num_pes"))
SFT_TOLD_ENTRY(int, shmem_pe_accessible, (int pe), told.with(sft::bits(pe)),
               sft::pe_accessible(sft::engine("shmem_pe_accessible"), pe) ? 1 : 0)
SFT_TOLD_ENTRY(int, shmem_addr_accessible, (const void* addr, int pe), told.with_symmetric(e, addr).with(sft::bits(pe)),
               sft::addr_accessible(sft::engine("shmem_addr_accessible"), addr, pe) ? 1 : 0)
SFT_TOLD_ENTRY(void*, shmem_ptr, (const void* dest, int pe), told.pointing(e, dest, pe),
               sft::pointer_to(sft::engine("shmem_ptr"), dest, pe))
SFT_ENTRY(void, shmem_info_get_version, (int* major, int* minor), get_version(major, minor))
SFT_ENTRY(void, shmem_info_get_name, (char* name),
          void(std::memcpy(name, SHMEM_VENDOR_STRING, sizeof SHMEM_VENDOR_STRING)))
SFT_ENTRY(void, shmem_pcontrol, (int, ...), void(0))

SFT_WAITING_TOLD_ENTRY(void*, shmem_malloc, (std::size_t size), allocates(told, {size}),
                       (checked("shmem_malloc", size, {{"size", size}}), heap().malloc(size)))
SFT_WAITING_TOLD_ENTRY(void, shmem_free, (void* ptr), frees(told, e, ptr),
                       (checked_block("shmem_free", ptr, {pointer("ptr", ptr)}), heap().free(ptr)))
SFT_WAITING_TOLD_ENTRY(void*, shmem_realloc, (void* ptr, std::size_t size),
                       allocates(told, {size, false, ptr}).with_symmetric(e, ptr),
                       (checked_realloc("shmem_realloc", ptr, size), heap().realloc(ptr, size)))
SFT_WAITING_TOLD_ENTRY(void*, shmem_align, (std::size_t alignment, std::size_t size),
                       allocates(told, {size}).with(alignment),
                       (checked_alignment("shmem_align", alignment, size), heap().align(alignment, size)))
SFT_WAITING_TOLD_ENTRY(void*, shmem_calloc, (std::size_t count, std::size_t size),
                       allocates(told, {count * size, true}),
                       (checked("shmem_calloc", std::min(count, size), {{"count", count}, {"size", size}}),
                        heap().calloc(count, size)))
SFT_WAITING_TOLD_ENTRY(void*, shmem_malloc_with_hints, (std::size_t size, long hints),
                       allocates(told, {size}).with(static_cast<std::uint64_t>(hints)),
                       (checked("shmem_malloc_with_hints", size,
                                {{"size", size}, {"hints", static_cast<std::uint64_t>(hints)}}),
                        heap().malloc_with_hints(size, hints)))
SFT_WAITING_TOLD_ENTRY(void*, shmalloc, (std::size_t size), allocates(told, {size}),
                       (checked("shmalloc", size, {{"size", size}}), heap().malloc(size)))
SFT_WAITING_TOLD_ENTRY(void, shfree, (void* ptr), frees(told, e, ptr),
                       (checked_block("shfree", ptr, {pointer("ptr", ptr)}), heap().free(ptr)))
SFT_WAITING_TOLD_ENTRY(void*, shrealloc, (void* ptr, std::size_t size),
                       allocates(told, {size, false, ptr}).with_symmetric(e, ptr),
                       (checked_realloc("shrealloc", ptr, size), heap().realloc(ptr, size)))
SFT_WAITING_TOLD_ENTRY(void*, shmemalign, (std::size_t alignment, std::size_t size),
                       allocates(told, {size}).with(alignment),
                       (checked_alignment("shmemalign", alignment, size), heap().align(alignment, size)))

// Caches are coherent on every processor this library runs on.
SFT_ENTRY(void, shmem_set_cache_inv, (void), void(0))
SFT_ENTRY(void, shmem_clear_cache_inv, (void), void(0))
SFT_ENTRY(void, shmem_set_cache_line_inv, (void*), void(0))
SFT_ENTRY(void, shmem_clear_cache_line_inv, (void*), void(0))
SFT_ENTRY(void, shmem_udcflush, (void), void(0))
SFT_ENTRY(void, shmem_udcflush_line, (void*), void(0))
