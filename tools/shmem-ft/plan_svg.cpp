// A plan as a drawing: hosts on a circle, what they have in common as rings inside it, and in the middle who keeps
// copies of whom, or the groups that keep parity. It grows with the number of hosts, so that names never overlap.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <utility>

#include "base/assert.hpp"
#include "tools/common/text.hpp"
#include "tools/shmem-ft/plan.hpp"

namespace sft::tools {
namespace {

// In pixels.
constexpr double kHostPitch = 16;  // of the circle, for each host
constexpr double kRadiusMin = 150;
constexpr double kRing = 15;
constexpr double kRingGap = 2;
constexpr double kLetter = 6.6;  // the width of one
constexpr double kLine = 16;
constexpr double kMargin = 20;

std::string escaped(std::string_view text) {
    std::string safe;
    for (const char letter : harmless(text)) {
        switch (letter) {
            case '<': safe += "&lt;"; break;
            case '>': safe += "&gt;"; break;
            case '&': safe += "&amp;"; break;
            case '"': safe += "&quot;"; break;
            default: safe += letter;
        }
    }
    return safe;
}

// Neighbours differ, however many there are.
std::string colour_of(std::size_t number) {
    return fmt::format("hsl({:.0f},55%,50%)", std::fmod(210.0 + 137.5 * static_cast<double>(number), 360.0));
}

class Drawing {
public:
    explicit Drawing(const Plan& plan) : plan_(plan), n_(plan.hosts.size()) {
        SFT_ASSERT(n_ > 0);
        arrange();
        inner_ = std::max(kRadiusMin, static_cast<double>(n_) * kHostPitch / (2 * std::numbers::pi));
        outer_ = inner_ + static_cast<double>(plan.levels.size() + 1) * (kRing + kRingGap);
        std::size_t letters = 0;
        for (const Plan::Host& host : plan.hosts) {
            letters = std::max(letters, label_of(host).size());
        }
        half_ = outer_ + static_cast<double>(letters) * kLetter + kMargin;
    }

