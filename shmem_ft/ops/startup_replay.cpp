// A substitute is given what its predecessor had been given (startup.hpp).

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "base/faults/fault_points.hpp"
#include "base/report.hpp"
#include "shmem_ft/ops/job.hpp"
#include "shmem_ft/ops/startup.hpp"

namespace sft {
namespace {

constexpr const char* kWhatIsNeeded =
    "what a program does before its first checkpoint must be the same each time: same input, no clock, no random "
    "numbers (docs/survive.md, Start-up)";

}  // namespace

void Startup::begin_replay(Engine& e, const Memory& memory) {
    engine_ = &e;
    memory_ = memory;
    SFT_ASSERT(memory.record != nullptr && memory.record_bytes >= sizeof(StartupHead));
    owner_ = ::pthread_self();
    reads_ = true;
    reader_ = StartupReader(memory.record, memory.record_bytes);
    mode_ = reader_.state() == StartupState::complete ? Mode::replaying : Mode::without_record;
    if (mode_ == Mode::replaying && reader_.is_exposed_unseen()) {
        say("warning: PE %d, a substitute: other PEs had pointers to its memory (shmem_ptr) before the first "
            "checkpoint; "
            "what they have stored through them is not here before shmem_restart_pes",
            e.peers.me.value());
    }
}

// Left out by a substitute are calls in blocks of shmem_ft_algo_init, so by other ways than those it has gone itself.
bool Startup::may_be_skipped(const CallEntry& entry) const noexcept {
    return entry.kind == CallKind::light ||
           (may_skip_ && entry.kind != CallKind::algo_init && visited_.count(entry.key.stack) == 0);
}

// The compiler may have made two copies of one call, for the case that the block is entered and the other: so if no
// call of this place follows, one of the same routine and arguments will do, if there is only one.
bool Startup::look_ahead(const CallKey& key, bool by_place, StartupReader& ahead) const noexcept {
    ahead = reader_;
    StartupReader found;
    int n_found = 0;
    for (; !ahead.at_end() && n_found < 2; ahead.next()) {
        const CallEntry entry = ahead.call().entry();
        const bool is_alike =
            by_place ? entry.key == key : entry.key.routine == key.routine && entry.key.arguments == key.arguments;
        if (is_alike) {
            found = ahead;
            ++n_found;
            if (by_place) {
                break;
            }
        } else if (!may_be_skipped(entry)) {
            break;
        }
    }
    ahead = found;
    return n_found == 1;
}

void Startup::apply_changes(const RecordedCall& call) noexcept {
    call.each_change([](std::uintptr_t address, const std::byte* from, std::size_t bytes) {
        std::memcpy(reinterpret_cast<void*>(address), from, bytes);
    });
}

void Startup::pass(const RecordedCall& call) noexcept {
    apply_changes(call);
    advance(call);
}

void Startup::advance(const RecordedCall& call) noexcept {
    heap_calls_ += call.entry().kind == CallKind::heap ? 1 : 0;
    reader_.next();
    n_light_ = 0;
}

// True: the next entry is that of the call.
bool Startup::find(const CallKey& key) noexcept {
    if (!reader_.at_end() && reader_.call().entry().key == key) {
        return true;
    }
    StartupReader ahead;
    if (!look_ahead(key, true, ahead) && !(may_skip_ && look_ahead(key, false, ahead))) {
        return false;
    }
    SFT_ASSERT(ahead.position() >= reader_.position());
    while (reader_.position() < ahead.position()) {
        pass(reader_.call());
    }
    SFT_ASSERT(!reader_.at_end() && reader_.position() == ahead.position());
    return true;
}

// Before the changes: others may have written to the block by the time the call came back.
void Startup::fill_block(const StartupCall& call, const RecordedCall& recorded) noexcept {
    void* block = nullptr;
    if (recorded.entry().result_bytes == sizeof block) {
        std::memcpy(&block, recorded.result(), sizeof block);
    }
    if (block == nullptr) {
        return;
    }
    const auto old = blocks_.find(call.allocation.moved_from);
    if (call.allocation.is_zeroed) {
        SFT_ASSERT(memory_.symmetric->heap().contains(block));
        memory_.symmetric->zero(block, call.allocation.bytes);
    } else if (old != blocks_.end() && old->first != block) {
        std::memmove(block, old->first, std::min(old->second, call.allocation.bytes));
    }
    blocks_[block] = call.allocation.bytes;
}

// Others' memory comes into the windows when this process joins; until then it reads as zeros, and what is stored there
// is lost.
void* Startup::pointer_to_nothing(const StartupCall& call) noexcept {
    void* const pointer = memory_.peers->before_joining(call.pointed_pe, call.pointed);
    if (pointer != nullptr && call.pointed_pe != engine_->peers.me && !has_told_pointer_) {
        has_told_pointer_ = true;
        say("warning: PE %d, a substitute, asks for a pointer to memory of PE %d (shmem_ptr), as the PE that it "
            "replaces had: before shmem_restart_pes it reads zeros there, and stores are lost",
            engine_->peers.me.value(), call.pointed_pe.value());
    }
    return pointer;
}

void Startup::deliver(const StartupCall& call, void* result, std::size_t result_bytes) noexcept {
    SFT_ASSERT(mode_ == Mode::replaying && is_owner());
    const RecordedCall recorded = reader_.call();
    const CallEntry& entry = recorded.entry();
    if (call.kind == CallKind::heap) {
        fill_block(call, recorded);
    }
    apply_changes(recorded);
    if (call.kind == CallKind::algo_init) {
        is_past_algo_init_ = true;
        may_skip_ = may_skip_ || std::memcmp(result, recorded.result(), result_bytes) != 0;
        visited_.clear();
        return;
    }
    if (call.kind == CallKind::pointer) {
        void* pointer = nullptr;
        std::memcpy(&pointer, recorded.result(), sizeof pointer);
        pointer = pointer == nullptr ? nullptr : pointer_to_nothing(call);
        std::memcpy(result, &pointer, sizeof pointer);
    } else if (result_bytes != 0) {
        std::memcpy(result, recorded.result(), std::min<std::size_t>(result_bytes, entry.result_bytes));
    }
    std::size_t left = entry.filled_bytes;
    const std::byte* from = recorded.filled();
    auto* to = static_cast<std::byte*>(call.out.address);
    const std::size_t piece_bytes = call.out_per_result != 0 ? left : call.out.bytes;
    SFT_ASSERT(to == nullptr || left == 0 || piece_bytes != 0);
    for (; left != 0 && to != nullptr && piece_bytes != 0; to += call.out.step) {
        const std::size_t bytes = std::min(left, piece_bytes);
        std::memcpy(to, from, bytes);
        from += bytes;
        left -= bytes;
    }
    if (entry.key.stack != 0) {
        visited_.insert(entry.key.stack);
    }
}

bool Startup::replay(const StartupCall& call, void* result, std::size_t result_bytes) noexcept {
    if (mode_ == Mode::without_record && (result_bytes != 0 || call.out.address != nullptr)) {
        tell_without_record(call);
    }
    if (mode_ != Mode::replaying) {
        return false;
    }
    fault_point(FaultPoint::replay_call);
    if (!is_owner() || !find(key_of(call))) {
        fail(call);
    }
    const RecordedCall recorded = reader_.call();
    deliver(call, result, result_bytes);
    advance(recorded);
    return true;
}

void Startup::prepare_handles(const StartupCall& call) noexcept {
    engine_->replay.has_given = mode_ == Mode::replaying;
    if (mode_ == Mode::replaying) {
        if (!is_owner() || !find(key_of(call))) {
            fail(call);
        }
        const CallEntry entry = reader_.call().entry();
        std::copy_n(entry.handles, 2, engine_->replay.given);
    }
}

bool Startup::light_call(CallSite where) noexcept {
    if (!is_owner() || (mode_ != Mode::recording && mode_ != Mode::replaying)) {
        return false;
    }
    ++n_light_;
    StartupCall call;
    call.where = where;
    call.kind = CallKind::light;
    if (mode_ == Mode::recording && has_changes()) {
        record(call, nullptr, 0);
    } else if (mode_ == Mode::replaying && !reader_.at_end()) {
        const CallEntry entry = reader_.call().entry();
        if (entry.kind == CallKind::light && entry.key == key_of(call) && n_light_ >= entry.n_light) {
            pass(reader_.call());
        }
    }
    return mode_ == Mode::replaying;
}

void Startup::end_replay(End how, CallSite where) noexcept {
    SFT_ASSERT(how == End::restart || where.routine != nullptr);
    if (mode_ == Mode::replaying && how == End::checkpoint) {
        while (!reader_.at_end() && may_be_skipped(reader_.call().entry())) {
            pass(reader_.call());
        }
        if (!reader_.at_end()) {
            StartupCall call;
            call.where = where;
            fail(call);
        }
    }
    if (mode_ != Mode::recording) {
        mode_ = Mode::off;
    }
}

void Startup::fail(const StartupCall& call) noexcept {
    const int pe = engine_->peers.me.value();
    const std::string now = format("%s in %s", call.where.routine, describe_place(call.where.address).c_str());
    if (!is_owner()) {
        job::fail(
            format("PE %d, a substitute, calls %s in another thread than before: %s", pe, now.c_str(), kWhatIsNeeded)
                .c_str());
    }
    std::string then = "made no more calls before its first checkpoint";
    if (!reader_.at_end()) {
        const CallKey key = reader_.call().entry().key;
        const CallKey own = key_of(call);
        then = "called " + text_of(key);
        if (key.routine == own.routine && key.site == own.site) {
            then += key.arguments != call.arguments ? " with other arguments" : " by other functions";
        }
    }
    job::fail(
        format("PE %d, a substitute, calls %s as call %llu before shmem_restart_pes, where the PE that it replaces "
               "had %s: %s",
               pe, now.c_str(), static_cast<unsigned long long>(reader_.position() + 1), then.c_str(), kWhatIsNeeded)
            .c_str());
}

void Startup::tell_without_record(const StartupCall& call) noexcept {
    if (is_told_ || reader_.state() == StartupState::none) {
        return;
    }
    is_told_ = true;
    say("warning: PE %d, a substitute, calls %s in %s before shmem_restart_pes and gets nothing: %s",
        engine_->peers.me.value(), call.where.routine, describe_place(call.where.address).c_str(),
        reader_.state() == StartupState::too_large
            ? "what the PE that it replaces had been given before the first checkpoint was more than "
              "SHMEM_FT_STARTUP_RECORD"
            : "several threads of the PE that it replaces had made such calls before the first checkpoint");
}

}  // namespace sft
