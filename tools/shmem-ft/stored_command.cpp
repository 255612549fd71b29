// shmem-ft list, show, verify, remove, extract: versions of a job that are stored in files (docs/storage.md).

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.hpp"
#include "storage/array_loader.hpp"
#include "storage/manifest.hpp"
#include "storage/stored_state.hpp"
#include "symheap/elf_image.hpp"
#include "tools/common/text.hpp"
#include "tools/shmem-ft/commands.hpp"
#include "tools/shmem-ft/refusal.hpp"

namespace sft::tools {
namespace {

int failed(const std::string& line) {
    print_line("shmem-ft: error: " + line);
    return kExitFailed;
}

std::string text_of_time(std::int64_t seconds) {
    std::tm when{};
    const std::time_t time = seconds;
    localtime_r(&time, &when);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &when);
    return text;
}

// Bytes of the disk: holes cost nothing.
std::uintmax_t bytes_on_disk(const std::string& folder) {
    std::uintmax_t bytes = 0;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
        struct stat info {};
        if (stat(entry.path().c_str(), &info) == 0) {
            bytes += static_cast<std::uintmax_t>(info.st_blocks) * 512;
        }
    }
    return bytes;
}

bool is_version(const std::string& path) {
    return version_of_folder(std::filesystem::path(path).filename().string()) != kNoVersion;
}

// The version whose folder that is, or all in the folder.
Result<std::vector<StoredVersion>> versions_at(const std::string& path) {
    if (!std::filesystem::is_directory(path)) {
        return fails(path + ": no folder of that name");
    }
    if (is_version(path)) {
        const Version version = version_of_folder(std::filesystem::path(path).filename().string());
        return std::vector<StoredVersion>{{version, path, std::filesystem::exists(path + "/manifest.toml")}};
    }
    Result<std::vector<StoredVersion>> all = stored_versions(path);
    if (all && all->empty()) {
        return fails(path + ": no version is stored in there");
    }
    return all;
}

int list(const std::vector<StoredVersion>& versions) {
    fmt::print("{:>10} {:>6} {:>12}  {:<19}  {}\n", "VERSION", "PES", "BYTES", "STORED", "PROGRAM");
    for (const StoredVersion& one : versions) {
        const Result<Manifest> manifest = one.is_complete ? read_manifest(one.folder) : Result<Manifest>(Manifest());
        if (!manifest || !one.is_complete) {
            fmt::print("{:>10} {:>6} {:>12}  {}\n", one.version.value(), "", bytes_on_disk(one.folder),
                       manifest ? "not complete" : "damaged: " + manifest.error().line);
            continue;
        }
        fmt::print("{:>10} {:>6} {:>12}  {:<19}  {}\n", one.version.value(), manifest->n_pes, bytes_on_disk(one.folder),
                   text_of_time(manifest->stored), manifest->program_path);
    }
    return EXIT_SUCCESS;
}

int verify(const std::vector<StoredVersion>& versions) {
    int status = EXIT_SUCCESS;
    for (const StoredVersion& one : versions) {
        const Result<Manifest> manifest = read_manifest(one.folder);
        const Result<> sound =
            manifest ? verify_version(one.folder, *manifest, true) : Result<>(fails(manifest.error()));
        if (sound) {
            fmt::print("{}: all of {} PEs fit their checksums\n", one.folder, manifest->n_pes);
        } else {
            status = failed(sound.error().line);
        }
    }
    return status;
}

int remove(const std::vector<StoredVersion>& versions) {
    for (const StoredVersion& one : versions) {
        if (const Result<> gone = remove_version(one.folder); !gone) {
            return failed(gone.error().line);
        }
        fmt::print("{}: removed\n", one.folder);
    }
    return EXIT_SUCCESS;
}

void print_part(const char* name, const StoredPart& part) {
    fmt::print("  {:<8} {:>12} bytes at {:#014x} in memory, {:>12} in the file\n", name, part.bytes, part.address,
               part.offset);
}

const char* compression_of(const StoredHead& head) {
    switch (static_cast<StoreCompression::Kind>(head.compression)) {
        case StoreCompression::Kind::none: return "";
        case StoreCompression::Kind::lz4: return ", compressed with LZ4";
        case StoreCompression::Kind::zstd: return ", compressed with Zstandard";
    }
    return ", compressed in a way that is not known here";
}

