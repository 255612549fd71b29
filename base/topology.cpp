#include "base/topology.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/checksum.hpp"
#include "base/report.hpp"
#include "base/text_file.hpp"
#include "base/toml.hpp"

namespace sft {
namespace {

constexpr std::size_t kHostsMax = 1'000'000;  // more are a slip of the pen
constexpr std::size_t kDigitsMax = 9;
constexpr const char* kSurvive = "survive";
constexpr const char* kHostLevel = "host";  // every single one: no level of a file has that name
constexpr std::int64_t kSurviveMax = 8;     // no scheme keeps more copies

struct Range {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
    std::size_t digits = 0;  // with leading zeros
};

std::optional<std::uint32_t> number_of(std::string_view digits) {
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    const bool is_one =
        !digits.empty() && digits.size() <= kDigitsMax && error == std::errc{} && end == digits.data() + digits.size();
    return is_one ? std::optional(number) : std::nullopt;
}

// "3", "001-016"
std::optional<Range> range_of(std::string_view text) {
    const std::size_t dash = text.find('-');
    const std::string_view first = text.substr(0, dash);
    const std::string_view last = dash == std::string_view::npos ? first : text.substr(dash + 1);
    const auto from = number_of(first);
    const auto to = number_of(last);
    if (!from || !to || *from > *to) {
        return std::nullopt;
    }
    return Range{*from, *to, first.size() > 1 && first.front() == '0' ? first.size() : 0};
}

std::string padded(std::uint32_t number, std::size_t digits) {
    std::string text = std::to_string(number);
    return text.size() >= digits ? text : std::string(digits - text.size(), '0') + text;
}

// What the text between two brackets stands for.
Result<std::vector<std::string>> expand_brackets(std::string_view inner) {
    std::vector<std::string> all;
    while (true) {
        const std::size_t comma = inner.find(',');
        const auto range = range_of(inner.substr(0, comma));
        if (!range) {
            return fails("between brackets stand numbers and ranges from low to high, such as 001-016,20");
        }
        if (range->last - range->first >= kHostsMax - all.size()) {
            return fails(format("more than %zu hosts", kHostsMax));
        }
        for (std::uint32_t number = range->first; number <= range->last; ++number) {
            all.push_back(padded(number, range->digits));
        }
        if (comma == std::string_view::npos) {
            return all;
        }
        inner.remove_prefix(comma + 1);
    }
}

// Reads one file. What is found wrong first is what the user is told.
class Reader {
public:
    explicit Reader(const std::string& path) : path_(path) {}

    [[nodiscard]] Result<> read(const toml::table& root, std::vector<Topology::Level>& levels, std::size_t& apart) {
        for (const auto& [key, value] : by_line(root)) {
            if (key == "apart" || (key == kSurvive && value->is_table())) {
                continue;
            }
            if (key == kHostLevel) {
                return wrong(*value, key, "not the name of a level: each host is one of its own");
            }
            const toml::array* domains = value->as_array();
            if (domains == nullptr || !domains->is_array_of_tables()) {
                return wrong(*value, key, format("no such key: domains of a level are written as [[%s]]", key.c_str()));
            }
            levels.push_back({.name = key, .domains = {}, .domain_of = {}});
            for (const toml::node& domain : *domains) {
                if (Result<> done = read_domain(*domain.as_table(), levels.back()); !done) {
                    return done;
                }
            }
        }
        if (levels.empty()) {
            return fails(path_ + ": no level in it: write the domains of one as [[rack]], each with a name and hosts");
        }
        return find_apart(root, levels, apart);
    }

