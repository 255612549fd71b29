#include "transport/net/signed_ways.hpp"

#include <elf.h>
#include <link.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "base/assert.hpp"
#include "base/mutex.hpp"
#include "base/private_data.hpp"

namespace sft {
namespace {

// ---- keys of sockets ----

// For packets to and from `who`; `bits` of its address count.
bool give_key(int fd, const sockaddr_storage& who, std::uint8_t bits, std::uint64_t key) noexcept {
    tcp_md5sig option{};
    static_assert(sizeof option.tcpm_addr == sizeof who);
    std::memcpy(&option.tcpm_addr, &who, sizeof who);
    option.tcpm_flags = TCP_MD5SIG_FLAG_PREFIX;
    option.tcpm_prefixlen = bits;
    SFT_ASSERT(bits <= 8 * sizeof(in6_addr));
    char text[2 * sizeof key + 1];
    static_assert(sizeof text - 1 <= TCP_MD5SIG_MAXKEYLEN);
    const int length = std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(key));
    option.tcpm_keylen = static_cast<std::uint16_t>(length);
    std::memcpy(option.tcpm_key, text, static_cast<std::size_t>(length));
    return ::setsockopt(fd, IPPROTO_TCP, TCP_MD5SIG_EXT, &option, sizeof option) == 0;
}

// ---- the listeners that are known ----

using Way = std::pair<HostAddress, std::uint16_t>;

struct Ways {
    Mutex mutex{MutexRank::ways};
    std::set<Way> known SFT_GUARDED_BY(mutex);
    std::uint64_t key SFT_GUARDED_BY(mutex) = 0;
};

SFT_LIBRARY_STATE std::atomic<Ways*> all_ways{nullptr};

// For ever: a library may connect while the process ends.
Ways& ways() {
    Ways* all = all_ways.load(std::memory_order_acquire);
    if (all == nullptr) {
        auto* const made = new Ways;
        if (all_ways.compare_exchange_strong(all, made, std::memory_order_acq_rel)) {
            all = made;
        } else {
            delete made;
        }
    }
    return *all;
}

Way way_of(const sockaddr* to, socklen_t bytes) {
    const auto* raw = reinterpret_cast<const std::byte*>(to);
    if (to->sa_family == AF_INET && bytes >= sizeof(sockaddr_in)) {
        const auto* address = raw + offsetof(sockaddr_in, sin_addr);
        return {HostAddress(address, address + sizeof(in_addr)),
                ntohs(reinterpret_cast<const sockaddr_in*>(to)->sin_port)};
    }
    if (to->sa_family == AF_INET6 && bytes >= sizeof(sockaddr_in6)) {
        const auto* address = raw + offsetof(sockaddr_in6, sin6_addr);
        return {HostAddress(address, address + sizeof(in6_addr)),
                ntohs(reinterpret_cast<const sockaddr_in6*>(to)->sin6_port)};
    }
    return {};
}

// What the libraries call instead of connect().
int connect_signed(int fd, const sockaddr* to, socklen_t bytes) {
    if (to != nullptr && (to->sa_family == AF_INET || to->sa_family == AF_INET6)) {
        const Way way = way_of(to, bytes);
        std::uint64_t key = 0;
        bool is_known = false;
        {
            Ways& all = ways();
            const Locked lock(all.mutex);
            is_known = all.known.contains(way);
            key = all.key;
        }
        sockaddr_storage who{};
        std::memcpy(&who, to, std::min<std::size_t>(bytes, sizeof who));
        // If it cannot be signed nobody answers it, which is an attempt like others that fail.
        if (is_known) {
            static_cast<void>(give_key(fd, who, static_cast<std::uint8_t>(way.first.size() * 8), key));
        }
    }
    return ::connect(fd, to, bytes);
}

// ---- the table of imported functions ----

struct Imports {
    const char* strings = nullptr;
    const ElfW(Sym) * symbols = nullptr;
    const ElfW(Rela) * of_calls = nullptr;
    std::size_t calls_bytes = 0;
    const ElfW(Rela) * others = nullptr;
    std::size_t others_bytes = 0;
};

Imports imports_of(const dl_phdr_info& library) {
    Imports imports;
    for (int i = 0; i < library.dlpi_phnum; ++i) {
        if (library.dlpi_phdr[i].p_type != PT_DYNAMIC) {
            continue;
        }
        const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(library.dlpi_addr + library.dlpi_phdr[i].p_vaddr);
        for (; entry->d_tag != DT_NULL; ++entry) {
            const ElfW(Addr) value = entry->d_un.d_ptr;  // the loader has added where the library lies
            switch (entry->d_tag) {
                case DT_STRTAB: imports.strings = reinterpret_cast<const char*>(value); break;
                case DT_SYMTAB: imports.symbols = reinterpret_cast<const ElfW(Sym)*>(value); break;
                case DT_JMPREL: imports.of_calls = reinterpret_cast<const ElfW(Rela)*>(value); break;
                case DT_PLTRELSZ: imports.calls_bytes = value; break;
                case DT_RELA: imports.others = reinterpret_cast<const ElfW(Rela)*>(value); break;
                case DT_RELASZ: imports.others_bytes = value; break;
                default: break;
            }
        }
    }
    return imports;
}

// What the loader has made read-only, it may only read again afterwards.
bool is_sealed(const dl_phdr_info& library, ElfW(Addr) place) {
    for (int i = 0; i < library.dlpi_phnum; ++i) {
        const ElfW(Phdr)& part = library.dlpi_phdr[i];
        const ElfW(Addr) begin = library.dlpi_addr + part.p_vaddr;
        if (part.p_type == PT_GNU_RELRO && place >= begin && place < begin + part.p_memsz) {
            return true;
        }
    }
    return false;
}

bool replace(const dl_phdr_info& library, ElfW(Addr) place) {
    const auto page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    auto* const page = reinterpret_cast<void*>(place & ~(page_bytes - 1));
    const bool was_sealed = is_sealed(library, place);
    if (was_sealed && ::mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) {
        return false;
    }
    const auto value = reinterpret_cast<std::uintptr_t>(&connect_signed);
    __atomic_store_n(reinterpret_cast<std::uintptr_t*>(place), value, __ATOMIC_RELEASE);
    return !was_sealed || ::mprotect(page, page_bytes, PROT_READ) == 0;
}

bool replace_in(const dl_phdr_info& library) {
    const Imports imports = imports_of(library);
    if (imports.strings == nullptr || imports.symbols == nullptr) {
        return false;
    }
    bool is_any = false;
    const auto look = [&](const ElfW(Rela) * table, std::size_t bytes) {
        for (std::size_t i = 0; table != nullptr && i < bytes / sizeof *table; ++i) {
            const auto kind = ELF64_R_TYPE(table[i].r_info);
            if (kind != R_X86_64_JUMP_SLOT && kind != R_X86_64_GLOB_DAT) {
                continue;
            }
            const ElfW(Sym)& symbol = imports.symbols[ELF64_R_SYM(table[i].r_info)];
            if (std::string_view(imports.strings + symbol.st_name) == "connect") {
                is_any = replace(library, library.dlpi_addr + table[i].r_offset) || is_any;
            }
        }
    };
    look(imports.of_calls, imports.calls_bytes);
    look(imports.others, imports.others_bytes);
    return is_any;
}

struct Search {
    std::span<const char* const> libraries;
    bool is_any = false;
};

int look_at_library(dl_phdr_info* library, std::size_t /*bytes*/, void* search_pointer) {
    auto& search = *static_cast<Search*>(search_pointer);
    const std::string_view path = library->dlpi_name == nullptr ? "" : library->dlpi_name;
    const std::string_view file = path.substr(path.rfind('/') + 1);
    if (std::any_of(search.libraries.begin(), search.libraries.end(),
                    [&](const char* beginning) { return file.starts_with(beginning); })) {
        search.is_any = replace_in(*library) || search.is_any;
    }
    return 0;
}

}  // namespace

bool sign_listener(int fd, std::uint64_t key) noexcept {
    sockaddr_storage own{};
    socklen_t bytes = sizeof own;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &bytes) != 0) {
        return false;
    }
    sockaddr_storage anybody{};
    anybody.ss_family = own.ss_family;
    return give_key(fd, anybody, 0, key);
}

bool can_sign() noexcept {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool is_good = fd >= 0 && sign_listener(fd, 1);
    if (fd >= 0) {
        ::close(fd);
    }
    return is_good;
}

bool sign_connections_of(std::span<const char* const> libraries, std::uint64_t key) noexcept {
    {
        Ways& all = ways();
        const Locked lock(all.mutex);
        all.key = key;
    }
    Search search{.libraries = libraries};
    ::dl_iterate_phdr(&look_at_library, &search);
    return search.is_any;
}

void sign_ways_to(const std::vector<HostAddress>& hosts, const std::vector<std::uint16_t>& ports) {
    Ways& all = ways();
    const Locked lock(all.mutex);
    for (const HostAddress& host : hosts) {
        for (const std::uint16_t port : ports) {
            all.known.emplace(host, port);
        }
    }
}

}  // namespace sft
