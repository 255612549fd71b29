#include "storage/manifest.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/assert.hpp"
#include "base/process_watch.hpp"
#include "base/report.hpp"
#include "base/toml.hpp"
#include "storage/disk.hpp"

namespace sft {
namespace {

constexpr std::int32_t kPesMost = 1'000'000;

std::string manifest_file(const std::string& folder) { return folder + "/manifest.toml"; }

std::string hex(std::uint64_t number) { return format("%016llx", static_cast<unsigned long long>(number)); }

std::string quoted(const std::string& text) {
    std::ostringstream out;
    out << toml::value<std::string>(text);
    return out.str();
}

// Takes the keys out of a table, and remembers the first that is not as it should be.
class Keys {
public:
    Keys(const std::string& path, const toml::table& table) : path_(path), table_(table) {}

    template <class T>
    T take(const char* key) {
        const toml::node* node = table_.get(key);
        const auto value = node == nullptr ? std::nullopt : node->value<T>();
        if (!value) {
            wrong(node, key, node == nullptr ? "missing" : "of another type than it should be");
        }
        return value.value_or(T());
    }
    std::uint64_t take_hex(const char* key) {
        const auto text = take<std::string>(key);
        std::uint64_t number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
        if (error != std::errc{} || end != text.data() + text.size()) {
            wrong(table_.get(key), key, "not a hexadecimal number");
        }
        return number;
    }
    std::int64_t take_number(const char* key, std::int64_t most) {
        const auto number = take<std::int64_t>(key);
        if (number < 0 || number > most) {
            wrong(table_.get(key), key, "out of range");
        }
        return number;
    }
    void wrong(const toml::node* node, const char* key, const char* what) {
        if (!error_.empty()) {
            return;
        }
        const unsigned line = node == nullptr ? 0 : node->source().begin.line;
        error_ = line == 0 ? format("%s: %s: %s", path_.c_str(), key, what)
                           : format("%s:%u: %s: %s", path_.c_str(), line, key, what);
    }
    [[nodiscard]] const std::string& error() const { return error_; }

private:
    const std::string& path_;
    const toml::table& table_;
    std::string error_;
};

std::string text_of_manifest(const Manifest& manifest) {
    std::tm when{};
    const std::time_t seconds = manifest.stored;
    ::gmtime_r(&seconds, &when);
    char time[32];
    std::strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", &when);
    std::string text =
        "# A version of an OpenSHMEM job; docs/storage.md of shmem-ft says what is in the files beside this one.\n";
    text += format("layout = %lld\nversion = %u\npes = %d\nstored = %lld  # %s\n",
                   static_cast<long long>(Manifest::kLayout), manifest.version.value(), manifest.n_pes,
                   static_cast<long long>(manifest.stored), time);
    text += "program = " + quoted(manifest.program_path) + "\n";
    text += "program_fingerprint = \"" + hex(manifest.program) + "\"\n";
    text += "job = \"" + hex(manifest.job) + "\"\n";
    text += "library = " + quoted(manifest.library) + "\n\n[settings]\n";
    for (const auto& [name, value] : manifest.settings) {
        text += name + " = " + quoted(value) + "\n";
    }
    for (const StoredArray& array : manifest.arrays) {
        text += "\n[arrays." + quoted(array.name) + "]\n";
        text += format("element_bytes = %llu\npieces = [  # PE, its first element, how many, address\n",
                       static_cast<unsigned long long>(array.element_bytes));
        for (const StoredArray::Piece& piece : array.pieces) {
            text +=
                format("  [%d, %llu, %llu, 0x%llx],\n", piece.pe.value(), static_cast<unsigned long long>(piece.first),
                       static_cast<unsigned long long>(piece.count), static_cast<unsigned long long>(piece.address));
        }
        text += "]\n";
    }
    text += "\n[checksums]\n";
    for (std::size_t pe = 0; pe < manifest.image_sums.size(); ++pe) {
        text += format("pe-%05zu = \"", pe) + hex(manifest.image_sums[pe]) + "\"\n";
    }
    return text;
}

// Four numbers.
std::optional<StoredArray::Piece> take_piece(const toml::node& node, std::int32_t n_pes, std::uint64_t element_bytes) {
    constexpr std::size_t kNumbers = 4;
    const toml::array* const numbers = node.as_array();
    if (numbers == nullptr || numbers->size() != kNumbers) {
        return std::nullopt;
    }
    std::uint64_t words[kNumbers] = {};
    for (std::size_t i = 0; i < kNumbers; ++i) {
        const auto number = (*numbers)[i].value<std::int64_t>();
        if (!number || *number < 0) {
            return std::nullopt;
        }
        words[i] = static_cast<std::uint64_t>(*number);
    }
    const auto [pe, first, count, address] = words;
    if (pe >= static_cast<std::uint64_t>(n_pes) || count == 0 || count > INT64_MAX / element_bytes) {
        return std::nullopt;
    }
    return StoredArray::Piece{
        .pe = PeId(static_cast<std::int32_t>(pe)), .address = address, .first = first, .count = count};
}

void take_arrays(const std::string& path, const toml::table& root, Manifest& manifest, Keys& root_keys) {
    const toml::table* const arrays = root["arrays"].as_table();
    if (arrays == nullptr) {
        return;  // nothing was declared
    }
    for (const auto& [name, node] : *arrays) {
        const toml::table* const table = node.as_table();
        StoredArray array;
        array.name = std::string(name.str());
        Keys keys(path, table == nullptr ? root : *table);
        array.element_bytes = static_cast<std::uint64_t>(keys.take_number("element_bytes", INT64_MAX));
        const toml::array* const pieces = table == nullptr ? nullptr : (*table)["pieces"].as_array();
        if (!keys.error().empty() || array.element_bytes == 0 || pieces == nullptr || !is_array_name(array.name)) {
            return root_keys.wrong(&node, array.name.c_str(), "not an array with element_bytes and pieces");
        }
        for (const toml::node& one : *pieces) {
            const auto piece = take_piece(one, manifest.n_pes, array.element_bytes);
            if (!piece) {
                return root_keys.wrong(&one, array.name.c_str(),
                                       "not a PE, its first element, how many, and an address");
            }
            array.pieces.push_back(*piece);
        }
        manifest.arrays.push_back(std::move(array));
    }
}

Result<Manifest> take_manifest(const std::string& path, const toml::table& root) {
    Keys keys(path, root);
    Manifest manifest;
    if (const auto layout = keys.take<std::int64_t>("layout"); keys.error().empty() && layout != Manifest::kLayout) {
        return fails(format("%s: layout %lld: this library reads layout %lld", path.c_str(),
                            static_cast<long long>(layout), static_cast<long long>(Manifest::kLayout)));
    }
    manifest.version = Version(static_cast<std::uint32_t>(keys.take_number("version", UINT32_MAX)));
    manifest.n_pes = static_cast<std::int32_t>(keys.take_number("pes", kPesMost));
    manifest.stored = keys.take_number("stored", INT64_MAX);
    manifest.program_path = keys.take<std::string>("program");
    manifest.program = keys.take_hex("program_fingerprint");
    manifest.job = keys.take_hex("job");
    manifest.library = keys.take<std::string>("library");
    if (const toml::table* settings = root["settings"].as_table()) {
        for (const auto& [name, value] : *settings) {
            if (!value.is_string()) {
                keys.wrong(&value, std::string(name.str()).c_str(), "not a text");
            }
            manifest.settings.emplace_back(name.str(), value.value_or(std::string()));
        }
    }
    take_arrays(path, root, manifest, keys);
    const toml::table* sums = root["checksums"].as_table();
    if (sums == nullptr) {
        keys.wrong(nullptr, "checksums", "missing");
    }
    Keys pes(path, sums == nullptr ? root : *sums);
    for (std::int32_t pe = 0; keys.error().empty() && pes.error().empty() && pe < manifest.n_pes; ++pe) {
        manifest.image_sums.push_back(pes.take_hex(format("pe-%05d", pe).c_str()));
    }
    if (manifest.version == kNoVersion || manifest.n_pes == 0) {
        keys.wrong(nullptr, manifest.n_pes == 0 ? "pes" : "version", "must not be 0");
    }
    if (!keys.error().empty() || !pes.error().empty()) {
        return fails(keys.error().empty() ? pes.error() : keys.error());
    }
    return manifest;
}

}  // namespace

std::uint64_t StoredArray::elements() const noexcept {
    std::uint64_t end = 0;
    for (const Piece& piece : pieces) {
        end = std::max(end, piece.end());
    }
    return end;
}

Result<> add_arrays(Manifest& manifest, PeId pe, std::span<const ArrayPiece> pieces) {
    Result<> done;
    for (const ArrayPiece& piece : pieces) {
        const auto place =
            std::lower_bound(manifest.arrays.begin(), manifest.arrays.end(), piece.text(),
                             [](const StoredArray& array, std::string_view name) { return array.name < name; });
        const bool is_new = place == manifest.arrays.end() || place->name != piece.text();
        StoredArray& array =
            is_new ? *manifest.arrays.insert(place, {std::string(piece.text()), piece.element_bytes, {}}) : *place;
        if (array.element_bytes != piece.element_bytes) {
            done = fails(format("the elements of the array %s have %llu bytes on PE %d, and %llu on others",
                                array.name.c_str(), static_cast<unsigned long long>(piece.element_bytes), pe.value(),
                                static_cast<unsigned long long>(array.element_bytes)));
            continue;
        }
        array.pieces.push_back({pe, piece.address, piece.first, piece.count});
    }
    return done;
}

Result<Manifest> read_manifest(const std::string& folder) {
    const std::string path = manifest_file(folder);
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        const int error = errno;
        return fails(format("%s: %s", path.c_str(),
                            error == ENOENT ? "there is none: the version has not been stored completely"
                                            : describe_error(error).c_str()),
                     error);
    }
    std::ostringstream text;
    text << file.rdbuf();
    try {
        return take_manifest(path, toml::parse(text.str()));
    } catch (const toml::parse_error& error) {
        return fails(format("%s:%u: %s", path.c_str(), static_cast<unsigned>(error.source().begin.line),
                            std::string(error.description()).c_str()));
    } catch (const NotToml& error) {
        return fails(path + ": " + error.what());
    }
}