    // Once the levels are known.
    [[nodiscard]] Result<> read_demands(const toml::table& root, const std::vector<Topology::Level>& levels,
                                        std::vector<Topology::Demand>& demands) const {
        const toml::table* const survive = root[kSurvive].as_table();
        if (survive == nullptr) {
            return {};
        }
        for (const auto& item : by_line(*survive)) {
            const std::string& key = item.first;
            const toml::node* const value = item.second;
            const auto level =
                std::find_if(levels.begin(), levels.end(), [&](const Topology::Level& it) { return it.name == key; });
            if (level == levels.end() && key != kHostLevel) {
                return wrong(*value, key,
                             format("neither %s nor one of the levels in this file: %s", kHostLevel,
                                    names_of(levels).c_str()));
            }
            const std::int64_t n_max =
                level == levels.end() ? kSurviveMax : static_cast<std::int64_t>(level->domains.size()) - 1;
            const std::int64_t n = value->is_integer() ? value->value_or(std::int64_t{0}) : 0;
            if (n < 1 || n > n_max) {
                return wrong(*value, key,
                             n_max < 1 ? format("there is one %s only, whose loss nothing survives", key.c_str())
                                       : format("how many that are lost at one moment have to be survived is a number "
                                                "from 1 to %lld",
                                                static_cast<long long>(n_max)));
            }
            demands.push_back({.what = key,
                               .n = static_cast<std::int32_t>(n),
                               .line = static_cast<std::uint32_t>(value->source().begin.line)});
        }
        return {};
    }

private:
    // toml++ sorts keys by name.
    [[nodiscard]] static std::vector<std::pair<std::string, const toml::node*>> by_line(const toml::table& table) {
        std::vector<std::pair<std::string, const toml::node*>> items;
        for (const auto& [key, value] : table) {
            items.emplace_back(std::string(key.str()), &value);
        }
        std::sort(items.begin(), items.end(), [](const auto& a, const auto& b) {
            return a.second->source().begin.line < b.second->source().begin.line;
        });
        return items;
    }

    [[nodiscard]] Result<> wrong(const toml::node& where, const std::string& key, const std::string& what) const {
        return fails(format("%s:%u: %s: %s", path_.c_str(), static_cast<unsigned>(where.source().begin.line),
                            key.c_str(), what.c_str()));
    }

    [[nodiscard]] static std::string names_of(const std::vector<Topology::Level>& levels) {
        std::string names;
        for (const Topology::Level& level : levels) {
            names += (names.empty() ? "" : ", ") + level.name;
        }
        return names;
    }

    [[nodiscard]] Result<> find_apart(const toml::table& root, const std::vector<Topology::Level>& levels,
                                      std::size_t& apart) const {
        const std::string names = names_of(levels);
        const toml::node* wanted = root.get("apart");
        if (wanted == nullptr) {
            apart = 0;
            return levels.size() == 1
                       ? Result<>()
                       : Result<>(fails(path_ +
                                        ": apart: missing: it names the level of which no domain may have two "
                                        "copies of a PE (one of " +
                                        names + ")"));
        }
        const std::string name = wanted->value_or(std::string());
        const auto found = std::find_if(levels.begin(), levels.end(),
                                        [&](const Topology::Level& level) { return level.name == name; });
        if (found == levels.end()) {
            return wrong(*wanted, "apart", "not one of the levels in this file: " + names);
        }
        apart = static_cast<std::size_t>(found - levels.begin());
        SFT_ASSERT(apart < levels.size());
        return {};
    }

    [[nodiscard]] Result<> read_domain(const toml::table& domain, Topology::Level& level) const {
        for (const auto& [key, value] : by_line(domain)) {
            if (key != "name" && key != "hosts") {
                return wrong(*value, key, "no such key: a domain has a name and hosts");
            }
        }
        const toml::node* name = domain.get("name");
        const std::string text = name == nullptr ? std::string() : name->value_or(std::string());
        if (text.empty()) {
            return wrong(name == nullptr ? static_cast<const toml::node&>(domain) : *name, level.name,
                         "a domain needs a name, such as name = \"r1\"");
        }
        if (std::find(level.domains.begin(), level.domains.end(), text) != level.domains.end()) {
            return wrong(*name, "name", "there is a " + level.name + " " + text + " already");
        }
        level.domains.push_back(text);
        const toml::node* hosts = domain.get("hosts");
        const toml::array* patterns = hosts == nullptr ? nullptr : hosts->as_array();
        if (patterns == nullptr || patterns->empty()) {
            return wrong(hosts == nullptr ? static_cast<const toml::node&>(domain) : *hosts, level.name + " " + text,
                         "hosts are missing: a list such as hosts = [\"node[001-016]\"]");
        }
        for (const toml::node& pattern : *patterns) {
            if (Result<> done = read_hosts(pattern, text, level); !done) {
                return done;
            }
        }
        return {};
    }

