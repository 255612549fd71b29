#include "shmem_ft/ops/engine.hpp"

#include "base/assert.hpp"
#include "base/report.hpp"
#include "shmem_ft/ops/check.hpp"
#include "shmem_ft/ops/target.hpp"

namespace sft {

SFT_LIBRARY_STATE Engine* g_engine = nullptr;
SFT_LIBRARY_STATE Engine* g_fast_engine = nullptr;

void attach_engine(Engine* e) noexcept {
    SFT_ASSERT(e == nullptr || g_engine == nullptr || g_engine == e);  // a process has one
    SFT_ASSERT(e == nullptr || (e->peers.n_pes > 0 && e->peers.me != kNoPe && e->peers.entries != nullptr));
    g_engine = e;
    g_fast_engine = e != nullptr && (e->checker != nullptr || e->startup != nullptr) ? nullptr : e;
}

void connect_nodes(Engine& e, Network& network, std::span<const NodeId> node_of_pe) {
    SFT_ASSERT(e.peers.me != kNoPe && node_of_pe.size() == static_cast<std::size_t>(e.peers.n_pes));
    SFT_ASSERT(e.network == nullptr || e.network == &network);
    e.nodes.set(node_of_pe, e.peers.me);
    e.network = &network;
    e.gate.set_network(&network);
}

Engine& running_engine(const char* routine) noexcept {
    if (g_engine == nullptr) {
        report_not_initialized(routine);
    }
    return *g_engine;
}

Engine& checked_engine(const char* routine) noexcept {
    Engine& e = running_engine(routine);
    if (e.checker != nullptr) {
        e.checker->check_thread(routine);
    }
    return e;
}

void report_not_initialized(const char* routine) noexcept {
    die("%s was called before shmem_init or after the last shmem_finalize", routine);
}

void no_such_pe(const Engine& e, const char* routine, int pe, std::int32_t n_pes) noexcept {
    if (!e.waiter.fault_pending()) {
        die("%s: there is no PE %d: PE numbers go from 0 to %d here", routine, pe, n_pes - 1);
    }
}

void no_such_context(const Engine& e, const char* routine) noexcept {
    if (!e.waiter.fault_pending()) {
        die("%s: the context is invalid: it was never created, or has been destroyed", routine);
    }
}

void report_bad_argument(const char* routine, const char* what, long value) noexcept {
    die("%s: %s has the unknown value %ld: use one of the constants of shmem.h", routine, what, value);
}

}  // namespace sft