Result<> write_manifest(const std::string& folder, const Manifest& manifest) {
    SFT_ASSERT(manifest.image_sums.size() == static_cast<std::size_t>(manifest.n_pes));
    const std::string path = manifest_file(folder);
    const std::string text = text_of_manifest(manifest);
    DiskFile file;
    return file.create(unfinished(path)).then([&] { return file.write(text.data(), text.size(), 0); }).then([&] {
        return file.finish_as(path);
    });
}

Result<std::vector<StoredVersion>> stored_versions(const std::string& dir) {
    std::vector<StoredVersion> versions;
    DIR* folder = ::opendir(dir.c_str());
    if (folder == nullptr) {
        const int error = errno;
        if (error == ENOENT) {
            return versions;
        }
        return fails(format("%s: %s", dir.c_str(), describe_error(error).c_str()), error);
    }
    while (const dirent* entry = ::readdir(folder)) {
        const Version version = version_of_folder(entry->d_name);
        if (version != kNoVersion) {
            const std::string path = dir + "/" + entry->d_name;
            versions.push_back({version, path, ::access(manifest_file(path).c_str(), F_OK) == 0});
        }
    }
    ::closedir(folder);
    std::sort(versions.begin(), versions.end(),
              [](const StoredVersion& a, const StoredVersion& b) { return a.version < b.version; });
    return versions;
}