int show(const std::string& folder) {
    const Result<Manifest> manifest = read_manifest(folder);
    if (!manifest) {
        return failed(manifest.error().line);
    }
    const Result<StoredHead> head = read_head(state_file(folder, PeId(0)));
    if (!head) {
        return failed(head.error().line);
    }
    fmt::print("version {} of {} PEs, stored {} by version {} of the library\n", manifest->version.value(),
               manifest->n_pes, text_of_time(manifest->stored), manifest->library);
    fmt::print("program {} (fingerprint {:016x})\n", manifest->program_path, manifest->program);
    for (const auto& [name, value] : manifest->settings) {
        fmt::print("{}={}\n", name, value);
    }
    fmt::print("each file pe-N.state, {} bytes of addresses{}:\n", head->bytes, compression_of(*head));
    print_part("heap", head->heap);
    print_part("globals", head->globals);
    print_part("library", head->library);
    for (const StoredArray& array : manifest->arrays) {
        fmt::print("array {} {:>12} elements of {} bytes, in {} pieces\n", array.name, array.elements(),
                   array.element_bytes, array.pieces.size());
    }
    return EXIT_SUCCESS;
}

// ---- extract ----

struct Piece {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
};

std::optional<std::uint64_t> number_of(std::string_view text) {
    const int base = text.starts_with("0x") ? 16 : 10;
    text.remove_prefix(base == 16 ? 2 : 0);
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
    return !text.empty() && error == std::errc{} && end == text.data() + text.size() ? std::optional(number)
                                                                                     : std::nullopt;
}

// The program's file tells names; where it was loaded follows from where its globals were.
Result<Piece> find_global(const std::string& program, std::uint64_t globals, const std::string& name) {
    ElfImage image;
    if (const Result<> read = read_elf_image(program, image); !read) {
        return fails(program + ": " + read.error().line);
    }
    for (const ElfSymbol& symbol : read_data_symbols(program)) {
        if (symbol.name == name && symbol.bytes != 0) {
            return Piece{symbol.address - image.begin + globals, symbol.bytes};
        }
    }
    return fails(fmt::format("{}: no global {} (shmem-ft globals --all {} lists them)", program, name, program));
}

// "ADDRESS:BYTES"
Result<Piece> parse_range(const std::string& text) {
    const std::size_t colon = text.find(':');
    const auto address = number_of(std::string_view(text).substr(0, colon));
    const auto bytes = colon == std::string::npos ? std::nullopt : number_of(std::string_view(text).substr(colon + 1));
    if (!address || !bytes || *bytes == 0) {
        return fails(fmt::format("--range {}: not ADDRESS:BYTES, as 0x200000405000:8000", text));
    }
    return Piece{*address, *bytes};
}

const StoredPart* part_with(const StoredHead& head, const Piece& piece) {
    for (const StoredPart* part : {&head.heap, &head.globals}) {
        if (piece.address >= part->address && piece.bytes <= part->bytes &&
            piece.address - part->address <= part->bytes - piece.bytes) {
            return part;
        }
    }
    return nullptr;
}

// Header of a file of NumPy, version 1.0: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
std::string npy_header(const std::string& type, std::uint64_t count) {
    constexpr std::size_t kAlignment = 64;
    constexpr std::size_t kFixedBytes = 10;
    std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({},), }}", type, count);
    text.append(kAlignment - (kFixedBytes + text.size() + 1) % kAlignment, ' ');
    text += '\n';
    std::string header("\x93NUMPY\x01\x00", 8);
    header += static_cast<char>(text.size() & 0xff);
    header += static_cast<char>(text.size() >> 8);
    return header + text;
}

Result<std::string> header_for(const StoredCommand& command, std::uint64_t bytes) {
    if (command.type.empty()) {
        return std::string();
    }
    const auto item = number_of(std::string_view(command.type).substr(std::min<std::size_t>(command.type.size(), 2)));
    constexpr std::string_view kKinds = "iufcb";
    if (command.type[0] != '<' || command.type.size() < 3 || kKinds.find(command.type[1]) == std::string_view::npos ||
        !item || *item == 0) {
        return fails(fmt::format("--type {}: not a type of NumPy as <f8, <i4, <u8, <c16", command.type));
    }
    if (bytes % *item != 0) {
        return fails(fmt::format("--type {}: {} bytes are no whole number of these", command.type, bytes));
    }
    return npy_header(command.type, bytes / *item);
}

