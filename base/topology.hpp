// What nodes have in common that no tool can see: racks, power supplies, switches, whatever may be lost as one. A user
// writes it into a file (TOML), and copies are then kept apart by it (docs/nodes.md, "Racks and the like"):
//
//     apart = "rack"                            # no two copies of a PE in one rack
//
//     [[rack]]
//     name = "r1"
//     hosts = ["node[001-016]", "login"]
//
//     [[power]]                                 # another level: any name will do
//     name = "p1"
//     hosts = ["node[001-008,017-024]"]
//
//     [survive]                                 # the job has to survive the loss of so many at one moment, whichever
//     rack = 1                                  # they are, or does not begin (recovery/loss_demands.hpp)
//     host = 2
//
// Invariants: no host is in two domains of one level. `apart` names a level; with one level it may be left out.
//
// Threads: constant after read().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"

namespace sft {

class Topology {
public:
    struct Level {
        std::string name;
        std::vector<std::string> domains;
        std::unordered_map<std::string, std::int32_t> domain_of;  // by host
    };

    struct Demand {
        std::string what;  // "host", or a level
        std::int32_t n = 0;
        std::uint32_t line = 0;  // of the file
    };

    // The failure names the file, the line, the key and what would be right.
    [[nodiscard]] static Result<Topology> read(const std::string& path);
    [[nodiscard]] static Result<Topology> parse(const std::string& text, const std::string& path);

    [[nodiscard]] const std::vector<Level>& levels() const noexcept { return levels_; }
    // That copies are kept apart by.
    [[nodiscard]] const Level& apart() const noexcept;
    // Of that level; nothing: the file does not say. A host may be given with its domain name (node1.cluster.local),
    // and be without it in the file.
    [[nodiscard]] std::optional<std::int32_t> domain_of(std::string_view host) const;
    [[nodiscard]] std::optional<std::int32_t> domain_of(const Level& level, std::string_view host) const;
    // For an AreaMap, by host: a host that the file does not name is an area of its own.
    [[nodiscard]] std::vector<std::int32_t> areas_of(const std::vector<std::string>& hosts) const;
    // In the order of their lines.
    [[nodiscard]] const std::vector<Demand>& demands() const noexcept { return demands_; }
    // Equal for equal files, not 0.
    [[nodiscard]] std::uint64_t fingerprint() const noexcept { return fingerprint_; }

private:
    std::vector<Level> levels_;  // in the order of their first lines
    std::size_t apart_ = 0;
    std::vector<Demand> demands_;
    std::uint64_t fingerprint_ = 1;
};

// "node[001-003,7]" is node001, node002, node003, node7; several brackets multiply. The failure says what is wrong.
[[nodiscard]] Result<std::vector<std::string>> expand_hosts(std::string_view pattern);

}  // namespace sft
