// An ELF file that is open for reading.
#pragma once

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <unistd.h>

#include <string>

namespace sft {

// An open ELF file; closes what it opened.
class ElfFile {
public:
    explicit ElfFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
        if (fd_ >= 0 && elf_version(EV_CURRENT) != EV_NONE) {
            elf_ = elf_begin(fd_, ELF_C_READ_MMAP, nullptr);
        }
    }
    ~ElfFile() {
        if (elf_ != nullptr) {
            elf_end(elf_);
        }
        if (fd_ >= 0) {
            ::close(fd_);
        }
    }
    ElfFile(const ElfFile&) = delete;
    ElfFile& operator=(const ElfFile&) = delete;

    [[nodiscard]] bool is_open() const { return fd_ >= 0; }
    [[nodiscard]] bool is_executable() const { return elf_ != nullptr && elf_kind(elf_) == ELF_K_ELF; }
    [[nodiscard]] Elf* get() const { return elf_; }

    [[nodiscard]] std::string section_name(const GElf_Shdr& header) const {
        std::size_t names = 0;
        if (elf_getshdrstrndx(elf_, &names) != 0) {
            return {};
        }
        const char* name = elf_strptr(elf_, names, header.sh_name);
        return name == nullptr ? std::string() : std::string(name);
    }

    // Calls visit(section, header) for each section.
    template <class Visit>
    void each_section(Visit&& visit) const {
        for (Elf_Scn* section = elf_nextscn(elf_, nullptr); section != nullptr; section = elf_nextscn(elf_, section)) {
            GElf_Shdr header;
            if (gelf_getshdr(section, &header) != nullptr) {
                visit(section, header);
            }
        }
    }

private:
    int fd_;
    Elf* elf_ = nullptr;
};

}  // namespace sft
