#include "base/memory_left.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/report.hpp"
#include "base/text_file.hpp"

namespace sft {
namespace {

constexpr std::uint64_t kUnlimited = std::uint64_t{1} << 60;  // version 1 writes a number for none

std::string text_of(const std::string& path) { return sft::text_of(path.c_str()); }

std::optional<std::uint64_t> number_in(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() ? std::optional(value) : std::nullopt;
}

// Behind the name that begins a line.
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view name) {
    for (std::size_t at = 0; at < text.size(); at = std::min(text.find('\n', at), text.size() - 1) + 1) {
        std::string_view line = text.substr(at);
        if (line.starts_with(name)) {
            line.remove_prefix(name.size());
            if (line.starts_with(' ') || line.starts_with(':')) {
                return number_in(line.substr(1));
            }
        }
    }
    return std::nullopt;
}

// Of the two versions of control groups.
struct GroupNames {
    const char* limit;
    const char* usage;
    const char* inactive_file;
    const char* active_file;
    const char* kills;
};
constexpr GroupNames kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
                               "total_active_file", "memory.oom_control"};
constexpr GroupNames kVersion2{"memory.max", "memory.current", "inactive_file", "active_file", "memory.events"};

struct Group {
    const GroupNames* names = nullptr;
    std::string base;  // the folder of the topmost group that is seen from here
    std::string path;  // from there, with a slash in front
};

// The group that accounts for the memory of this process; no names: none is known.
Group own_group(const MemoryFiles& files) {
    Group found;
    const std::string all = text_of(files.proc + "/self/cgroup");
    for (std::size_t at = 0; at < all.size();) {
        const std::size_t end = std::min(all.find('\n', at), all.size());
        const std::string_view line = std::string_view(all).substr(at, end - at);  // NUMBER:CONTROLLERS:PATH
        at = end + 1;
        const std::size_t first = line.find(':');
        const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
        if (second == std::string_view::npos) {
            continue;
        }
        const std::string controllers = "," + std::string(line.substr(first + 1, second - first - 1)) + ",";
        std::string path(line.substr(second + 1));
        if (controllers.find(",memory,") != std::string::npos) {
            return {&kVersion1, files.groups + "/memory", std::move(path)};
        }
        if (controllers == ",,") {
            found = {&kVersion2, files.groups, std::move(path)};
        }
    }
    return found;
}

// Calls look(folder, path) for the group and those around it, as far as they are seen from here: in a container the
// path may be that outside, and its own group the topmost folder.
template <class Look>
void each_group(const Group& group, Look&& look) {
    std::string path = group.path == "/" ? "" : group.path;
    for (;;) {
        look(group.base + path, path);
        if (path.empty()) {
            return;
        }
        path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
}

std::uint64_t left_in(const GroupNames& names, const std::string& folder, std::uint64_t limit) {
    const std::uint64_t usage = number_in(text_of(folder + "/" + names.usage)).value_or(0);
    const std::string stat = text_of(folder + "/memory.stat");
    const std::uint64_t cached =
        number_after(stat, names.inactive_file).value_or(0) + number_after(stat, names.active_file).value_or(0);
    const std::uint64_t taken = usage - std::min(usage, cached);
    return limit - std::min(limit, taken);
}

}  // namespace

MemoryLeft memory_left(const MemoryFiles& files) {
    constexpr std::uint64_t kKibi = 1024;
    MemoryLeft left;
    const std::string node = text_of(files.proc + "/meminfo");
    if (const auto available = number_after(node, "MemAvailable")) {
        left.bytes = *available * kKibi;
        left.limit = number_after(node, "MemTotal").value_or(0) * kKibi;
    }
    const Group group = own_group(files);
    if (group.names == nullptr) {
        return left;
    }
    each_group(group, [&](const std::string& folder, const std::string& path) {
        const auto limit = number_in(text_of(folder + "/" + group.names->limit));
        if (!limit || *limit >= kUnlimited) {
            return;
        }
        if (const std::uint64_t bytes = left_in(*group.names, folder, *limit); bytes < left.bytes) {
            left = {bytes, *limit, path.empty() ? "/" : path};
        }
    });
    return left;
}

std::uint64_t out_of_memory_kills(const MemoryFiles& files) {
    const Group group = own_group(files);
    std::optional<std::uint64_t> kills;
    if (group.names != nullptr) {
        each_group(group, [&](const std::string& folder, const std::string& /*path*/) {
            if (!kills) {
                kills = number_after(text_of(folder + "/" + group.names->kills), "oom_kill");
            }
        });
    }
    return kills ? *kills : number_after(text_of(files.proc + "/vmstat"), "oom_kill").value_or(0);
}

std::string memory_text(std::uint64_t bytes) {
    constexpr double kMebi = 1024.0 * 1024.0;
    const double mebis = static_cast<double>(bytes) / kMebi;
    return mebis < 1024.0 ? format("%.0f MiB", mebis) : format("%.1f GiB", mebis / 1024.0);
}

}  // namespace sft
