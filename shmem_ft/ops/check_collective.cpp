#include "shmem_ft/ops/check_collective.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/assert.hpp"
#include "base/report.hpp"

namespace sft {
namespace {

using Form = CommonArgument::Form;

// What a member sends first: without it the rest could not be read.
struct CallName {
    char routine[44];
    std::int32_t start;
    std::int32_t stride;
    std::int32_t size;
};
static_assert(sizeof(CallName) == kChannelPayloadBytes && std::has_unique_object_representations_v<CallName>);

struct CallValues {
    std::uint64_t values[kCommonArgumentsMax];
};
static_assert(sizeof(CallValues) == kChannelPayloadBytes);

CallName name_of(const char* routine, const PeGroup& group) noexcept {
    CallName name{};
    std::snprintf(name.routine, sizeof name.routine, "%s", routine);
    name.start = group.start;
    name.stride = group.stride;
    name.size = group.size;
    return name;
}

bool is_same(const CallName& a, const CallName& b) noexcept { return std::memcmp(&a, &b, sizeof a) == 0; }

std::string call_text(const CallName& name) {
    return format("%.*s of PEs start %d stride %d size %d", static_cast<int>(sizeof name.routine), name.routine,
                  name.start, name.stride, name.size);
}

std::string value_text(std::uint64_t value, Form form) {
    switch (form) {
        case Form::address: return value == 0 ? "null" : format("%#" PRIx64, value);
        case Form::signed_number: return std::to_string(static_cast<std::int64_t>(value));
        case Form::number: break;
    }
    return std::to_string(value);
}

// "PE 3", "PEs 0-2, 5"; not all of a long list.
std::string pes_text(const std::vector<std::int32_t>& pes) {
    constexpr std::size_t kRangesMax = 4;
    std::string text = pes.size() == 1 ? "PE " : "PEs ";
    std::size_t ranges = 0;
    for (std::size_t i = 0; i < pes.size(); ++ranges) {
        std::size_t last = i;
        while (last + 1 < pes.size() && pes[last + 1] == pes[last] + 1) {
            ++last;
        }
        if (ranges == kRangesMax) {
            return text + format(" and %zu more", pes.size() - i);
        }
        text += (i == 0 ? "" : ", ") + std::to_string(pes[i]) + (last == i ? "" : "-" + std::to_string(pes[last]));
        i = last + 1;
    }
    return text;
}

// "16 on PEs 0, 2-3; 8 on PE 1"; empty if all have the same.
std::string difference(const PeGroup& group, const std::vector<CallValues>& calls, std::size_t which, Form form) {
    constexpr std::size_t kValuesMax = 4;
    SFT_ASSERT(which < kCommonArgumentsMax && calls.size() == static_cast<std::size_t>(group.size));
    std::vector<std::uint64_t> values;
    for (const CallValues& call : calls) {
        if (std::find(values.begin(), values.end(), call.values[which]) == values.end()) {
            values.push_back(call.values[which]);
        }
    }
    std::string text;
    for (std::size_t i = 0; values.size() > 1 && i < std::min(values.size(), kValuesMax); ++i) {
        std::vector<std::int32_t> pes;
        for (std::size_t member = 0; member < calls.size(); ++member) {
            if (calls[member].values[which] == values[i]) {
                pes.push_back(group.pe(static_cast<std::int32_t>(member)).value());
            }
        }
        std::sort(pes.begin(), pes.end());
        text += (i == 0 ? "" : "; ") + value_text(values[i], form) + " on " + pes_text(pes);
    }
    return text;
}

// The first member hears what all others call. False: a fault.
template <class Lane>
bool gather_calls(Engine& e, const Lane& lane, const PeGroup& group, const CallName& own,
                  std::vector<CallValues>& calls) {
    for (std::int32_t member = 1; member < group.size; ++member) {
        CallName theirs{};
        if (!lane.recv(group.pe(member), &theirs, sizeof theirs)) {
            return false;
        }
        if (!is_same(own, theirs)) {
            e.checker->fail(own.routine, "members call different routines: %s on PE %d, %s on PE %d",
                            call_text(own).c_str(), group.pe(0).value(), call_text(theirs).c_str(),
                            group.pe(member).value());
        }
        CallValues values{};
        if (!lane.recv(group.pe(member), &values, sizeof values)) {
            return false;
        }
        calls.push_back(values);
    }
    return true;
}

template <class Lane>
void compare_calls_on(Engine& e, const Lane& lane, const PeGroup& group, const char* routine,
                      std::initializer_list<CommonArgument> arguments) noexcept {
    SFT_ASSERT(arguments.size() <= kCommonArgumentsMax && group.me < group.size);
    const CallName own = name_of(routine, group);
    CallValues values{};
    std::transform(arguments.begin(), arguments.end(), values.values,
                   [](const CommonArgument& argument) { return argument.value; });
    const PeId first = group.pe(0);
    if (group.me != 0) {
        // A fault shows in the operation, too.
        static_cast<void>(lane.send(first, &own, sizeof own) && lane.send(first, &values, sizeof values) &&
                          lane.await(first));
        return;
    }
    std::vector<CallValues> calls{values};
    if (!gather_calls(e, lane, group, own, calls)) {
        return;
    }
    std::size_t which = 0;
    for (const CommonArgument& argument : arguments) {
        const std::string text = difference(group, calls, which++, argument.form);
        if (!text.empty()) {
            e.checker->report(routine, "%s differs between PEs: %s", argument.name, text.c_str());
            break;
        }
    }
    for (std::int32_t member = 1; member < group.size; ++member) {
        if (!lane.notify(group.pe(member))) {
            return;
        }
    }
}

}  // namespace

void compare_calls(Engine& e, const PeGroup& group, const char* routine,
                   std::initializer_list<CommonArgument> arguments) noexcept {
    if (e.waiter.fault_pending() || group.size == 1) {
        return;
    }
    // One lane for all teams, so that calls for different teams meet; but threads that may be in calls for different
    // teams at once must not.
    const LaneId id = e.checker->serves_one_thread() ? lane_of(kTeamWorld) : group.lane;
    if (e.network != nullptr) {
        compare_calls_on(e, WideLane(e.channels, e.waiter, e.nodes, id), group, routine, arguments);
    } else {
        compare_calls_on(e, e.channels.lane(id), group, routine, arguments);
    }
}

namespace {

std::uint64_t bits(const void* address) noexcept { return reinterpret_cast<std::uintptr_t>(address); }

void check_work(Engine& e, const CollectiveCall& call) noexcept {
    const WorkArrays& work = call.work;
    if (work.pwrk_elements != 0) {
        Argument pwrk{"pWrk", work.pwrk, elements(work.pwrk_elements, call.element_bytes)};
        pwrk.extent.alignment = 1;
        e.checker->check_symmetric(call.routine, pwrk);
    }
    if (work.psync_elements == 0) {
        return;
    }
    e.checker->check_symmetric(call.routine, {"pSync", work.psync, elements(work.psync_elements, sizeof(long))});
    for (std::size_t i = 0; i < work.psync_elements; ++i) {
        if (work.psync[i] != work.psync_value) {
            e.checker->report(call.routine, "pSync[%zu] is %ld: every element must have been set to SHMEM_SYNC_VALUE",
                              i, work.psync[i]);
            return;
        }
    }
}

// For `parts` members, with a stride in elements.
Argument part_of(const char* name, const void* address, std::size_t bytes, std::size_t nelems, std::size_t parts,
                 std::ptrdiff_t stride) noexcept {
    std::size_t all = 0;
    if (__builtin_mul_overflow(nelems, parts, &all)) {
        all = SIZE_MAX;
    }
    if (stride <= 1) {
        return {name, address, elements(all, bytes)};
    }
    return {name, address, {bytes, all, static_cast<std::size_t>(stride) * bytes, bytes}};
}

struct Buffers {
    Argument dest;
    Argument source;
};

Buffers buffers_of(const CollectiveCall& call, const CollectiveData& data) noexcept {
    const auto members = static_cast<std::size_t>(call.group.size);
    // Where counts differ, nobody knows those of the others: then dest has room at least for the own part.
    const std::size_t dest_parts = data.shape == CollectiveShape::same || !data.is_count_common ? 1 : members;
    const std::size_t source_parts = data.shape == CollectiveShape::exchanged ? members : 1;
    const std::size_t bytes = call.element_bytes;
    return {part_of("dest", data.dest, bytes, data.nelems, dest_parts, data.strides.dest),
            part_of("source", data.source, bytes, data.nelems, source_parts, data.strides.source)};
}

}  // namespace

void check_sync(Engine& e, const CollectiveCall& call) noexcept {
    if (e.waiter.fault_pending()) {
        return;
    }
    check_work(e, call);
    compare_calls(e, call.group, call.routine, {});
}

void check_data(Engine& e, const CollectiveCall& call, const CollectiveData& data) noexcept {
    if (e.waiter.fault_pending()) {
        return;
    }
    check_work(e, call);
    for (const auto& [name, stride] : {std::pair{"dst", data.strides.dest}, std::pair{"sst", data.strides.source}}) {
        if (stride < 1) {
            e.checker->report(call.routine, "%s is %td: a stride is at least 1", name, stride);
        }
    }
    const auto [dest, source] = buffers_of(call, data);
    e.checker->check_symmetric(call.routine, dest);
    e.checker->check_symmetric(call.routine, source);
    if (data.shape != CollectiveShape::same || data.dest != data.source) {
        e.checker->check_apart(call.routine, dest, source);
    }
    if (!data.is_count_common) {
        compare_calls(e, call.group, call.routine, {});
        return;
    }
    compare_calls(e, call.group, call.routine,
                  {{"nelems", data.nelems},
                   {"dest", data.nelems == 0 ? 0 : bits(data.dest), Form::address},
                   {"source", data.nelems == 0 ? 0 : bits(data.source), Form::address},
                   {"dst", static_cast<std::uint64_t>(data.strides.dest), Form::signed_number},
                   {"sst", static_cast<std::uint64_t>(data.strides.source), Form::signed_number}});
}

void check_broadcast(Engine& e, const CollectiveCall& call, const CollectiveData& data, BroadcastRoot root) noexcept {
    if (e.waiter.fault_pending()) {
        return;
    }
    check_work(e, call);
    if (root.index < 0 || root.index >= call.group.size) {
        e.checker->fail(call.routine, "PE_root: there is no PE %d: PE numbers go from 0 to %d here", root.index,
                        call.group.size - 1);
    }
    const bool is_root = root.index == call.group.me;
    const auto [dest, source] = buffers_of(call, data);
    if (!is_root || root.dest == RootDest::written) {
        e.checker->check_symmetric(call.routine, dest);
    }
    if (is_root) {
        e.checker->check_symmetric(call.routine, source);
        e.checker->check_apart(call.routine, dest, source);
    }
    compare_calls(e, call.group, call.routine,
                  {{"nelems", data.nelems},
                   {"dest", data.nelems == 0 ? 0 : bits(data.dest), Form::address},
                   {"PE_root", static_cast<std::uint64_t>(root.index), Form::signed_number}});
}

}  // namespace sft
