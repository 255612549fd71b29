// Checksums of an image: checking, mending from another copy, and the hook that damages one.
#include <algorithm>
#include <bit>
#include <cstring>
#include <random>

#include "backup/far_image.hpp"
#include "backup/image_layout.hpp"
#include "base/assert.hpp"
#include "base/checksum.hpp"
#include "base/raw_memory.hpp"
#include "base/report.hpp"

namespace sft {
namespace {

template <class Head>
std::uint64_t sum_of_header(std::uint64_t version, const Head& header) noexcept {
    const std::uint64_t words[] = {version, header.heap_blocks, header.table_sum};
    return checksum(words, sizeof words);
}

}  // namespace

std::uint64_t Image::page_sum(const std::byte* data, std::size_t bytes, unsigned page) noexcept {
    SFT_ASSERT(page < kPagesOfBlock && bytes != 0);
    return std::rotl(sft::checksum(data, bytes), static_cast<int>(page));  // so that pages cannot change places
}

std::uint64_t Image::entry_for(std::uint64_t sum) noexcept { return sum == kAbsent ? 1 : sum; }

std::uint64_t Image::checksum(const std::byte* data, std::size_t bytes) noexcept {
    SFT_ASSERT(bytes != 0 && bytes <= kBlockBytes);
    std::uint64_t sum = 0;
    for (unsigned page = 0; page * kPageBytes < bytes; ++page) {
        const std::size_t from = page * kPageBytes;
        sum += page_sum(data + from, std::min(kPageBytes, bytes - from), page);
    }
    return entry_for(sum);
}

// ---- header and table ----

// The three tables lie one behind the other.
std::size_t Image::first_block(const Region& region) const noexcept {
    return static_cast<std::size_t>(region.table - heap_.table);
}

std::size_t Image::blocks() const noexcept { return first_block(library_) + blocks_of(library_.bytes); }

std::uint64_t Image::table_sum() const noexcept {
    SFT_ASSERT(header_->heap_blocks <= blocks_of(heap_.bytes));  // nothing behind the table is read
    const std::size_t rest = first_block(globals_);
    SFT_ASSERT(rest <= blocks());
    const std::uint64_t heap_sum = sft::checksum(heap_.table, header_->heap_blocks * sizeof(std::uint64_t));
    return sft::checksum(globals_.table, (blocks() - rest) * sizeof(std::uint64_t), heap_sum);
}

bool Image::holds(Version version) const noexcept {
    return version != kNoVersion && header_->version.load(std::memory_order_acquire) == version.value() &&
           header_->heap_blocks <= blocks_of(heap_.bytes) &&
           header_->header_sum == sum_of_header(version.value(), *header_);
}

Version Image::version() const noexcept {
    const Version claimed(static_cast<std::uint32_t>(header_->version.load(std::memory_order_acquire)));
    return holds(claimed) ? claimed : kNoVersion;
}

bool Image::sound(Version version) const noexcept { return holds(version) && header_->table_sum == table_sum(); }

bool Image::begin_change() noexcept {
    header_->version.store(kNoVersion.value(), std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    publish(header_, sizeof(Header));
    return far_ == nullptr || far_->flush();  // nothing that follows may overtake it
}

bool Image::seal(Version version) noexcept {
    SFT_ASSERT(version != kNoVersion);
    SFT_ASSERT(header_->version.load() == kNoVersion.value());  // begin_change() comes first
    const bool is_there = far_ == nullptr || far_->flush();
    header_->table_sum = table_sum();
    header_->header_sum = sum_of_header(version.value(), *header_);
    if (is_there) {
        header_->version.store(version.value(), std::memory_order_seq_cst);
        publish(header_, sizeof(Header));
        SFT_ASSERT(holds(version));
    }
    return far_ == nullptr || far_->flush();
}

// ---- blocks ----

Image::Block Image::block(std::size_t number) const noexcept {
    SFT_ASSERT(number < blocks());
    const Region& region = number < first_block(globals_)   ? heap_
                           : number < first_block(library_) ? globals_
                                                            : library_;
    const std::size_t index = number - first_block(region);
    SFT_ASSERT(index * kBlockBytes < region.bytes);
    SFT_ASSERT(region.data + region.bytes <= library_.data + library_.bytes);
    return {region.table + index, region.data + index * kBlockBytes, block_bytes(region.bytes, index)};
}

std::size_t Image::next_existing(std::size_t number) const noexcept {
    const std::size_t heap_end = std::min<std::size_t>(header_->heap_blocks, first_block(globals_));
    const std::size_t globals_end = first_block(library_);
    number = first_present(heap_.table, number, heap_end);
    // The tables lie one behind the other.
    return number < heap_end ? number
                             : first_present(heap_.table, std::max(number, first_block(globals_)), globals_end);
}

const std::byte* Image::data_if_intact(std::size_t number) const noexcept {
    const Block own = block(number);
    const std::byte* data = *own.entry != kAbsent ? data_of(own) : nullptr;
    return data != nullptr && checksum(data, own.bytes) == *own.entry ? data : nullptr;
}

bool Image::intact(std::size_t number) const noexcept { return data_if_intact(number) != nullptr; }

std::string Image::name_of(std::size_t number) const {
    const bool is_heap = number < first_block(globals_);
    const bool is_globals = !is_heap && number < first_block(library_);
    const Region& region = is_heap ? heap_ : is_globals ? globals_ : library_;
    return format("block %zu of the %s", number - first_block(region),
                  is_heap      ? "heap"
                  : is_globals ? "globals"
                               : "library's state");
}

// ---- for who writes it somewhere else ----

void Image::copy_front_to(Image& other) const noexcept {
    SFT_ASSERT(far_ == nullptr && other.far_ == nullptr && blocks() == other.blocks());
    const auto* from = reinterpret_cast<const std::byte*>(header_);
    auto* to = reinterpret_cast<std::byte*>(other.header_);
    for (const ByteExtent& extent : table_extents()) {
        raw_copy(to + extent.offset, from + extent.offset, extent.bytes);
    }
    raw_copy(to, from, sizeof(Header));
}

Image::Place Image::place_of(std::size_t number) const noexcept {
    const Block own = block(number);
    return {.offset = offset_of(own.data), .bytes = own.bytes, .sum = entry_of(number)};
}

bool Image::Place::fits(const std::byte* data) const noexcept { return checksum(data, bytes) == sum; }

std::uint64_t Image::header_sum() const noexcept { return header_->header_sum; }

// ---- check and mend ----

Findings Image::verify(Version version) const {
    Findings findings;
    findings.sound = sound(version);
    if (!findings.sound) {
        return findings;
    }
    expect(0, blocks());
    for (std::size_t number = next_existing(0); number < blocks(); number = next_existing(number + 1)) {
        ++findings.checked;
        if (!intact(number)) {
            SFT_ASSERT(!gone() || far_ != nullptr);
            if (gone()) {
                findings.gone = true;
                break;
            }
            findings.bad.push_back(number);
        }
    }
    return findings;
}

Findings Image::mend(Version version, const Image& other) {
    Findings findings;
    if (!prepare(version, &other, findings)) {
        findings.gone = gone();
        return findings;
    }
    expect(0, blocks());
    for (std::size_t number = next_existing(0); number < blocks() && !gone(); number = next_existing(number + 1)) {
        ++findings.checked;
        if (intact(number)) {
            continue;
        }
        if (mend_block(version, number, other)) {
            ++findings.mended;
        } else if (!gone()) {
            findings.bad.push_back(number);
        }
    }
    findings.gone = gone();
    SFT_ASSERT(findings.mended + findings.bad.size() <= findings.checked + 1);  // and the table
    return findings;
}

bool Image::mend_table(Version version, const Image& other) noexcept {
    if (!other.sound(version)) {
        return false;
    }
    // Copies of one state, and not of the same piece of memory.
    SFT_ASSERT(header_ != other.header_ && heap_.bytes == other.heap_.bytes && blocks() == other.blocks());
    SFT_ASSERT(other.header_->heap_blocks <= blocks_of(heap_.bytes));
    begin_change();
    header_->heap_blocks = other.header_->heap_blocks;
    raw_copy(heap_.table, other.heap_.table, header_->heap_blocks * sizeof(std::uint64_t));
    raw_copy(globals_.table, other.globals_.table, (blocks() - first_block(globals_)) * sizeof(std::uint64_t));
    publish_table();
    return seal(version);  // the data may be anything: the checksums of the other copy will tell
}

bool Image::mend_block(Version version, std::size_t number, const Image& other) noexcept {
    if (!sound(version) && !mend_table(version, other)) {
        return false;
    }
    const Block own = block(number);
    const Block theirs = other.block(number);
    SFT_ASSERT(own.bytes == theirs.bytes && own.data != theirs.data);
    // The own table is sound now, so whatever has the checksum in it is right, wherever it comes from. The entry stays
    // and a death in the middle leaves the block as bad as it was.
    const std::byte* data = other.data_of(theirs);
    if (data != nullptr && checksum(data, theirs.bytes) == *own.entry) {
        put(own, data);
        return intact(number);
    }
    // Or it is the own entry that is wrong: flipped while the table was being made, or left behind because a flip had
    // turned the old contents into the new ones before the two were compared.
    if (!other.sound(version)) {
        return false;
    }
    const std::vector<std::byte> zeros(*theirs.entry == kAbsent ? own.bytes : 0);
    data = *theirs.entry == kAbsent ? zeros.data() : other.data_if_intact(number);
    if (data == nullptr) {
        return false;
    }
    begin_change();
    put(own, data);
    *own.entry = *theirs.entry == kAbsent ? checksum(data, own.bytes) : *theirs.entry;
    publish(own.entry, sizeof *own.entry);
    seal(version);
    return intact(number);
}

// ---- damage, for tests ----

std::string Image::flip_bit(Version version, std::uint64_t seed) {
    if (!holds(version)) {
        return {};
    }
    std::mt19937_64 random(seed);
    const auto flip = [&](void* memory, std::size_t bytes, const std::string& where) {
        const std::size_t byte = random() % bytes;
        const auto bit = static_cast<unsigned>(random() % 8);
        if (!flip_at(static_cast<std::byte*>(memory) + byte, std::byte(1U << bit))) {
            return std::string();
        }
        return format("bit %u of byte %zu of %s", bit, byte, where.c_str());
    };
    std::vector<std::size_t> existing;
    for (std::size_t number = next_existing(0); number < blocks(); number = next_existing(number + 1)) {
        existing.push_back(number);
    }
    SFT_ASSERT(!existing.empty());  // the library's state always exists
    switch (random() % 8) {
        case 0: return flip(header_, sizeof(Header), "the header");
        case 1: {
            // Entries of holes matter as well: a flip must not turn one into data.
            const std::size_t tail = blocks() - first_block(globals_);
            const std::size_t place = random() % (header_->heap_blocks + tail);
            const bool in_heap = place < header_->heap_blocks;
            const std::size_t number = in_heap ? place : place - header_->heap_blocks + first_block(globals_);
            return flip(block(number).entry, sizeof(std::uint64_t), "the checksum of " + name_of(number));
        }
        default: {
            const std::size_t number = existing[random() % existing.size()];
            const Block own = block(number);
            return flip(own.data, own.bytes, name_of(number));
        }
    }
}

}  // namespace sft
