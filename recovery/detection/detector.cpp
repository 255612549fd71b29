#include "recovery/detection/detector.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"

namespace sft {
namespace {

// The next `fan` living processes from `self` in steps of +1 or -1 round the ring, `self` never among them.
std::vector<ProcId> living_neighbours(const Detector::Options& options, std::span<const Death> dead,
                                      std::int32_t step) {
    SFT_ASSERT(options.self.value() >= 0 && options.self.value() < options.n_processes);
    std::vector<ProcId> found;
    const std::int32_t n = options.n_processes;
    std::int32_t at = options.self.value();
    for (std::int32_t i = 1; i < n && static_cast<std::int32_t>(found.size()) < options.fan; ++i) {
        at = (at + step + n) % n;
        if (!contains(dead, ProcId(at))) {
            SFT_ASSERT(ProcId(at) != options.self);
            found.push_back(ProcId(at));
        }
    }
    return found;
}

}  // namespace

void Detector::update(std::span<const Death> dead, ProcId depends_on, std::int64_t now_ns) {
    std::vector<ProcId> wanted = living_neighbours(options_, dead, 1);
    if (depends_on != kNoProc && depends_on != options_.self && !contains(dead, depends_on) &&
        std::find(wanted.begin(), wanted.end(), depends_on) == wanted.end()) {
        wanted.push_back(depends_on);
    }
    std::vector<Watch> watches;
    watches.reserve(wanted.size());
    for (const ProcId process : wanted) {
        const auto old = std::find_if(watches_.begin(), watches_.end(),
                                      [&](const Watch& watch) { return watch.process == process; });
        // A new watch starts now: what happened before nobody was listening for is no silence.
        watches.push_back(old != watches_.end() ? *old : Watch{process, now_ns, false});
    }
    watches_ = std::move(watches);
    SFT_ASSERT(watches_.size() <= static_cast<std::size_t>(options_.fan) + 1);
    SFT_ASSERT_SLOW(std::none_of(watches_.begin(), watches_.end(),
                                 [&](const Watch& watch) { return contains(dead, watch.process); }));
}

void Detector::heard(ProcId from, std::int64_t now_ns) {
    for (Watch& watch : watches_) {
        // What is told late is no news: time never goes back.
        if (watch.process == from && now_ns >= watch.last_heard_ns) {
            watch.last_heard_ns = now_ns;
            watch.is_suspected = false;
        }
    }
}

std::vector<ProcId> Detector::suspects(std::int64_t now_ns) {
    std::vector<ProcId> silent;
    if (options_.bound_ns == 0) {
        return silent;
    }
    for (Watch& watch : watches_) {
        SFT_ASSERT(now_ns >= watch.last_heard_ns);  // the clock only goes forward
        if (!watch.is_suspected && now_ns - watch.last_heard_ns > options_.bound_ns) {
            watch.is_suspected = true;
            silent.push_back(watch.process);
        }
    }
    return silent;
}

void Detector::forgive(std::int64_t now_ns) {
    for (Watch& watch : watches_) {
        watch.last_heard_ns = std::max(watch.last_heard_ns, now_ns);
        watch.is_suspected = false;
    }
}

std::vector<ProcId> Detector::watched() const {
    std::vector<ProcId> processes;
    processes.reserve(watches_.size());
    for (const Watch& watch : watches_) {
        processes.push_back(watch.process);
    }
    return processes;
}

std::vector<ProcId> Detector::watchers(std::span<const Death> dead) const {
    return living_neighbours(options_, dead, -1);
}

}  // namespace sft
