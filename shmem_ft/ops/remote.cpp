#include "shmem_ft/ops/remote.hpp"

#include "shmem_ft/ops/act_on_fault.hpp"

namespace sft {
namespace {

// Null for a target that is dead, and for an address that is not symmetric but forgiven while a fault is pending.
Network* network_to(const Target& target, const void* address) noexcept {
    const Engine& e = target.engine;
    e.peers.require_symmetric(address, target.pe);
    const bool is_remote = e.network != nullptr && e.peers.is_remote(target.pe) && e.peers.is_symmetric(address);
    return is_remote ? e.network : nullptr;
}

// Asked behind a get: who is dead by now may have been it before all had come. There is no object with a destructor
// here or in the callers, which may be left by a jump.
bool has_come_or_meets_fault(const Network* network, const Target& target, const char* routine) {
    const bool has_come = network != nullptr && network->is_reachable(target.pe);
    if (!has_come && routine != nullptr) {
        act_on_fault(routine);
    }
    return has_come;
}

}  // namespace

template <Completion When>
void remote_put(Target target, void* dest, const void* source, std::size_t bytes) noexcept {
    if (Network* const network = network_to(target, dest)) {
        if constexpr (When == Completion::at_once) {
            network->put(target.pe, dest, source, bytes);
        } else {
            network->put_nbi(target.pe, dest, source, bytes);
        }
    }
}
template void remote_put<Completion::at_once>(Target, void*, const void*, std::size_t) noexcept;
template void remote_put<Completion::by_quiet>(Target, void*, const void*, std::size_t) noexcept;

template <Completion When>
bool remote_get(Target target, void* dest, const void* source, std::size_t bytes, const char* routine) {
    Network* const network = network_to(target, source);
    if constexpr (When == Completion::at_once) {
        if (network != nullptr) {
            network->get(target.pe, dest, source, bytes);
        }
        return has_come_or_meets_fault(network, target, routine);
    } else {
        if (network != nullptr) {
            network->get_nbi(target.pe, dest, source, bytes);
        }
        return true;
    }
}
template bool remote_get<Completion::at_once>(Target, void*, const void*, std::size_t, const char*);
template bool remote_get<Completion::by_quiet>(Target, void*, const void*, std::size_t, const char*);

void remote_put_blocks(Target target, void* dest, const void* source, NetBlocks blocks) noexcept {
    if (Network* const network = network_to(target, dest)) {
        network->put_blocks(target.pe, dest, source, blocks);
    }
}

bool remote_get_blocks(Target target, void* dest, const void* source, NetBlocks blocks, const char* routine) {
    Network* const network = network_to(target, source);
    if (network != nullptr) {
        network->get_blocks(target.pe, dest, source, blocks);
    }
    return has_come_or_meets_fault(network, target, routine);
}

std::uint64_t remote_fetch(Target target, AtomicOperation operation, void* address, std::size_t width,
                           AtomicOperands operands) noexcept {
    Network* const network = network_to(target, address);
    return network == nullptr
               ? 0
               : network->atomic_fetch(target.pe, operation, width, address, operands.operand, operands.condition);
}

void remote_post(Target target, AtomicOperation operation, void* address, std::size_t width,
                 std::uint64_t operand) noexcept {
    if (Network* const network = network_to(target, address)) {
        network->atomic_post(target.pe, operation, width, address, operand);
    }
}

template <Completion When>
void remote_put_signal(Target target, void* dest, const void* source, std::size_t bytes, Signal signal) noexcept {
    AtomicOperation operation = AtomicOperation::set;
    if (signal.operation == static_cast<int>(SignalOperation::add)) {
        operation = AtomicOperation::add;
    } else if (signal.operation != static_cast<int>(SignalOperation::set)) {
        report_bad_argument(signal.routine, "sig_op", signal.operation);
    }
    remote_put<When>(target, dest, source, bytes);
    if (Network* const network = network_to(target, signal.address)) {
        static_assert(sizeof *signal.address == sizeof signal.value);
        // An atomic may overtake the payload of a large put, of this call or of one before it to the same place.
        network->fence();
        network->atomic_post(target.pe, operation, sizeof *signal.address, signal.address, signal.value);
    }
}
template void remote_put_signal<Completion::at_once>(Target, void*, const void*, std::size_t, Signal) noexcept;
template void remote_put_signal<Completion::by_quiet>(Target, void*, const void*, std::size_t, Signal) noexcept;

}  // namespace sft
