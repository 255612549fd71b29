// When a job needs a spare that nobody has started: it says that it waits for one for a PE
// (JobEventKind::spare_wanted), and oshrun starts one. Pure: wishes come in, how many are to be started comes out.
//
// Bounded: one spare per PE that is waited for, and not more than `limit` in the life of a job, so that a program that
// dies again and again does not go on for ever. When kFailuresMax in a row could not join (the program has been deleted
// or rebuilt, a library is gone), the next one could not either. One alone may have lost the process that it was to
// learn from.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

namespace sft::tools {

struct OnDemand {
    bool is_on = true;
    int limit = 8;
};

class Demand {
public:
    explicit Demand(OnDemand options) noexcept : options_(options) {}

    void wished(int pe, std::int64_t now_ns) { wishes_.try_emplace(pe, now_ns); }
    // A spare has become that PE.
    void taken(int pe) { wishes_.erase(pe); }

    struct Wish {
        int pe = -1;
        std::int64_t since_ns = 0;
    };
    // Those for which a spare has to be started now, the oldest first. idle: spares that have been started and hold no
    // PE, or are about to be started; each of them will serve a wish.
    [[nodiscard]] std::vector<Wish> to_serve(int idle) const {
        std::vector<Wish> wishes;
        for (const auto& [pe, since_ns] : wishes_) {
            wishes.push_back({pe, since_ns});
        }
        std::stable_sort(wishes.begin(), wishes.end(),
                         [](const Wish& a, const Wish& b) { return a.since_ns < b.since_ns; });
        wishes.erase(wishes.begin(), wishes.begin() + std::min<std::ptrdiff_t>(idle, std::ssize(wishes)));
        const int allowed = options_.is_on && !is_hopeless() ? std::max(options_.limit - started_, 0) : 0;
        wishes.resize(std::min(wishes.size(), static_cast<std::size_t>(allowed)));
        return wishes;
    }
    void started() noexcept { ++started_; }
    void joined() noexcept { failures_ = 0; }
    void failed() noexcept { ++failures_; }
    [[nodiscard]] bool is_hopeless() const noexcept { return options_.is_on && failures_ >= kFailuresMax; }
    [[nodiscard]] bool is_exhausted() const noexcept { return options_.is_on && started_ >= options_.limit; }
    [[nodiscard]] bool unserved(int idle) const noexcept { return static_cast<int>(wishes_.size()) > idle; }
    [[nodiscard]] bool has_wishes() const noexcept { return !wishes_.empty(); }
    // REQUIRES: has_wishes(). The lowest of them.
    [[nodiscard]] int wished_pe() const noexcept { return wishes_.begin()->first; }

    static constexpr int kFailuresMax = 2;

private:
    OnDemand options_;
    int started_ = 0;
    int failures_ = 0;                    // of those that were to join, since one did
    std::map<int, std::int64_t> wishes_;  // by PE: since when
};

}  // namespace sft::tools
