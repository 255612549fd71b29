#include "symheap/stray_words.hpp"

#include <cxxabi.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/assert.hpp"
#include "base/docs.hpp"
#include "base/raw_memory.hpp"
#include "base/report.hpp"
#include "base/text_file.hpp"
#include "symheap/existing_pages.hpp"
#include "symheap/load_bias.hpp"

namespace sft {
namespace {

constexpr std::size_t kWord = sizeof(std::uintptr_t);
constexpr std::uintptr_t kLowest = 4096;
constexpr std::uintptr_t kNumbersEnd = std::uintptr_t{1} << 32U;  // below, a word is as likely a number

// What glibc has in front of a block: the size with three flags, the lowest of which says that the one before is in
// use.
constexpr std::uintptr_t kChunkHeader = 2 * kWord;
constexpr std::uintptr_t kChunkFlags = 7;
constexpr std::uintptr_t kPreviousInUse = 1;

std::string readable(const std::string& symbol) {
    int status = -1;
    const std::unique_ptr<char, decltype(&std::free)> name(
        symbol.starts_with("_Z") ? abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status) : nullptr,
        &std::free);
    return status == 0 && name ? name.get() : symbol;
}

// Through the kernel: another thread of the process may give the memory back meanwhile.
bool read_word(std::uintptr_t address, std::uintptr_t& word) {
    iovec own{&word, sizeof word};
    iovec other{reinterpret_cast<void*>(address), sizeof word};
    return ::process_vm_readv(::getpid(), &own, 1, &other, 1, 0) == static_cast<ssize_t>(sizeof word);
}

// REQUIRES: the address lies in [begin, end), where malloc has its blocks.
bool begins_block(std::uintptr_t address, std::uintptr_t begin, std::uintptr_t end) {
    SFT_ASSERT(begin <= address && address < end);
    std::uintptr_t size = 0;
    std::uintptr_t next = 0;
    if (address % kChunkHeader != 0 || address - begin < kChunkHeader || !read_word(address - kWord, size)) {
        return false;
    }
    size &= ~kChunkFlags;
    return size >= 2 * kChunkHeader && size % kChunkHeader == 0 && size < end - address &&
           read_word(address - kWord + size, next) && (next & kPreviousInUse) != 0;
}

}  // namespace

void StrayWords::read_mappings() {
    mappings_.clear();
    char own[PATH_MAX];
    const ssize_t length = ::readlink("/proc/self/exe", own, sizeof own);
    const std::string executable(own, length < 0 ? 0 : static_cast<std::size_t>(length));
    const std::string text = text_of("/proc/self/maps");
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t line_end = std::min(text.find('\n', at), text.size());
        const std::string line = text.substr(at, line_end - at);
        at = line_end + 1;
        unsigned long begin = 0;
        unsigned long end = 0;
        char rights[5] = "";
        int name_at = 0;
        if (std::sscanf(line.c_str(), "%lx-%lx %4s %*s %*s %*s %n", &begin, &end, rights, &name_at) < 3) {
            continue;
        }
        const std::string name = name_at > 0 ? line.substr(static_cast<std::size_t>(name_at)) : "";
        Mapping::Kind kind = Mapping::Kind::allocated;
        if (name.starts_with("/memfd:shmem-ft-") && rights[3] == 's') {
            kind = Mapping::Kind::peer;  // what of it is this PE's own is taken out by target_of
        } else if (name == "[stack]") {
            kind = Mapping::Kind::stack;
        } else if (name == executable || (name.starts_with('[') && name != "[heap]")) {
            continue;
        } else if (name.starts_with('/') && !name.starts_with("/memfd:")) {
            kind = Mapping::Kind::library;
        } else if (rights[1] != 'w') {
            continue;  // reserved only
        }
        mappings_.push_back({begin, end, kind, name.substr(name.rfind('/') + 1)});
    }
    lowest_ = mappings_.empty() ? 0 : std::max<std::uintptr_t>(mappings_.front().begin, kLowest);
    highest_ = mappings_.empty() ? 0 : mappings_.back().end;
    SFT_ASSERT(lowest_ <= highest_);
    SFT_ASSERT_SLOW(std::adjacent_find(mappings_.begin(), mappings_.end(), [](const Mapping& a, const Mapping& b) {
                        return a.end > b.begin;
                    }) == mappings_.end());
}

