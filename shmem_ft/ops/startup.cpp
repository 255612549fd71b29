#include "shmem_ft/ops/startup.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "base/report.hpp"
#include "shmem_ft/ops/job.hpp"

namespace sft {
namespace {

// Names of routines are literals of the library, at the same distance from this one in every process.
constexpr char kAnchor[] = "shmem-ft";

std::int32_t number_of_name(const char* name) {
    return static_cast<std::int32_t>(reinterpret_cast<std::intptr_t>(name) - reinterpret_cast<std::intptr_t>(kAnchor));
}

const char* name_of(std::int32_t number) {
    return reinterpret_cast<const char*>(reinterpret_cast<std::intptr_t>(kAnchor) + number);
}

constexpr const char* kWhatIsNeeded =
    "what a program does before its first checkpoint must be the same each time: same input, no clock, no random "
    "numbers (docs/survive.md, Start-up)";

}  // namespace

void Startup::begin_recording(Engine& e, const Memory& memory) {
    SFT_ASSERT(mode_ == Mode::off && memory.marks.is_set());
    engine_ = &e;
    memory_ = memory;
    SFT_ASSERT(memory.record != nullptr && memory.record_bytes >= sizeof(StartupHead));
    owner_ = ::pthread_self();
    writer_ = StartupWriter(memory.record, memory.record_bytes);
    mode_ = Mode::recording;
}

void Startup::begin_replay(Engine& e, const Memory& memory) {
    engine_ = &e;
    memory_ = memory;
    SFT_ASSERT(memory.record != nullptr && memory.record_bytes >= sizeof(StartupHead));
    owner_ = ::pthread_self();
    reader_ = StartupReader(memory.record, memory.record_bytes);
    mode_ = reader_.state() == StartupState::complete ? Mode::replaying : Mode::without_record;
    if (mode_ == Mode::replaying && reader_.is_exposed_unseen()) {
        say("warning: PE %d, a substitute: other PEs had pointers to its memory (shmem_ptr) before the first "
            "checkpoint; "
            "what they have stored through them is not here before shmem_restart_pes",
            e.peers.me.value());
    }
}

CallKey Startup::key_of(const StartupCall& call) noexcept {
    return {number_of_name(call.where.routine), call.arguments, places_.number_of(call.where.address),
            is_past_algo_init_ && call.where.address != nullptr ? places_.number_of_stack(call.where.address) : 0};
}

std::string Startup::text_of(const CallKey& key) {
    return format("%s in %s", name_of(key.routine), describe_place(places_.address_of(key.site)).c_str());
}

// ---- recording ----

void Startup::write_change(std::uintptr_t address, std::size_t bytes) noexcept { writer_.change(address, bytes); }

// Objects to which others have pointers: stores through these leave no marks.
void Startup::compare_exposed() noexcept {
    for (std::size_t i = exposed_.size(); i < memory_.marks.n_exposed(); ++i) {
        const WriteMarks::Exposed place = memory_.marks.exposed(i);
        if (place.bytes == 0) {
            break;  // it is being written now
        }
        const auto* begin = reinterpret_cast<const std::byte*>(place.address);
        exposed_.push_back({place, {begin, begin + place.bytes}});
        write_change(place.address, place.bytes);
    }
    for (Exposed& item : exposed_) {
        const auto* now = reinterpret_cast<const std::byte*>(item.place.address);
        const std::size_t bytes = item.place.bytes;
        if (std::memcmp(now, item.seen.data(), bytes) == 0) {
            continue;
        }
        for (std::size_t at = 0; at < bytes;) {
            const std::size_t step = std::min(WriteMarks::kWordBytes, bytes - at);
            std::size_t end = at;
            while (end < bytes && std::memcmp(now + end, &item.seen[end], std::min(step, bytes - end)) != 0) {
                end += std::min(step, bytes - end);
            }
            if (end != at) {
                std::memcpy(&item.seen[at], now + at, end - at);
                write_change(item.place.address + at, end - at);
            }
            at = end + step;
        }
    }
}

void Startup::take_changes(const StartupCall& call) noexcept {
    memory_.marks.collect([this](std::uintptr_t address, std::size_t bytes) { write_change(address, bytes); });
    if (call.seen_bytes != 0 && engine_->peers.is_symmetric(call.seen)) {
        write_change(reinterpret_cast<std::uintptr_t>(call.seen), call.seen_bytes);
    }
    if (memory_.marks.n_exposed() != 0) {
        compare_exposed();
    }
}

void Startup::write_filled(const StartupCall& call, const void* result, std::size_t result_bytes) noexcept {
    if (call.out_per_result != 0) {
        std::uint64_t n = 0;
        std::memcpy(&n, result, std::min(result_bytes, sizeof n));
        writer_.filled(call.out.address, n * call.out_per_result);
        return;
    }
    const auto* from = static_cast<const std::byte*>(call.out.address);
    for (std::size_t i = 0; from != nullptr && i < call.out.count && !writer_.is_full(); ++i) {
        writer_.filled(from + i * call.out.step, call.out.bytes);
    }
}

void Startup::note_size(const CallKey& key, const StartupCall& call, std::size_t bytes) noexcept {
    constexpr std::size_t kPlacesMax = 256;
    if (bytes == 0) {
        return;
    }
    const auto found = std::find_if(largest_.begin(), largest_.end(), [&](const Place& place) {
        return place.key.site == key.site && place.key.routine == key.routine;
    });
    if (found != largest_.end()) {
        found->bytes += bytes;
        if (found != largest_.begin() && found->bytes > largest_.front().bytes) {
            std::iter_swap(found, largest_.begin());
        }
    } else if (largest_.size() < kPlacesMax) {
        largest_.push_back({key, call.where.routine, bytes});
    }
}

void Startup::give_up(StartupState why) noexcept {
    StartupState none = StartupState::none;
    given_up_.compare_exchange_strong(none, why);
}

void Startup::record(const StartupCall& call, const void* result, std::size_t result_bytes) noexcept {
    if (mode_ != Mode::recording || given_up_.load(std::memory_order_relaxed) != StartupState::none) {
        return;
    }
    if (!is_owner()) {
        give_up(StartupState::many_threads);
        return;
    }
    CallEntry entry;
    entry.kind = call.kind;
    entry.key = key_of(call);
    if (call.kind == CallKind::light) {
        entry.n_light = n_light_;
    }
    for (int i = 0; i < 2 && call.handles[i] != nullptr; ++i) {
        entry.handles[i] = static_cast<std::uint16_t>(reinterpret_cast<std::uintptr_t>(*call.handles[i]));
    }
    writer_.begin(entry);
    writer_.result(result, result_bytes);
    write_filled(call, result, result_bytes);
    take_changes(call);
    const std::size_t grown = writer_.end();
    n_light_ = 0;
    note_size(entry.key, call, grown);
    if (writer_.is_full()) {
        note_size(entry.key, call, call.out.bytes * call.out.count);
        give_up(StartupState::too_large);
    }
    is_past_algo_init_ = is_past_algo_init_ || call.kind == CallKind::algo_init;
    if (call.kind == CallKind::pointer) {
        const void* pointer = nullptr;
        std::memcpy(&pointer, result, sizeof pointer);
        if (pointer != nullptr) {
            expose_pointed(call);
        }
    }
}

void Startup::wrote(PeId pe, const void* address, std::size_t bytes) const noexcept {
    if (mode_ != Mode::recording || pe == engine_->peers.me) {
        return;
    }
    const std::intptr_t distance = engine_->peers.entries[pe.index()].heap_difference.load(std::memory_order_relaxed);
    if (distance > kRemote) {  // a process of another node does it for itself
        memory_.marks.at_distance(distance).mark(address, bytes);
    }
}

// The program has got a pointer to memory of another PE, of which the owner is to know.
void Startup::expose_pointed(const StartupCall& call) const noexcept {
    constexpr std::size_t kComparedMax = std::size_t{64} << 10;
    if (call.pointed_pe == engine_->peers.me || call.pointed_pe == kNoPe) {
        return;
    }
    const std::intptr_t distance =
        engine_->peers.entries[call.pointed_pe.index()].heap_difference.load(std::memory_order_relaxed);
    if (distance <= kRemote) {
        return;
    }
    const WriteMarks there = memory_.marks.at_distance(distance);
    const AddressRange object = job::symmetric_object(call.pointed);
    if (object.bytes == 0 || object.bytes > kComparedMax) {
        there.expose_unseen();
    } else {
        there.expose(reinterpret_cast<const void*>(object.begin), object.bytes);
    }
}

void Startup::close_record() noexcept {
    const StartupState why = given_up_.load();
    writer_.close(why == StartupState::none ? StartupState::complete : why, memory_.marks.is_exposed_unseen());
    mode_ = Mode::off;
    if (why == StartupState::none || memory_.told == nullptr || memory_.told->exchange(1) != 0) {
        return;
    }
    const int pe = engine_->peers.me.value();
    if (why == StartupState::many_threads) {
        say("warning: PE %d: several threads have called OpenSHMEM before the first checkpoint, so a substitute cannot "
            "be "
            "given again what these calls have brought (docs/survive.md, Start-up)",
            pe);
        return;
    }
    std::string places;
    std::partial_sort(largest_.begin(),
                      largest_.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(3, largest_.size())),
                      largest_.end(), [](const Place& a, const Place& b) { return a.bytes > b.bytes; });
    for (std::size_t i = 0; i < std::min<std::size_t>(3, largest_.size()); ++i) {
        places += format("%s%s (%zu bytes)", i == 0 ? "" : ", ", text_of(largest_[i].key).c_str(), largest_[i].bytes);
    }
    say("warning: PE %d: what its calls have brought before the first checkpoint takes more than "
        "SHMEM_FT_STARTUP_RECORD=%zu bytes, so a substitute cannot be given it again; most of it: %s. Take the first "
        "checkpoint earlier, or put it into a block of shmem_ft_algo_init (docs/survive.md, Start-up)",
        pe, memory_.record_bytes, places.c_str());
}

