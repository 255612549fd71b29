#include "shmem_ft/ops/check_transfer.hpp"

namespace sft {

CheckedTarget::CheckedTarget(bool& meets_fault, CallSite where, CtxId context, int pe) noexcept
    : meets_fault_(meets_fault), engine_(running_engine(where.routine)), where_(where), context_(context) {
    Checker* const checker = engine_.checker;
    if (checker != nullptr) {
        is_inside_ = checker->enter(where.routine);
        is_in_context_ = checker->enter_context(where.routine, context);
    }
    const ContextEntry* const entry = engine_.contexts.find(context);
    if (entry != nullptr && pe >= 0 && pe < entry->group.size) {
        pe_ = entry->group.pe(pe);
    } else if (entry == nullptr) {
        no_such_context(engine_, where.routine);
    } else if (checker == nullptr) {
        no_such_pe(engine_, where.routine, pe, entry->group.size);
    } else if (!engine_.gate.is_pending()) {
        checker->fail(where.routine, "pe: there is no PE %d: PE numbers go from 0 to %d here", pe,
                      entry->group.size - 1);
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

// What a PE reads of its own memory may have come from others, who have not marked it yet, and the program may read it
// again by itself.
StartupCall CheckedTarget::told(const void* symmetric, const Extent& extent) const noexcept {
    StartupCall call;
    call.where = where_;
    if (pe_ == engine_.peers.me) {
        call.seen = symmetric;
        call.seen_bytes = extent.span();
    }
    return call.with(static_cast<std::uint64_t>(pe_.value())).with(reinterpret_cast<std::uintptr_t>(symmetric));
}

bool CheckedTarget::deliver(const StartupCall& call, void* result, std::size_t bytes) const noexcept {
    is_delivered_ = engine_.startup->replay(call, result, bytes);
    return is_delivered_;
}

void CheckedTarget::record(const StartupCall& call, const void* result, std::size_t bytes) const noexcept {
    if (engine_.startup != nullptr) {
        engine_.startup->record(call, result, bytes);
    }
}

void CheckedTarget::note_written(const void* symmetric, const Extent& extent) const noexcept {
    const auto* place = static_cast<const std::byte*>(symmetric);
    for (std::size_t i = 0; i < extent.count; ++i) {
        engine_.startup->wrote(pe_, place + i * extent.step, extent.bytes);
    }
}

Argument CheckedTarget::on_target(const Argument& argument) const noexcept {
    const bool is_there = engine_.peers.is_symmetric(argument.address);
    return {argument.name, is_there ? engine_.peers.locate(argument.address, pe_) : nullptr, argument.extent};
}

void CheckedTarget::check_put(Argument dest, Argument source) const noexcept {
    if (engine_.checker == nullptr) {
        return;
    }
    Checker& checker = *engine_.checker;
    checker.check_symmetric(where_.routine, dest);
    checker.check_local(where_.routine, source);
    if (const Argument there = on_target(dest); there.address != nullptr) {
        checker.check_apart(where_.routine, there, source);
    }
}

void CheckedTarget::check_get(Argument dest, Argument source) const noexcept {
    if (engine_.checker == nullptr) {
        return;
    }
    Checker& checker = *engine_.checker;
    checker.check_local(where_.routine, dest);
    checker.check_symmetric(where_.routine, source);
    if (const Argument there = on_target(source); there.address != nullptr) {
        checker.check_apart(where_.routine, dest, there);
    }
}

void CheckedTarget::check_element(const char* name, const void* address, std::size_t bytes) const noexcept {
    if (engine_.checker == nullptr) {
        return;
    }
    engine_.checker->check_symmetric(where_.routine, {name, address, elements(1, bytes)});
}

void CheckedTarget::check_signal_operation(int operation) const noexcept {
    if (engine_.checker == nullptr) {
        return;
    }
    if (operation != static_cast<int>(SignalOperation::set) && operation != static_cast<int>(SignalOperation::add)) {
        engine_.checker->fail(where_.routine,
                              "sig_op has the unknown value %d: use SHMEM_SIGNAL_SET or SHMEM_SIGNAL_ADD", operation);
    }
}

void CheckedTarget::check_signal(Argument dest, const Signal& signal) const noexcept {
    if (engine_.checker == nullptr) {
        return;
    }
    check_signal_operation(signal.operation);
    const Argument where{"sig_addr", signal.address, elements(1, sizeof *signal.address)};
    engine_.checker->check_symmetric(where_.routine, where);
    engine_.checker->check_apart(where_.routine, dest, where);
}

void CheckedTarget::check_fetch(const void* fetch, std::size_t bytes) const noexcept {
    if (engine_.checker == nullptr) {
        return;
    }
    engine_.checker->check_local(where_.routine, {"fetch", fetch, elements(1, bytes)});
}

void CheckedTarget::check_strides(Strides strides, std::size_t block_elements) const noexcept {
    if (engine_.checker == nullptr) {
        return;
    }
    const auto least = static_cast<std::ptrdiff_t>(block_elements);
    const auto check = [&](const char* name, std::ptrdiff_t stride) {
        if (stride < least) {
            engine_.checker->report(where_.routine, "%s is %td: a stride is at least %td", name, stride, least);
        }
    };
    check("dst", strides.dest);
    check("sst", strides.source);
}

}  // namespace sft
