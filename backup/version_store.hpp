// Where committed versions go besides memory: files, a burst buffer, an object store. Today nowhere.
//
// Threads: that of the protocols, which waits for it while the application stands still; what takes long belongs into a
// thread of the store's own, which reads the copy later.
#pragma once

#include "backup/image.hpp"
#include "base/ids.hpp"

namespace sft {

class VersionStore : public BlockListener {
public:
    // `version` of this process's PE is committed, and `copy` has it. The copy is this process's local one if there is
    // one, and stays as it is until the next version is committed; else its shadow, which stays until the one after
    // that is replicated. May be called again for a version that was committed before.
    virtual void committed(Version version, const Image& copy) = 0;
    // A block of the local copy is going to be that of the next version.
    void about_to_change(std::size_t /*block*/, const std::byte* /*data*/, std::size_t /*bytes*/) noexcept override {}
};

}  // namespace sft
