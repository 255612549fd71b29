// The part of BackupStore that says where copies lie, and shows them to others.
#include <sys/mman.h>

#include <algorithm>

#include "backup/store.hpp"
#include "backup/store_use.hpp"
#include "base/assert.hpp"
#include "base/pages.hpp"
#include "base/report.hpp"
#include "transport/net/network.hpp"

namespace sft {

void BackupStore::keep_on_node(int file, OnNode places) noexcept {
    const Use use(*this);
    SFT_ASSERT(mode_ != BackupMode::none && pe_ == kNoPe && served_ == nullptr);
    SFT_ASSERT(file >= 0 && node_file_ < 0 && places.local_copies % kPageBytes == 0);
    SFT_ASSERT(places.local_copies <= places.parity && places.parity <= places.end && places.parity % kPageBytes == 0);
    kept_.release();
    node_file_ = file;
    places_ = places;
}

Result<> BackupStore::serve(Network& network, const LiveState& live) {
    const Use use(*this);
    if (mode_ == BackupMode::none) {
        return {};
    }
    SFT_ASSERT(served_ == nullptr);
    const std::size_t bytes = node_file_ < 0 ? kept_bytes_ : places_.end;
    Result<> mapped =
        node_file_ < 0 ? kept_.map_at(nullptr) : served_memory_.reserve(std::max(bytes, places_.heaps_end));
    if (mapped && node_file_ >= 0) {
        mapped = served_memory_.show(node_file_, 0);
    }
    if (!mapped) {
        return mapped;
    }
    std::byte* const begin = node_file_ < 0 ? kept_.address() : served_memory_.address();
    ::madvise(begin, node_file_ < 0 ? bytes : served_memory_.bytes(), MADV_DONTFORK);
    network.set_store(begin, bytes);
    serve_parity(network, live);
    served_ = &network;
    return {};
}

bool BackupStore::has_lost_keeper() const {
    const Use use(*this);
    return lost_keeper_ != kNoProc;
}

// In the node's memory, if there is one.
Reach BackupStore::show_local_copy(PeId pe, const LiveState& live, Trouble& trouble) {
    if (!has_local_copy() || node_file_ < 0 || is_local_shown_) {
        return Reach::opened;
    }
    SFT_ASSERT(local_version_ == kNoVersion);  // what it held would be gone
    const Result<> shown = local_.show(node_file_, places_.local_copies + pe.index() * Image::bytes_for(live));
    is_local_shown_ = shown.has_value();
    if (!shown) {
        trouble = {format("the local copy of PE %d: %s", pe.value(), shown.error().line.c_str()), shown.error().number};
    }
    return shown ? Reach::opened : Reach::cannot_be_opened;
}

}  // namespace sft