const StrayWords::Mapping* StrayWords::target_of(std::uintptr_t word) const {
    const auto* address = reinterpret_cast<const void*>(word);
    if (options_.heap.contains(address) || options_.globals.contains(address)) {
        return nullptr;
    }
    auto found = std::upper_bound(mappings_.begin(), mappings_.end(), word,
                                  [](std::uintptr_t value, const Mapping& mapping) { return value < mapping.begin; });
    if (found == mappings_.begin() || word >= (--found)->end) {
        return nullptr;
    }
    if (word < kNumbersEnd &&
        (found->kind != Mapping::Kind::allocated || !begins_block(word, found->begin, found->end))) {
        return nullptr;
    }
    return &*found;
}

// An array of indices, say, of which one happens to be where a block begins.
bool StrayWords::is_among_numbers(const Part& part, std::uintptr_t at) const {
    constexpr std::size_t kEachSide = 16;
    constexpr std::size_t kNumbersMin = 4;
    SFT_ASSERT(at >= part.begin && at < part.end);  // only what is saved is read
    const std::uintptr_t begin = at - std::min(kEachSide * kWord, at - part.begin);
    const std::uintptr_t end = std::min(at + (kEachSide + 1) * kWord, part.end);
    std::size_t neighbours = 0;
    std::size_t numbers = 0;
    for (std::uintptr_t other = begin; other < end; other += kWord) {
        const std::uintptr_t word = raw_word(other);
        neighbours += other != at ? 1 : 0;
        numbers += other != at && word != 0 && word < kNumbersEnd && target_of(word) == nullptr ? 1 : 0;
    }
    return numbers >= kNumbersMin && numbers * 8 >= neighbours * 5;  // of pairs of a pointer and a length, half are
}

// ---- what is saved ----

// Holes are left alone, here and below: to read them would fill them with pages.
void StrayWords::list_globals(std::vector<Part>& parts) const {
    std::size_t number = 0;
    const auto add = [&](std::size_t from, std::size_t to) {
        while (number < options_.saved.size()) {
            const Globals::Extent& extent = options_.saved[number];
            SFT_ASSERT(extent.bytes <= options_.globals.bytes);
            SFT_ASSERT(extent.offset <= options_.globals.bytes - extent.bytes);
            const std::size_t begin = std::max(from, extent.offset);
            const std::size_t end = std::min(to, extent.offset + extent.bytes);
            if (begin < end) {
                parts.push_back({(options_.globals.begin + begin + kWord - 1) / kWord * kWord,
                                 (options_.globals.begin + end) / kWord * kWord, 0});
            }
            if (extent.offset + extent.bytes > to) {
                return;  // there is more of it behind
            }
            ++number;
        }
    };
    each_existing(options_.globals_fd, options_.globals_file_offset, options_.globals.bytes, add);
}

void StrayWords::list_blocks(std::vector<Part>& parts) const {
    if (options_.blocks == nullptr || !options_.blocks->is_complete()) {
        return;
    }
    each_existing(options_.heap_fd, options_.heap_file_offset, options_.heap.bytes,
                  [&](std::size_t begin, std::size_t end) { list_blocks_between(begin, end, parts); });
}

// From the last block backwards: the table finds a block by what lies behind its begin.
void StrayWords::list_blocks_between(std::uint64_t from, std::uint64_t to, std::vector<Part>& parts) const {
    for (std::uint64_t offset = to; offset > 0;) {
        const BlockTable::Block* block = options_.blocks->at_or_before(offset - 1);
        if (block == nullptr || block->offset + block->bytes <= from) {
            return;
        }
        const std::uint64_t begin = std::max(block->offset, from);
        const std::uint64_t last = std::min(block->offset + block->bytes, to);
        SFT_ASSERT(last <= options_.heap.bytes);
        if (block->is_freed == 0 && begin < last) {
            parts.push_back({options_.heap.begin + (begin + kWord - 1) / kWord * kWord,
                             options_.heap.begin + last / kWord * kWord, options_.heap.begin + block->offset});
        }
        SFT_ASSERT(block->offset < offset);  // towards the front
        offset = block->offset;
    }
}

// ---- names ----

