#include "storage/array_loader.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/raw_memory.hpp"
#include "base/report.hpp"

namespace sft {
namespace {

// A program loads one array after the other, each from the same few files.
constexpr std::size_t kStatesMost = 4;

// The part of a state in which a piece of memory lies, null: none, and the number of the part's first block.
struct Place {
    const StoredPart* part = nullptr;
    std::size_t first_block = 0;
};
Place place_of(const StoredHead& head, std::uint64_t address, std::uint64_t bytes) noexcept {
    const auto is_in = [&](const StoredPart& part) {
        return address >= part.address && address - part.address <= part.bytes &&
               bytes <= part.bytes - (address - part.address);
    };
    if (is_in(head.heap)) {
        return {&head.heap, 0};
    }
    return is_in(head.globals) ? Place{&head.globals, static_cast<std::size_t>(head.heap.bytes) / kBlockBytes}
                               : Place{};
}

}  // namespace

Result<> ArrayLoader::open(const std::string& folder) {
    folder_ = without_last_slash(folder);
    Result<Manifest> manifest = read_manifest(folder_);
    if (!manifest) {
        return fails(manifest.error());
    }
    manifest_ = std::move(*manifest);
    for (StoredArray& array : manifest_.arrays) {
        std::stable_sort(array.pieces.begin(), array.pieces.end(),
                         [](const StoredArray::Piece& a, const StoredArray::Piece& b) { return a.first < b.first; });
    }
    return {};
}

bool ArrayLoader::is_open(PeId pe) const noexcept {
    return std::any_of(states_.begin(), states_.end(), [&](const Open& one) { return one.pe == pe; });
}

const StoredArray* ArrayLoader::find(const std::string& name) const noexcept {
    const auto found = std::find_if(manifest_.arrays.begin(), manifest_.arrays.end(),
                                    [&](const StoredArray& array) { return array.name == name; });
    return found == manifest_.arrays.end() ? nullptr : &*found;
}

Result<const StoredState*> ArrayLoader::state_of(PeId pe) {
    const auto found = std::find_if(states_.begin(), states_.end(), [&](const Open& one) { return one.pe == pe; });
    if (found != states_.end()) {
        std::rotate(found, found + 1, states_.end());
        return static_cast<const StoredState*>(states_.back().state.get());
    }
    const std::string path = state_file(folder_, pe);
    auto state = std::make_unique<StoredState>();
    if (Result<> opened = state->open(path); !opened) {
        return fails(opened.error());
    }
    if (!is_of(state->head(), manifest_, pe)) {
        return fails(path + ": is not the file that the manifest speaks of");
    }
    const LiveState live = state->shape();
    if (!state->image(live).sound(manifest_.version)) {
        return fails(path + ": its table of checksums is damaged");
    }
    if (states_.size() == kStatesMost) {
        states_.erase(states_.begin());
    }
    states_.push_back({pe, std::move(state)});
    return static_cast<const StoredState*>(states_.back().state.get());
}

Result<> ArrayLoader::load_from(const StoredArray& array, const StoredArray::Piece& piece, std::uint64_t first,
                                std::uint64_t count, std::byte* to) {
    const Result<const StoredState*> opened = state_of(piece.pe);
    if (!opened) {
        return fails(opened.error());
    }
    const StoredState& state = **opened;
    SFT_ASSERT(first >= piece.first && count <= piece.count - (first - piece.first));
    const std::uint64_t address = piece.address + (first - piece.first) * array.element_bytes;
    const std::uint64_t bytes = count * array.element_bytes;
    const Place place = place_of(state.head(), address, bytes);
    if (place.part == nullptr) {
        return fails(format("%s: elements of the array %s lie outside of the memory that was stored",
                            state_file(folder_, piece.pe).c_str(), array.name.c_str()));
    }
    const std::size_t offset = address - place.part->address;
    const LiveState live = state.shape();
    const Image image = state.image(live);
    const std::size_t end_block = place.first_block + (offset + bytes + kBlockBytes - 1) / kBlockBytes;
    for (std::size_t block = place.first_block + offset / kBlockBytes; block < end_block; ++block) {
        if (image.next_existing(block) == block && !image.intact(block)) {
            return fails(format("%s: %s does not fit its checksum", state_file(folder_, piece.pe).c_str(),
                                image.name_of(block).c_str()));
        }
    }
    raw_copy(to, state.data(*place.part) + offset, bytes);
    return {};
}

Result<> ArrayLoader::load(const std::string& name, std::uint64_t element_bytes, std::uint64_t first,
                           std::uint64_t count, std::byte* to) {
    const StoredArray* const array = find(name);
    if (array == nullptr) {
        return fails(format("%s: no array of the name %s was declared", folder_.c_str(), name.c_str()));
    }
    if (array->element_bytes != element_bytes) {
        return fails(format("%s: the elements of the array %s have %llu bytes, not %llu", folder_.c_str(), name.c_str(),
                            static_cast<unsigned long long>(array->element_bytes),
                            static_cast<unsigned long long>(element_bytes)));
    }
    const std::uint64_t end = first + count;
    auto piece = array->pieces.begin();
    const StoredArray::Piece* best = nullptr;  // of those that begin here or before: that goes on longest
    for (std::uint64_t next = first; next < end;) {
        for (; piece != array->pieces.end() && piece->first <= next; ++piece) {
            if (best == nullptr || piece->end() > best->end() ||
                (piece->end() == best->end() && is_open(piece->pe) && !is_open(best->pe))) {
                best = &*piece;
            }
        }
        if (best == nullptr || best->end() <= next) {
            return fails(format("%s: element %llu of the array %s is in no piece that was declared", folder_.c_str(),
                                static_cast<unsigned long long>(next), name.c_str()));
        }
        const std::uint64_t some = std::min(end, best->end()) - next;
        if (Result<> done = load_from(*array, *best, next, some, to + (next - first) * element_bytes); !done) {
            return done;
        }
        next += some;
    }
    return {};
}

}  // namespace sft