Result<StoredVersion> newest_complete(const std::string& dir) {
    Result<std::vector<StoredVersion>> versions = stored_versions(dir);
    if (!versions) {
        return fails(versions.error());
    }
    const auto newest =
        std::find_if(versions->rbegin(), versions->rend(), [](const StoredVersion& one) { return one.is_complete; });
    return newest == versions->rend() ? StoredVersion() : *newest;
}

std::vector<PeId> missing_states(const std::string& folder, std::int32_t n_pes) {
    std::vector<PeId> missing;
    for (std::int32_t pe = 0; pe < n_pes; ++pe) {
        if (::access(state_file(folder, PeId(pe)).c_str(), F_OK) != 0) {
            missing.emplace_back(pe);
        }
    }
    return missing;
}

bool is_of(const StoredHead& head, const Manifest& manifest, PeId pe) noexcept {
    return head.version == manifest.version.value() && head.pe == pe.index() &&
           head.n_pes == static_cast<std::uint32_t>(manifest.n_pes) && head.program == manifest.program &&
           head.job == manifest.job && head.image_sum == manifest.image_sums[pe.index()];
}

Result<> remove_version(const std::string& folder) {
    int error = ::unlink(manifest_file(folder).c_str()) == 0 || errno == ENOENT ? 0 : errno;
    DIR* entries = error == 0 ? ::opendir(folder.c_str()) : nullptr;
    if (entries != nullptr) {
        while (const dirent* entry = ::readdir(entries)) {
            const std::string_view name = entry->d_name;
            if (name == "." || name == "..") {
                continue;
            }
            if (::unlinkat(::dirfd(entries), entry->d_name, 0) != 0 && errno != ENOENT) {
                error = errno;
            }
        }
        ::closedir(entries);
    }
    if (error == 0 && ::rmdir(folder.c_str()) != 0 && errno != ENOENT) {
        error = errno;
    }
    return error == 0
               ? Result<>()
               : Result<>(
                     fails(format("%s: cannot be removed: %s", folder.c_str(), describe_error(error).c_str()), error));
}

}  // namespace sft