void StrayWords::read_symbols() {
    if (!has_symbols_) {
        has_symbols_ = true;
        symbols_ = read_data_symbols("/proc/self/exe");
        const std::uintptr_t bias = load_bias();
        for (ElfSymbol& symbol : symbols_) {
            symbol.address += bias;
            symbol.name = readable(symbol.name);
        }
    }
}

// "field + 8", and where the object begins.
std::string StrayWords::name_at(std::uintptr_t address, std::uintptr_t& object) {
    read_symbols();
    auto found = std::upper_bound(symbols_.begin(), symbols_.end(), address,
                                  [](std::uintptr_t value, const ElfSymbol& symbol) { return value < symbol.address; });
    if (found == symbols_.begin() || address >= (found - 1)->address + (found - 1)->bytes) {
        object = address;
        return format("the global at %p", reinterpret_cast<void*>(address));
    }
    --found;
    object = found->address;
    return address == object ? found->name
                             : format("%s + %zu", found->name.c_str(), static_cast<std::size_t>(address - object));
}

// By the first global that holds its address.
std::string StrayWords::name_of_block(std::uintptr_t begin) {
    std::vector<Part> parts;
    list_globals(parts);
    std::string text = format("the block of the symmetric heap at %p", reinterpret_cast<void*>(begin));
    for (const Part& part : parts) {
        for (std::uintptr_t at = part.begin; at < part.end; at += kWord) {
            if (raw_word(at) == begin) {
                std::uintptr_t ignored = 0;
                return text + ", of " + name_at(at, ignored) + ",";
            }
        }
    }
    return text;
}

// ---- the look ----

void StrayWords::look_at(const Part& part, std::vector<std::string>& lines) {
    for (std::uintptr_t at = part.begin; at < part.end; at += kWord) {
        const std::uintptr_t word = raw_word(at);  // also between globals
        if (word - lowest_ >= highest_ - lowest_) {
            continue;
        }
        const Mapping* target = target_of(word);
        if (target == nullptr || named_.size() >= kNamedMax || (word < kNumbersEnd && is_among_numbers(part, at))) {
            continue;
        }
        std::uintptr_t object = part.object;
        std::string name = object == 0 ? name_at(at, object) : std::string();
        if (!named_.insert(object).second) {
            continue;
        }
        if (part.object != 0) {
            name = name_of_block(object) + format(" + %zu", static_cast<std::size_t>(at - object));
        }
        std::string where;
        switch (target->kind) {
            case Mapping::Kind::allocated: where = "private memory (of malloc, new or a thread's stack)"; break;
            case Mapping::Kind::stack: where = "the stack"; break;
            case Mapping::Kind::library: where = "the shared library " + target->name; break;
            case Mapping::Kind::peer: where = "the memory of another PE (from shmem_ptr)"; break;
        }
        lines.push_back(with_doc_paths(
            format("%s is saved and holds %p, which leads into %s: that is not restored with it, and wrong in a "
                   "substitute. Use symmetric memory, or mark the variable SHMEM_FT_PRIVATE "
                   "(docs/what-may-live-where.md)",
                   name.c_str(), reinterpret_cast<void*>(word), where.c_str())));
    }
}

std::vector<std::string> StrayWords::look() {
    std::vector<std::string> lines;
    if (named_.size() >= kNamedMax) {
        return lines;
    }
    read_mappings();
    std::vector<Part> parts;
    list_globals(parts);
    list_blocks(parts);
    std::size_t skipped = 0;
    std::size_t left = kBytesPerLook;
    bool is_round_over = true;
    for (Part part : parts) {
        const std::size_t bytes = part.begin < part.end ? part.end - part.begin : 0;
        if (skipped + bytes <= position_) {
            skipped += bytes;
            continue;
        }
        SFT_ASSERT(skipped <= position_ && part.begin < part.end);
        part.begin += position_ - skipped;
        if (part.end - part.begin > left) {
            part.end = part.begin + left;
            is_round_over = false;
        }
        look_at(part, lines);
        SFT_ASSERT(part.end - part.begin <= left);
        left -= part.end - part.begin;
        position_ += part.end - part.begin;
        skipped = position_;
        if (!is_round_over) {
            break;
        }
    }
    position_ = is_round_over ? 0 : position_;
    return lines;
}

}  // namespace sft
