// For the files that implement BackupStore.
#pragma once

#include "backup/store.hpp"

namespace sft {

class BackupStore::Use {
public:
    explicit Use(const BackupStore& store) : store_(store) {
        store_.wanted_.fetch_add(1);
        store_.mutex_.lock();
    }
    ~Use() {
        store_.mutex_.unlock();
        [[maybe_unused]] const int before = store_.wanted_.fetch_sub(1);
        SFT_ASSERT(before > 0);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

private:
    const BackupStore& store_;
};

}  // namespace sft
