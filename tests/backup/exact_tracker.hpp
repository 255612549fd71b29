// A tracker that is told nothing: it keeps what live memory was at each version.
#pragma once

#include <cstring>
#include <map>
#include <vector>

#include "backup/change_tracker.hpp"
#include "backup/image_layout.hpp"
#include "tests/backup/live_memory.hpp"

namespace sft {

// Names the pages in which live memory differs from what it was, and no others.
class ExactTracker final : public ChangeTracker {
public:
    explicit ExactTracker(const LiveMemory& live) : live_(live) {}

    void begin(Version version) override { now_ = then_[version] = bytes(); }
    void restart(Version version) override {
        std::erase_if(then_, [&](const auto& item) { return item.first > version; });
    }
    void heard(std::size_t /*stored_bytes*/, std::size_t /*changed_bytes*/) override {}
    const BlockSet* changed_since(Version version) override {
        const auto then = then_.find(version);
        if (then == then_.end()) {
            return nullptr;
        }
        const std::size_t blocks = blocks_of(now_.size());  // heap and globals; the library's state is one more
        changed_.reset(blocks + blocks_of(live_.library.size()));
        changed_.insert_run(blocks, blocks + blocks_of(live_.library.size()));
        for (std::size_t page = 0; page * kPageBytes < now_.size(); ++page) {
            if (std::memcmp(now_.data() + page * kPageBytes, then->second.data() + page * kPageBytes, kPageBytes) !=
                0) {
                changed_.insert_page_run(page, page + 1);
            }
        }
        ++n_known;
        return &changed_;
    }

    int n_known = 0;

private:
    [[nodiscard]] std::vector<std::byte> bytes() const {
        static_assert(LiveMemory::kGlobalsBytes % kPageBytes == 0);
        std::vector<std::byte> all = live_.heap_bytes();
        const std::vector<std::byte> globals = live_.globals_bytes();
        all.insert(all.end(), globals.begin(), globals.end());
        return all;
    }

    const LiveMemory& live_;
    std::map<Version, std::vector<std::byte>> then_;
    std::vector<std::byte> now_;
    BlockSet changed_;
};

}  // namespace sft