Startup::Size Startup::size() const noexcept {
    if (mode_ == Mode::replaying || mode_ == Mode::without_record) {
        return {reader_.state(), reader_.n_calls(), 0};
    }
    return {given_up_.load() == StartupState::none ? StartupState::recording : given_up_.load(), writer_.n_calls(),
            writer_.used_bytes()};
}

// ---- repeating ----

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
        job::zero_symmetric(block, call.allocation.bytes);
    } else if (old != blocks_.end() && old->first != block) {
        std::memmove(block, old->first, std::min(old->second, call.allocation.bytes));
    }
    blocks_[block] = call.allocation.bytes;
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
        pointer = pointer == nullptr ? nullptr : job::pointer_before_joining(call.pointed, call.pointed_pe);
        std::memcpy(result, &pointer, sizeof pointer);
    } else if (result_bytes != 0) {
        std::memcpy(result, recorded.result(), std::min<std::size_t>(result_bytes, entry.result_bytes));
    }
    std::size_t left = entry.filled_bytes;
    const std::byte* from = recorded.filled();
    auto* to = static_cast<std::byte*>(call.out.address);
    const std::size_t piece_bytes = call.out_per_result != 0 ? left : call.out.bytes;
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
    if (mode_ == Mode::recording && memory_.marks.has_any()) {
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
        then = "called " + text_of(key);
        if (key.routine == number_of_name(call.where.routine) && places_.number_of(call.where.address) == key.site) {
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
