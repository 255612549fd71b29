#include "backup/far_shadow.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/report.hpp"

namespace sft {

Result<> FarShadow::open(StoreWire& wire, std::unique_ptr<StoreWire> own_wire, std::size_t offset,
                         const LiveState& live) {
    SFT_ASSERT(own_wire == nullptr || own_wire.get() == &wire);
    SFT_ASSERT(!slots_[0].far && !slots_[1].far);            // opened once
    SFT_ASSERT(offset % (2 * Image::bytes_for(live)) == 0);  // the room of a PE
    own_wire_ = std::move(own_wire);
    const std::size_t front_bytes = Image::front_bytes_for(live);
    for (Slot& slot : slots_) {
        // Addresses for all of the image, so that places in it are told by pointers as in other images.
        if (Result<> done = slot.mirror.reserve(Image::bytes_for(live)); !done) {
            return done;
        }
        if (::mprotect(slot.mirror.address(), front_bytes, PROT_READ | PROT_WRITE) != 0) {
            return fails(format("cannot get %zu bytes for checksums: %s", front_bytes, std::strerror(errno)), errno);
        }
        ::madvise(slot.mirror.address(), slot.mirror.bytes(), MADV_DONTFORK);
        slot.far.emplace(wire, offset);
        offset += Image::bytes_for(live);
    }
    return {};
}

bool FarShadow::read_front(Version version, const LiveState& live) { return slot(version, live).read_front(); }

}  // namespace sft
