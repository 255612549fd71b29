#include "shmem_ft/process/version_handlers.hpp"

#include <new>

#include "base/assert.hpp"

namespace sft {

bool VersionHandlers::add(VersionHandler handler, void* context) noexcept {
    if (handler == nullptr) {
        return false;
    }
    const Locked lock(mutex_);
    try {
        entries_.push_back({handler, context});
    } catch (const std::bad_alloc&) {
        return false;
    }
    has_any_.store(true, std::memory_order_release);
    return true;
}

int VersionHandlers::call(VersionEvent event, Version version) const {
    SFT_ASSERT(version != kNoVersion);
    const std::size_t n = size();
    for (std::size_t i = 0; i < n; ++i) {
        const Entry entry = at(event == VersionEvent::before_checkpoint ? n - 1 - i : i);
        if (const int refused = entry.handler(static_cast<int>(event), version.value(), entry.context); refused != 0) {
            return refused;
        }
    }
    return 0;
}

std::size_t VersionHandlers::size() const {
    const Locked lock(mutex_);
    return entries_.size();
}

VersionHandlers::Entry VersionHandlers::at(std::size_t i) const {
    const Locked lock(mutex_);
    SFT_ASSERT(i < entries_.size() && entries_[i].handler != nullptr);
    return entries_[i];
}

}  // namespace sft