    [[nodiscard]] std::string text(const std::string& words) {
        std::vector<std::string> lines;
        double width = 2 * half_;
        for (std::size_t begin = 0; begin < words.size();) {
            const std::size_t end = std::min(words.find('\n', begin), words.size());
            lines.push_back(words.substr(begin, end - begin));
            width = std::max(width, static_cast<double>(lines.back().size()) * kLetter + 2 * kMargin);
            begin = end + 1;
        }
        const double top = kMargin + static_cast<double>(lines.size()) * kLine;
        std::string svg = fmt::format(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
            "{1:.0f}\" font-family=\"monospace\" font-size=\"11\">\n"
            "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" "
            "markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\" "
            "fill=\"#555\"/></marker></defs>\n"
            "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
            width, top + 2 * half_);
        for (std::size_t i = 0; i < lines.size(); ++i) {
            svg += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" xml:space=\"preserve\">{}</text>\n", kMargin,
                               kMargin + static_cast<double>(i) * kLine, escaped(lines[i]));
        }
        svg += fmt::format("<g transform=\"translate({:.1f},{:.1f})\">\n", width / 2, top + half_);
        svg += plan_.groups.empty() ? copies() : groups();
        svg += levels() + hosts();
        return svg + "</g>\n</svg>\n";
    }

private:
    // Hosts that are lost as one stand together.
    void arrange() {
        order_.resize(n_);
        std::iota(order_.begin(), order_.end(), 0);
        const auto level = std::find(plan_.levels.begin(), plan_.levels.end(), plan_.apart);
        if (level != plan_.levels.end()) {
            const auto number = static_cast<std::size_t>(level - plan_.levels.begin());
            std::map<std::string, std::size_t> first;
            for (std::size_t host = 0; host < n_; ++host) {
                first.emplace(plan_.hosts[host].domains[number], host);
            }
            std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
                return first[plan_.hosts[a].domains[number]] < first[plan_.hosts[b].domains[number]];
            });
        }
        place_.resize(n_);
        for (std::size_t i = 0; i < n_; ++i) {
            place_[order_[i]] = i;
        }
        host_of_pe_.assign(static_cast<std::size_t>(plan_.n_pes), 0);
        for (std::size_t host = 0; host < n_; ++host) {
            for (const std::int32_t pe : plan_.hosts[host].pes) {
                host_of_pe_[static_cast<std::size_t>(pe)] = host;
            }
        }
    }

    // From the top, clockwise; place: of a host, or between two.
    [[nodiscard]] double angle(double place) const {
        return 2 * std::numbers::pi * place / static_cast<double>(n_) - std::numbers::pi / 2;
    }
    [[nodiscard]] static std::string point(double radius, double angle) {
        return fmt::format("{:.1f},{:.1f}", radius * std::cos(angle), radius * std::sin(angle));
    }
    [[nodiscard]] double middle_of(std::size_t host) const { return angle(static_cast<double>(place_[host]) + 0.5); }

    // Of a ring, from one place to another.
    [[nodiscard]] std::string sector(double radius, std::size_t begin, std::size_t end) const {
        const double gap = kRingGap / radius;
        const double from = angle(static_cast<double>(begin)) + gap;
        const double to = angle(static_cast<double>(end)) - gap;
        const int is_large = to - from > std::numbers::pi ? 1 : 0;
        const double far = radius + kRing;
        return fmt::format("M{} A{:.1f},{:.1f} 0 {} 1 {} L{} A{:.1f},{:.1f} 0 {} 0 {} z", point(far, from), far, far,
                           is_large, point(far, to), point(radius, to), radius, radius, is_large, point(radius, from));
    }

    [[nodiscard]] static std::string label_of(const Plan::Host& host) {
        std::string label = host.name;
        if (!host.pes.empty()) {
            label += " PE " + ranges_of(host.pes);
        }
        if (!host.spares.empty()) {
            label += " spare " + ranges_of(host.spares);
        }
        return label;
    }

    [[nodiscard]] std::string hosts() const {
        const double radius = outer_ - kRing;
        std::string svg;
        for (std::size_t number = 0; number < n_; ++number) {
            const Plan::Host& host = plan_.hosts[number];
            const char* const colour = !host.pes.empty() ? "#4878a8" : host.is_used() ? "#a8c8a8" : "#ddd";
            svg += fmt::format("<path class=\"host\" d=\"{}\" fill=\"{}\"><title>{}</title></path>\n",
                               sector(radius, place_[number], place_[number] + 1), colour, escaped(label_of(host)));
            // Readable from the left in both halves.
            const double degrees = middle_of(number) * 180 / std::numbers::pi;
            const bool is_left = degrees > 90;
            svg += fmt::format(
                "<text transform=\"rotate({:.2f}) translate({:.1f},0) rotate({})\" dy=\"4\" text-anchor=\"{}\" "
                "fill=\"{}\">{}</text>\n",
                degrees, outer_ + 5, is_left ? 180 : 0, is_left ? "end" : "start", host.is_used() ? "#000" : "#999",
                escaped(label_of(host)));
        }
        return svg;
    }

    [[nodiscard]] std::string levels() const {
        std::string svg;
        for (std::size_t level = 0; level < plan_.levels.size(); ++level) {
            const double radius = inner_ + static_cast<double>(level) * (kRing + kRingGap);
            std::map<std::string, std::size_t> numbers;
            for (std::size_t begin = 0, end = 0; begin < n_; begin = end) {
                const auto domain = [&](std::size_t place) -> const std::string& {
                    return plan_.hosts[order_[place]].domains[level];
                };
                while (end < n_ && domain(end) == domain(begin)) {
                    ++end;
                }
                const std::string& name = domain(begin);
                if (name.empty()) {
                    continue;
                }
                const std::size_t number = numbers.emplace(name, numbers.size()).first->second;
                const std::string what = escaped(plan_.levels[level] + " " + name);
                svg += fmt::format(
                    "<path class=\"domain\" d=\"{}\" fill=\"{}\" fill-opacity=\"0.45\"><title>{}</title></path>\n",
                    sector(radius, begin, end), colour_of(number + 3 * level), what);
                const double room = radius * (angle(static_cast<double>(end)) - angle(static_cast<double>(begin)));
                if (static_cast<double>(what.size() + 2) * kLetter < room) {
                    svg += along(radius + kRing / 2, angle(static_cast<double>(begin + end) / 2), what);
                }
            }
        }
        return svg;
    }

    // Along a ring; upright in the lower half as well.
    [[nodiscard]] static std::string along(double radius, double middle, const std::string& what) {
        const double degrees = middle * 180 / std::numbers::pi;
        const bool is_low = degrees > 0 && degrees < 180;
        return fmt::format(
            "<text transform=\"rotate({:.2f}) translate({:.1f},0) rotate({})\" dy=\"4\" text-anchor=\"middle\">{}"
            "</text>\n",
            degrees, radius, is_low ? -90 : 90, what);
    }

    // From where a PE is to where its copies are, one arrow for all of two hosts.
    [[nodiscard]] std::string copies() const {
        std::map<std::pair<std::size_t, std::size_t>, std::vector<std::int32_t>> kept;
        for (std::size_t keeper = 0; keeper < n_; ++keeper) {
            for (const std::int32_t pe : plan_.hosts[keeper].kept_of) {
                kept[{host_of_pe_[static_cast<std::size_t>(pe)], keeper}].push_back(pe);
            }
        }
        std::string svg;
        for (auto& [hosts, pes] : kept) {
            const auto& [from, to] = hosts;
            if (from == to) {
                continue;  // a drawing of hosts says nothing of that
            }
            std::sort(pes.begin(), pes.end());
            svg += fmt::format(
                "<path class=\"copies\" d=\"M{} Q{} {}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{:.1f}\" "
                "stroke-opacity=\"0.7\" marker-end=\"url(#arrow)\"><title>{}</title></path>\n",
                point(inner_ - 4, middle_of(from)), inwards(middle_of(from), middle_of(to)),
                point(inner_ - 4, middle_of(to)), colour_of(from),
                std::min(4.0, 1 + 0.4 * static_cast<double>(pes.size() - 1)),
                escaped(fmt::format("{} keeps copies of PE {} ({})", plan_.hosts[to].name, ranges_of(pes),
                                    plan_.hosts[from].name)));
        }
        return svg;
    }

    // What an arrow between two hosts is drawn towards: the middle, so that those of neighbours are short.
    [[nodiscard]] std::string inwards(double one, double other) const {
        constexpr double kPull = 0.2;
        return fmt::format("{:.1f},{:.1f}", kPull * inner_ * (std::cos(one) + std::cos(other)),
                           kPull * inner_ * (std::sin(one) + std::sin(other)));
    }

    [[nodiscard]] std::string groups() const {
        std::string svg;
        for (std::size_t number = 0; number < plan_.groups.size(); ++number) {
            std::vector<double> corners;
            for (const std::int32_t pe : plan_.groups[number]) {
                corners.push_back(middle_of(host_of_pe_[static_cast<std::size_t>(pe)]));
            }
            std::sort(corners.begin(), corners.end());
            std::string path;
            // Those of one host lie beside each other.
            const double radius = inner_ - 6 - 5 * static_cast<double>(number % 8);
            for (const double corner : corners) {
                path += (path.empty() ? "M" : " L") + point(radius, corner);
            }
            svg += fmt::format(
                "<path class=\"group\" d=\"{} z\" fill=\"none\" stroke=\"{}\" stroke-opacity=\"0.8\">"
                "<title>PEs {} keep parity of each other</title></path>\n",
                path, colour_of(number), ranges_of(plan_.groups[number]));
        }
        return svg;
    }

    const Plan& plan_;
    std::size_t n_;
    std::vector<std::size_t> order_;       // hosts by place
    std::vector<std::size_t> place_;       // by host
    std::vector<std::size_t> host_of_pe_;  // by PE
    double inner_ = 0;                     // radius of what is in the middle
    double outer_ = 0;                     // of the hosts
    double half_ = 0;                      // of the circle with its names
};

}  // namespace

std::string svg_of(const Plan& plan, const Backup& backup) {
    const std::string loss = plan.ends.empty() ? "" : "before a loss that is not survived: " + plan.ends + "\n";
    return Drawing(plan).text(loss + heading_of(plan) + "\n\n" + summary_of(plan, backup));
}

}  // namespace sft::tools
