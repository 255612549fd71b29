#include "backup/store.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "shmem_ft/base/report.hpp"
#include "shmem_ft/transport/shm/control.hpp"

namespace sft {

bool BackupStore::create(BackupMode mode, const LiveState& live, std::int32_t n_pes, std::string& error) {
    mode_ = mode;
    if (mode == BackupMode::none) {
        return true;
    }
    if (!kept_.create("shmem-ft-store", room_bytes(live) * static_cast<std::size_t>(n_pes), error)) {
        return false;
    }
    if (mode == BackupMode::double_copy) {
        if (!local_.reserve(Image::bytes_for(live), error)) {
            return false;
        }
        // Private pages, huge where the kernel grants them: faulting in small ones takes longer than the copy itself.
        if (::mprotect(local_.address(), local_.bytes(), PROT_READ | PROT_WRITE) != 0) {
            error = format("cannot get %zu bytes for the local copy: %s", local_.bytes(), std::strerror(errno));
            return false;
        }
        ::madvise(local_.address(), local_.bytes(), MADV_HUGEPAGE);
        ::madvise(local_.address(), local_.bytes(), MADV_DONTFORK);
    }
    return true;
}

void BackupStore::release() noexcept {
    kept_.release();
    shadow_.release();
    local_.release();
    has_shadow_ = false;
}

bool BackupStore::use_keeper(const Door& door, PeId pe, const LiveState& live, std::string& error) {
    has_shadow_ = false;
    const int fd = open_descriptor_of(door.pid, door.store_fd);
    if (fd < 0) {
        error = format("cannot open the store of process %d: %s", door.pid, std::strerror(errno));
        return false;
    }
    const std::size_t room = room_bytes(live);
    const bool shown =
        (shadow_.address() != nullptr || shadow_.reserve(room, error)) && shadow_.show(fd, pe.index() * room, error);
    ::close(fd);
    has_shadow_ = shown;
    return shown;
}

ImageStats BackupStore::ship(Version version, const LiveState& live) noexcept {
    fault_point(FaultPoint::ship_begin);
    const ImageStats stats = has_shadow_
                                 ? slot(shadow_.address(), version, live).store(version, live, FaultPoint::ship_middle)
                                 : ImageStats{};
    fault_point(FaultPoint::ship_end);
    return stats;
}

ImageStats BackupStore::fold(Version version, const LiveState& live) noexcept {
    fault_point(FaultPoint::fold_begin);
    const ImageStats stats =
        mode_ == BackupMode::double_copy ? Image(local_.address(), live).store(version, live) : ImageStats{};
    fault_point(FaultPoint::fold_end);
    return stats;
}

bool BackupStore::roll_back(Version version, const LiveState& live) const noexcept {
    if (mode_ == BackupMode::double_copy && Image(local_.address(), live).load(version, live)) {
        return true;
    }
    return shadow_.address() != nullptr && slot(shadow_.address(), version, live).load(version, live);
}

template <class Load>
BackupStore::Fetched BackupStore::with_shadow(const Door& door, PeId pe, Version version, const LiveState& live,
                                              Load&& load) {
    const int fd = open_descriptor_of(door.pid, door.store_fd);
    if (fd < 0) {
        return Fetched::keeper_gone;
    }
    std::string error;
    Window window;
    const std::size_t room = room_bytes(live);
    const bool shown = window.reserve(room, error) && window.show(fd, pe.index() * room, error);
    ::close(fd);
    if (!shown) {
        return Fetched::keeper_gone;
    }
    return load(slot(window.address(), version, live)) ? Fetched::done : Fetched::corrupt;
}

BackupStore::Fetched BackupStore::fetch(const Door& door, PeId pe, Version version, const LiveState& live) {
    return with_shadow(door, pe, version, live, [&](const Image& image) { return image.load(version, live); });
}

BackupStore::Fetched BackupStore::fetch_front(const Door& door, PeId pe, Version version, const LiveState& live,
                                              std::size_t heap_bytes) {
    return with_shadow(door, pe, version, live,
                       [&](const Image& image) { return image.load_front(version, live, heap_bytes); });
}

}  // namespace sft
