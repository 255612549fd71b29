#include "shmem_ft/ops/check_transfer.hpp"

namespace sft {

CheckedTarget::CheckedTarget(bool& meets_fault, const char* routine, CtxId context, int pe) noexcept
    : meets_fault_(meets_fault), engine_(running_engine(routine)), routine_(routine), context_(context) {
    Checker& checker = *engine_.checker;
    is_inside_ = checker.enter(routine);
    is_in_context_ = checker.enter_context(routine, context);
    const ContextEntry* const entry = engine_.contexts.find(context);
    if (entry != nullptr && pe >= 0 && pe < entry->group.size) {
        pe_ = entry->group.pe(pe);
    } else if (!engine_.gate.is_pending()) {
        checker.fail(routine, "pe: there is no PE %d: PE numbers go from 0 to %d here", pe, entry->group.size - 1);
    }
}

CheckedTarget::~CheckedTarget() {
    if (is_in_context_) {
        engine_.checker->leave_context(context_);
    }
    if (is_inside_) {
        engine_.checker->leave();
    }
}

Argument CheckedTarget::on_target(const Argument& argument) const noexcept {
    const bool is_there = engine_.peers.is_symmetric(argument.address);
    return {argument.name, is_there ? engine_.peers.locate(argument.address, pe_) : nullptr, argument.extent};
}

void CheckedTarget::check_put(Argument dest, Argument source) const noexcept {
    Checker& checker = *engine_.checker;
    checker.check_symmetric(routine_, dest);
    checker.check_local(routine_, source);
    if (const Argument there = on_target(dest); there.address != nullptr) {
        checker.check_apart(routine_, there, source);
    }
}

void CheckedTarget::check_get(Argument dest, Argument source) const noexcept {
    Checker& checker = *engine_.checker;
    checker.check_local(routine_, dest);
    checker.check_symmetric(routine_, source);
    if (const Argument there = on_target(source); there.address != nullptr) {
        checker.check_apart(routine_, dest, there);
    }
}

void CheckedTarget::check_element(const char* name, const void* address, std::size_t bytes) const noexcept {
    engine_.checker->check_symmetric(routine_, {name, address, elements(1, bytes)});
}

void CheckedTarget::check_signal_operation(int operation) const noexcept {
    if (operation != static_cast<int>(SignalOperation::set) && operation != static_cast<int>(SignalOperation::add)) {
        engine_.checker->fail(routine_, "sig_op has the unknown value %d: use SHMEM_SIGNAL_SET or SHMEM_SIGNAL_ADD",
                              operation);
    }
}

void CheckedTarget::check_signal(Argument dest, const Signal& signal) const noexcept {
    check_signal_operation(signal.operation);
    const Argument where{"sig_addr", signal.address, elements(1, sizeof *signal.address)};
    engine_.checker->check_symmetric(routine_, where);
    engine_.checker->check_apart(routine_, dest, where);
}

void CheckedTarget::check_fetch(const void* fetch, std::size_t bytes) const noexcept {
    engine_.checker->check_local(routine_, {"fetch", fetch, elements(1, bytes)});
}

void CheckedTarget::check_strides(Strides strides, std::size_t block_elements) const noexcept {
    const auto least = static_cast<std::ptrdiff_t>(block_elements);
    const auto check = [&](const char* name, std::ptrdiff_t stride) {
        if (stride < least) {
            engine_.checker->report(routine_, "%s is %td: a stride is at least %td", name, stride, least);
        }
    };
    check("dst", strides.dest);
    check("sst", strides.source);
}

}  // namespace sft
