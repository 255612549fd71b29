// For the files that implement BackupStore.
#pragma once

#include <pthread.h>

#include "backup/store.hpp"

namespace sft {

class SFT_THREAD_SAFETY(scoped_lockable) BackupStore::Use {
public:
    explicit Use(const BackupStore& store) SFT_ACQUIRES(store.mutex_) : store_(store) {
        store_.wanted_.fetch_add(1);
        store_.mutex_.lock();
        store_.holder_.store(::pthread_self());
    }
    ~Use() SFT_THREAD_SAFETY(release_capability()) {
        store_.holder_.store(0);
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
