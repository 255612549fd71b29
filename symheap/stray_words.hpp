// Saved words that lead where nothing is saved: into the heap of malloc, onto a stack, into a shared library, or into
// what shmem_ptr has shown of another PE. In a survivor they are stale after a rollback, in a substitute they lead
// nowhere. Asked for by SHMEM_FT_CHECK, at each commit.
//
// A word is taken for an address by its value alone, so a number may be taken for one. Where that is likely, with the
// heap of a program at fixed addresses, which begins at a few millions, only the beginning of an allocated block
// counts, and not among other numbers.
//
// Cost: a look reads the list of mappings and kBytesPerLook of what is saved, and goes on there the next time. Each
// variable, and each block of the symmetric heap, is named once, and kNamedMax in all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/address_range.hpp"
#include "symheap/block_table.hpp"
#include "symheap/elf_image.hpp"
#include "symheap/globals.hpp"

namespace sft {

class StrayWords {
public:
    static constexpr std::size_t kBytesPerLook = std::size_t{16} << 20;
    static constexpr std::size_t kNamedMax = 20;

    struct Options {
        AddressRange heap;
        int heap_fd = -1;                    // tells which of its pages exist
        std::size_t heap_file_offset = 0;    // where the heap begins in there
        const BlockTable* blocks = nullptr;  // of the heap; not looked into while it is not complete
        AddressRange globals;
        int globals_fd = -1;  // their memory file, as of the heap
        std::size_t globals_file_offset = 0;
        std::vector<Globals::Extent> saved;  // of the globals
    };

    explicit StrayWords(Options options) : options_(std::move(options)) {}
    // The heap begins elsewhere in its file now.
    void move_heap_to(std::size_t file_offset) noexcept { options_.heap_file_offset = file_offset; }

    // Lines for the user, about what has not been named yet. Nothing else of the process may store to symmetric memory,
    // as at a checkpoint.
    [[nodiscard]] std::vector<std::string> look();

private:
    struct Mapping {
        std::uintptr_t begin;
        std::uintptr_t end;
        enum class Kind { allocated, stack, library, peer } kind;
        std::string name;
    };
    struct Part {
        std::uintptr_t begin;
        std::uintptr_t end;
        std::uintptr_t object;  // begin of the block that it belongs to; 0: globals
    };

    void read_mappings();
    void list_globals(std::vector<Part>& parts) const;
    void list_blocks(std::vector<Part>& parts) const;
    void list_blocks_between(std::uint64_t from, std::uint64_t to, std::vector<Part>& parts) const;
    void look_at(const Part& part, std::vector<std::string>& lines);
    [[nodiscard]] const Mapping* target_of(std::uintptr_t word) const;
    [[nodiscard]] bool is_among_numbers(const Part& part, std::uintptr_t at) const;
    [[nodiscard]] std::string name_at(std::uintptr_t address, std::uintptr_t& object);
    [[nodiscard]] std::string name_of_block(std::uintptr_t begin);
    void read_symbols();

    Options options_;
    std::vector<Mapping> mappings_;  // those that count, ascending
    std::uintptr_t lowest_ = 0;
    std::uintptr_t highest_ = 0;
    std::size_t position_ = 0;        // bytes of what is saved that this round has seen
    std::set<std::uintptr_t> named_;  // begin of variables and blocks
    std::vector<ElfSymbol> symbols_;  // read when they are needed
    bool has_symbols_ = false;
};

}  // namespace sft
