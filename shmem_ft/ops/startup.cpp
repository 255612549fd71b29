#include "shmem_ft/ops/startup.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "base/faults/fault_points.hpp"
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

}  // namespace

void Startup::begin_recording(Engine& e, const Memory& memory) {
    SFT_ASSERT(mode_ == Mode::off && memory.marks.is_set());
    engine_ = &e;
    memory_ = memory;
    SFT_ASSERT(memory.record != nullptr && memory.record_bytes >= sizeof(StartupHead));
    owner_ = ::pthread_self();
    writer_ = StartupWriter(memory.record, memory.record_bytes);
    ways_.resize(static_cast<std::size_t>(memory.queues.size()));
    changes_.reserve(WriteQueues::kEntries);
    mode_ = Mode::recording;
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
        SFT_ASSERT(item.seen.size() == bytes && bytes != 0);
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

bool Startup::has_changes() const noexcept {
    for (std::size_t pe = 0; pe < ways_.size(); ++pe) {
        if (memory_.queues.has_any(PeId(static_cast<std::int32_t>(pe)), ways_[pe].from)) {
            return true;
        }
    }
    return memory_.marks.has_any();
}

// Each byte once, in the order of addresses: a polling loop makes equal entries then.
void Startup::write_changes() noexcept {
    if (changes_.size() > 1) {
        std::sort(changes_.begin(), changes_.end(), [](const Change& a, const Change& b) { return a.begin < b.begin; });
    }
    for (std::size_t i = 0; i < changes_.size();) {
        Change all = changes_[i];
        for (++i; i < changes_.size() && changes_[i].begin <= all.end; ++i) {
            all.end = std::max(all.end, changes_[i].end);
        }
        SFT_ASSERT(all.begin < all.end);
        write_change(all.begin, all.end - all.begin);
    }
    changes_.clear();
}

void Startup::take_changes(const StartupCall& call) noexcept {
    const auto add = [this](std::uintptr_t address, std::size_t bytes) {
        changes_.push_back({address, address + bytes});
    };
    for (std::size_t pe = 0; pe < ways_.size(); ++pe) {
        memory_.queues.take(PeId(static_cast<std::int32_t>(pe)), ways_[pe].from, add);
    }
    memory_.marks.collect(add);
    if (call.seen_bytes != 0 && engine_->peers.is_symmetric(call.seen)) {
        add(reinterpret_cast<std::uintptr_t>(call.seen), call.seen_bytes);
    }
    if (!changes_.empty()) {
        write_changes();
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
    SFT_ASSERT(why == StartupState::many_threads || why == StartupState::too_large);
    StartupState none = StartupState::none;
    given_up_.compare_exchange_strong(none, why);
    memory_.queues.stop_reading();
}

void Startup::record(const StartupCall& call, const void* result, std::size_t result_bytes) noexcept {
    if (mode_ != Mode::recording || given_up_.load(std::memory_order_relaxed) != StartupState::none) {
        return;
    }
    if (!is_owner()) {
        give_up(StartupState::many_threads);
        return;
    }
    fault_point(FaultPoint::startup_call);
    CallEntry entry;
    SFT_ASSERT(call.where.routine != nullptr && (result != nullptr || result_bytes == 0));
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
    SFT_ASSERT(changes_.empty());  // each is in this call's entry
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

void Startup::wrote(PeId pe, const void* address, std::size_t bytes) noexcept {
    if (mode_ != Mode::recording || pe == engine_->peers.me || bytes == 0 || !engine_->peers.is_symmetric(address)) {
        return;
    }
    const std::intptr_t distance = engine_->peers.entries[pe.index()].heap_difference.load(std::memory_order_relaxed);
    if (distance <= kRemote) {
        return;  // a process of another node does it for itself
    }
    if (ways_.empty() || !is_owner() ||
        memory_.queues.put(engine_->peers.me, distance, ways_[pe.index()].to, reinterpret_cast<std::uintptr_t>(address),
                           bytes) == WriteQueues::Put::full) {
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
    const AddressRange object = memory_.symmetric->object_at(call.pointed);
    if (object.bytes == 0 || object.bytes > kComparedMax) {
        there.expose_unseen();
    } else {
        there.expose(reinterpret_cast<const void*>(object.begin), object.bytes);
    }
}

void Startup::close_record() noexcept {
    SFT_ASSERT(mode_ == Mode::recording);
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
    if (reads_) {
        return {reader_.state(), reader_.n_calls(), reader_.used_bytes()};
    }
    const StartupState why = given_up_.load();
    if (why != StartupState::none) {
        return {why, writer_.n_calls(), 0};
    }
    return {mode_ == Mode::recording ? StartupState::recording : StartupState::complete, writer_.n_calls(),
            writer_.used_bytes()};
}

}  // namespace sft