int extract_array(const StoredCommand& command, const std::string& folder) {
    constexpr std::uint64_t kAtOnce = std::uint64_t{16} << 20;
    ArrayLoader loader;
    if (const Result<> opened = loader.open(folder); !opened) {
        return failed(opened.error().line);
    }
    const StoredArray* const array = loader.find(command.array);
    if (array == nullptr) {
        return refuse(fmt::format("--array {}: no array of that name was declared (shmem-ft show)", command.array));
    }
    // All of it, or the pieces of one PE, in the order of their elements.
    const bool is_whole = command.pe < 0;
    std::vector<StoredArray::Piece> wanted;
    if (is_whole) {
        wanted.push_back({.first = 0, .count = array->elements()});
    } else {
        std::copy_if(array->pieces.begin(), array->pieces.end(), std::back_inserter(wanted),
                     [&](const StoredArray::Piece& piece) { return piece.pe == PeId(command.pe); });
    }
    std::uint64_t count = 0;
    for (const StoredArray::Piece& piece : wanted) {
        count += piece.count;
    }
    if (count == 0) {
        return refuse(fmt::format("--pe {}: has nothing of the array {}", command.pe, command.array));
    }
    const Result<std::string> header = header_for(command, count * array->element_bytes);
    if (!header) {
        return refuse(header.error().line);
    }
    std::ofstream file(command.output, std::ios::binary | std::ios::trunc);
    file << *header;
    const std::uint64_t most = std::max<std::uint64_t>(1, kAtOnce / array->element_bytes);
    std::vector<std::byte> some;
    for (const StoredArray::Piece& piece : wanted) {
        for (std::uint64_t next = piece.first; next < piece.end() && file; next += most) {
            const std::uint64_t n = std::min(most, piece.end() - next);
            some.resize(n * array->element_bytes);
            const Result<> read = is_whole ? loader.load(array->name, array->element_bytes, next, n, some.data())
                                           : loader.load_from(*array, piece, next, n, some.data());
            if (!read) {
                return failed(read.error().line);
            }
            file.write(reinterpret_cast<const char*>(some.data()), static_cast<std::streamsize>(some.size()));
        }
    }
    file.close();
    return file ? EXIT_SUCCESS : failed(command.output + ": cannot be written");
}

int extract(const StoredCommand& command, const std::string& folder) {
    const int n_whats =
        (command.global.empty() ? 0 : 1) + (command.range.empty() ? 0 : 1) + (command.array.empty() ? 0 : 1);
    if (n_whats != 1 || command.output.empty()) {
        return refuse("extract: wants --global NAME, --range ADDRESS:BYTES or --array NAME, and --output FILE");
    }
    const Result<Manifest> manifest = read_manifest(folder);
    if (!manifest) {
        return failed(manifest.error().line);
    }
    if (command.pe >= manifest->n_pes) {
        return refuse(fmt::format("--pe {}: the version has {} PEs", command.pe, manifest->n_pes));
    }
    if (!command.array.empty()) {
        return extract_array(command, folder);
    }
    StoredState state;
    if (const Result<> read =
            state.open(state_file(folder, PeId(std::max(command.pe, 0)))).then([&] { return state.verify(); });
        !read) {
        return failed(read.error().line);
    }
    const std::string& program = command.program.empty() ? manifest->program_path : command.program;
    const Result<Piece> piece = command.global.empty()
                                    ? parse_range(command.range)
                                    : find_global(program, state.head().globals.address, command.global);
    if (!piece) {
        return refuse(piece.error().line);
    }
    const StoredPart* part = part_with(state.head(), *piece);
    if (part == nullptr) {
        return refuse(fmt::format("{:#x}:{}: neither in the heap nor among the globals (shmem-ft show)", piece->address,
                                  piece->bytes));
    }
    const Result<std::string> header = header_for(command, piece->bytes);
    if (!header) {
        return refuse(header.error().line);
    }
    std::ofstream file(command.output, std::ios::binary | std::ios::trunc);
    file << *header;
    file.write(reinterpret_cast<const char*>(state.data(*part) + (piece->address - part->address)),
               static_cast<std::streamsize>(piece->bytes));
    file.close();
    return file ? EXIT_SUCCESS : failed(command.output + ": cannot be written");
}

}  // namespace

int run_stored(std::string_view word, const StoredCommand& command) {
    if (command.path.empty()) {
        return refuse(fmt::format("{}: no folder given: shmem-ft {} DIR", word, word));
    }
    const std::string path = without_last_slash(command.path);
    if ((word == "show" || word == "extract") && !is_version(path)) {
        return refuse(fmt::format("{}: {}: not the folder of one version (version-00000012, say)", word, path));
    }
    if (word == "show") {
        return show(path);
    }
    if (word == "extract") {
        return extract(command, path);
    }
    const Result<std::vector<StoredVersion>> versions = versions_at(path);
    if (!versions) {
        return failed(versions.error().line);
    }
    if (word == "verify") {
        return verify(*versions);
    }
    return word == "remove" ? remove(*versions) : list(*versions);
}

}  // namespace sft::tools
