// Who knows which blocks of live memory may have changed since a version. A copy of that version needs nothing else
// than these; without a tracker, or an answer, everything is compared with the copy.
//
// A tracker may name too much, and never too little: a block that has changed and is not named is missing in the copy.
// Builds with slow assertions, and jobs that ask for it (SHMEM_FT_TRACKING=check), compare what was not named as well.
//
// Threads: those of BackupStore, under its mutex.
#pragma once

#include "backup/block_set.hpp"
#include "base/ids.hpp"

namespace sft {

class ChangeTracker {
public:
    virtual ~ChangeTracker() = default;
    // What is written from here on is a change since `version`, whose copies are made now. Often with the number of one
    // before, whose copies were not committed or went to a keeper that has died.
    virtual void begin(Version version) = 0;
    // Live memory has been given the contents of `version`, but for what is left out of versions; what was known of
    // later ones is of no use.
    virtual void restart(Version version) = 0;
    // Contains every block (numbered as in Image) that has been written since the beginning of `version`. Null: that is
    // not known, as of a version it was not told of. Valid until the next call.
    [[nodiscard]] virtual const BlockSet* changed_since(Version version) = 0;
    // Of a version whose copies have been made: how much exists, and how much of it has been found to differ from the
    // copies before.
    virtual void heard(std::size_t stored_bytes, std::size_t changed_bytes) = 0;
};

}  // namespace sft