    [[nodiscard]] Result<> read_hosts(const toml::node& pattern, const std::string& domain,
                                      Topology::Level& level) const {
        const auto text = pattern.value<std::string>();
        const Result<std::vector<std::string>> hosts =
            text ? expand_hosts(*text) : fails("a name of a host in quotes is expected");
        if (!hosts) {
            return wrong(pattern, "hosts", (text ? *text + ": " : "") + hosts.error().line);
        }
        const auto number = static_cast<std::int32_t>(level.domains.size()) - 1;
        for (const std::string& host : *hosts) {
            const auto [at, is_new] = level.domain_of.emplace(host, number);
            if (!is_new && at->second != number) {
                return wrong(pattern, "hosts",
                             format("%s is in %s %s already, and cannot be in %s as well", host.c_str(),
                                    level.name.c_str(), level.domains[static_cast<std::size_t>(at->second)].c_str(),
                                    domain.c_str()));
            }
            if (level.domain_of.size() > kHostsMax) {
                return wrong(pattern, "hosts", format("more than %zu hosts", kHostsMax));
            }
        }
        return {};
    }

    const std::string& path_;
};

}  // namespace

Result<std::vector<std::string>> expand_hosts(std::string_view pattern) {
    if (pattern.empty()) {
        return fails("a name of a host is expected");
    }
    std::vector<std::string> all = {""};
    while (!pattern.empty()) {
        const std::size_t open = pattern.find_first_of("[]");
        const std::string_view plain = pattern.substr(0, open);
        if (plain.find(',') != std::string_view::npos) {
            return fails("each host, or range of hosts, in quotes of its own");
        }
        for (std::string& host : all) {
            host += plain;
        }
        if (open == std::string_view::npos) {
            break;
        }
        const std::size_t close = pattern.find(']', open);
        if (pattern[open] == ']' || close == std::string_view::npos) {
            return fails("a bracket without its other one");
        }
        const Result<std::vector<std::string>> parts = expand_brackets(pattern.substr(open + 1, close - open - 1));
        if (!parts) {
            return fails(parts.error());
        }
        if (parts->size() > kHostsMax / all.size()) {
            return fails(format("more than %zu hosts", kHostsMax));
        }
        std::vector<std::string> longer;
        longer.reserve(all.size() * parts->size());
        for (const std::string& host : all) {
            for (const std::string& part : *parts) {
                longer.push_back(host + part);
            }
        }
        SFT_ASSERT(longer.size() == all.size() * parts->size() && longer.size() <= kHostsMax);
        all = std::move(longer);
        pattern.remove_prefix(close + 1);
    }
    return all;
}

Result<Topology> Topology::read(const std::string& path) {
    if (::access(path.c_str(), R_OK) != 0) {
        return fails(format("%s: cannot be read: %s", path.c_str(), std::strerror(errno)));
    }
    return parse(text_of(path.c_str()), path);
}

Result<Topology> Topology::parse(const std::string& text, const std::string& path) {
    Topology topology;
    try {
        const toml::table root = toml::parse(text, path);
        Reader reader(path);
        Result<> done = reader.read(root, topology.levels_, topology.apart_);
        if (done) {
            done = reader.read_demands(root, topology.levels_, topology.demands_);
        }
        if (!done) {
            return fails(done.error());
        }
    } catch (const toml::parse_error& error) {
        return fails(format("%s:%u: %s", path.c_str(), static_cast<unsigned>(error.source().begin.line),
                            std::string(error.description()).c_str()));
    } catch (const NotToml& error) {
        return fails(path + ": " + error.what());
    }
    topology.fingerprint_ = checksum(reinterpret_cast<const std::byte*>(text.data()), text.size()) | 1U;
    return topology;
}

const Topology::Level& Topology::apart() const noexcept {
    SFT_ASSERT(apart_ < levels_.size());  // of a file that was read
    return levels_[apart_];
}

std::optional<std::int32_t> Topology::domain_of(std::string_view host) const { return domain_of(apart(), host); }

std::optional<std::int32_t> Topology::domain_of(const Level& level, std::string_view host) const {
    for (const std::string_view name : {host, host.substr(0, host.find('.'))}) {
        if (const auto found = level.domain_of.find(std::string(name)); found != level.domain_of.end()) {
            return found->second;
        }
    }
    return std::nullopt;
}

std::vector<std::int32_t> Topology::areas_of(const std::vector<std::string>& hosts) const {
    std::vector<std::int32_t> areas;
    const auto n_domains = static_cast<std::int32_t>(apart().domains.size());
    for (const std::string& host : hosts) {
        areas.push_back(domain_of(host).value_or(n_domains + static_cast<std::int32_t>(areas.size())));
    }
    SFT_ASSERT(areas.size() == hosts.size());
    return areas;
}

}  // namespace sft
