// One list of fields serves both directions, so that what is written and what is read cannot differ.
#include "recovery/membership/message.hpp"

#include <algorithm>
#include <concepts>
#include <type_traits>

#include "base/assert.hpp"

namespace sft {
namespace {

// Without the state and with an empty list of deaths: by far the most messages are no longer than this.
constexpr std::size_t kUsualBytes = 64;

// The first fields of every message, which tell how to read the rest (docs/protocols.md, "Wire form").
static_assert(sizeof(MessageKind) == 1 && sizeof(Goal) == 1 && sizeof(Stage) == 1 && sizeof(EndReason) == 1);
static_assert(sizeof(FailureKind) == 1 && sizeof(Testimony) == 1 && sizeof(Acceptance::Kind) == 1);
static_assert(sizeof(Ballot{}.leader) == 4 && sizeof(Ballot{}.number) == 4 && sizeof(FailureReason{}.code) == 2);
static_assert(kLastMessageKind >= MessageKind{kMessageKinds});

class Writer {
public:
    static constexpr bool kReads = false;

    Writer() { bytes_.reserve(kUsualBytes); }

    template <std::integral Number>
    void number(Number value) {
        auto rest = static_cast<std::make_unsigned_t<Number>>(value);
        for (std::size_t i = 0; i < sizeof(Number); ++i) {
            bytes_.push_back(static_cast<std::byte>(rest & 0xff));
            rest = static_cast<std::make_unsigned_t<Number>>(static_cast<std::uint64_t>(rest) >> 8);
        }
    }
    void flag(bool value) { number(static_cast<std::uint8_t>(value ? 1 : 0)); }
    template <class Enum>
    void choice(Enum value, Enum, Enum) {
        number(static_cast<std::uint8_t>(value));
    }
    template <class Id>
    void id(Id value, std::int32_t) {
        number(value.value());
    }
    template <class List>
    void count(const List& list, std::size_t) {
        number(static_cast<std::uint32_t>(list.size()));
    }
    void require(bool) {}

    [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

private:
    std::vector<std::byte> bytes_;
};

// After the first thing that is wrong it gives zeros and empty lists; is_good() tells in the end.
class Reader {
public:
    static constexpr bool kReads = true;

    explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

    template <std::integral Number>
    void number(Number& value) {
        std::uint64_t sum = 0;
        require(rest_.size() >= sizeof(Number));
        if (is_good_) {
            for (std::size_t i = 0; i < sizeof(Number); ++i) {
                sum |= std::to_integer<std::uint64_t>(rest_[i]) << (8 * i);
            }
            rest_ = rest_.subspan(sizeof(Number));
        }
        value = static_cast<Number>(sum);
    }
    void flag(bool& value) {
        std::uint8_t raw = 0;
        number(raw);
        require(raw <= 1);
        value = raw == 1;
    }
    // Checked before the conversion, so that no enum ever holds a value without a name.
    template <class Enum>
    void choice(Enum& value, Enum first, Enum last) {
        std::uint8_t raw = 0;
        number(raw);
        require(raw >= static_cast<std::uint8_t>(first) && raw <= static_cast<std::uint8_t>(last));
        value = is_good_ ? static_cast<Enum>(raw) : first;
    }
    template <class Id>
    void id(Id& value, std::int32_t lowest) {
        std::int32_t raw = 0;
        number(raw);
        require(raw >= lowest);
        value = Id(raw);
    }
    // A length is believed only if what is left can hold as many items: memory is never taken for a mere claim.
    template <class List>
    void count(List& list, std::size_t item_bytes) {
        std::uint32_t n = 0;
        number(n);
        require(n <= rest_.size() / item_bytes);
        list.resize(is_good_ ? n : 0);
    }
    void require(bool holds) { is_good_ = is_good_ && holds; }

    [[nodiscard]] bool is_good() const noexcept { return is_good_; }
    [[nodiscard]] bool is_at_end() const noexcept { return rest_.empty(); }

private:
    std::span<const std::byte> rest_;
    bool is_good_ = true;
};

// In the functions below `Value` is const for the writer and not for the reader.

template <class Codec, class Value>
void reason_fields(Codec& codec, Value& reason) {
    codec.choice(reason.kind, FailureKind::none, FailureKind::died);
    codec.number(reason.code);
}

template <class Codec, class List>
void deaths_fields(Codec& codec, List& deaths) {
    codec.count(deaths, 8);
    for (auto& death : deaths) {
        codec.id(death.process, 0);
        reason_fields(codec, death.reason);
        codec.flag(death.is_certain);
    }
}

template <class Codec, class List>
void failed_fields(Codec& codec, List& failed) {
    codec.count(failed, 7);
    for (auto& one : failed) {
        codec.id(one.pe, 0);
        reason_fields(codec, one.reason);
    }
}

template <class Codec, class List>
void id_fields(Codec& codec, List& ids) {
    codec.count(ids, 4);
    for (auto& one : ids) {
        codec.id(one, 0);
    }
}

template <class Codec, class List, class Key>
void require_sorted(Codec& codec, const List& list, Key key) {
    if constexpr (Codec::kReads) {
        const auto out_of_order = [&](const auto& a, const auto& b) { return !(key(a) < key(b)); };
        codec.require(std::adjacent_find(list.begin(), list.end(), out_of_order) == list.end());
    }
}

template <class Codec, class List>
void replacements_fields(Codec& codec, List& replacements) {
    codec.count(replacements, 12);
    for (auto& replacement : replacements) {
        codec.id(replacement.pe, 0);
        codec.id(replacement.process, 0);
        codec.number(replacement.turn);
        codec.require(replacement.turn >= replacement.process.value());
    }
    require_sorted(codec, replacements, [](const Replacement& replacement) { return replacement.pe; });
}

template <class Codec, class Value>
void state_fields(Codec& codec, Value& state) {
    codec.number(state.index);
    codec.choice(state.stage, Stage::running, Stage::ended);
    if constexpr (Codec::kReads) {
        std::uint32_t version = 0;
        codec.number(version);
        state.version = Version(version);
    } else {
        codec.number(state.version.value());
    }
    codec.number(state.view);
    codec.number(state.attempt);
    codec.number(state.rejections);
    codec.id(state.witness, kNoProc.value());
    codec.choice(state.end_reason, EndReason::none, EndReason::past_the_end);
    codec.id(state.ended_by, kNoProc.value());
    codec.number(state.exit_status);
    deaths_fields(codec, state.deaths);
    replacements_fields(codec, state.replacements);
    replacements_fields(codec, state.protected_layout);
    id_fields(codec, state.unprotected);
    require_sorted(codec, state.unprotected, [](PeId pe) { return pe; });
    failed_fields(codec, state.failed);
    failed_fields(codec, state.further);
    id_fields(codec, state.lost);
    codec.count(state.joined, 8);
    for (auto& joined : state.joined) {
        codec.id(joined.process, 0);
        codec.id(joined.node, 0);
    }
    require_sorted(codec, state.joined, [](const Joined& joined) { return joined.process; });
}

template <class Codec, class Value>
void ballot_fields(Codec& codec, Value& ballot) {
    codec.number(ballot.number);
    codec.number(ballot.leader);
    codec.require(ballot.leader >= 0);
    codec.number(ballot.turn);
    codec.require(ballot.turn >= ballot.leader);
}

template <class Codec, class Value>
void message_fields(Codec& codec, Value& message) {
    codec.choice(message.kind, MessageKind::ready, kLastMessageKind);
    ballot_fields(codec, message.ballot);
    codec.number(message.index);
    codec.choice(message.ready.goal, Goal::none, Goal::any);
    codec.flag(message.ready.is_mixed);
    codec.number(message.ready.hash);
    codec.choice(message.accepted.kind, Acceptance::Kind::unset, Acceptance::Kind::differs);
    ballot_fields(codec, message.accepted.ballot);
    codec.flag(message.end.is_set);
    codec.choice(message.end.reason, EndReason::none, EndReason::past_the_end);
    codec.id(message.end.from, kNoProc.value());
    codec.number(message.end.exit_status);
    bool has_state = message.state.has_value();
    codec.flag(has_state);
    if (has_state) {
        if constexpr (Codec::kReads) {
            message.state.emplace();
        }
        state_fields(codec, *message.state);
        codec.require(message.state->index == message.index);
    }
    deaths_fields(codec, message.deaths);
    require_sorted(codec, message.deaths, [](const Death& death) { return death.process; });
    if (message.kind == MessageKind::join) {
        codec.id(message.node, 0);
    }
    if (message.kind == MessageKind::ping || message.kind == MessageKind::heartbeat ||
        message.kind == MessageKind::stalled) {
        codec.number(message.asked_ns);
        codec.id(message.node, kNoNode.value());
        codec.choice(message.testimony, Testimony::none, Testimony::silent);
    }
}

}  // namespace

Readiness sum(const Readiness& a, const Readiness& b) noexcept {
    if (a.goal == Goal::none || b.goal == Goal::none) {
        return {};
    }
    if (a.goal == Goal::any) {
        return b;
    }
    if (b.goal == Goal::any) {
        return a;
    }
    // Whoever asks for a restart waits for an answer, so that goal is not lost among others.
    Readiness both = a.goal != Goal::restart && b.goal == Goal::restart ? b : a;
    both.is_mixed = a.is_mixed || b.is_mixed || a.goal != b.goal || a.hash != b.hash;
    SFT_ASSERT(both.goal != Goal::none && both.goal != Goal::any);
    return both;
}

Acceptance sum(const Acceptance& a, const Acceptance& b) noexcept {
    if (a.kind == Acceptance::Kind::unset) {
        return b;
    }
    if (b.kind == Acceptance::Kind::unset || a == b) {
        return a;
    }
    return {Acceptance::Kind::differs, {}};
}

const char* name_of(MessageKind kind) noexcept {
    switch (kind) {
        case MessageKind::ready: return "ready";
        case MessageKind::collect: return "collect";
        case MessageKind::report: return "report";
        case MessageKind::propose: return "propose";
        case MessageKind::accepted: return "accepted";
        case MessageKind::decide: return "decide";
        case MessageKind::deaths: return "deaths";
        case MessageKind::end_request: return "end_request";
        case MessageKind::census: return "census";
        case MessageKind::census_reply: return "census_reply";
        case MessageKind::excluded: return "excluded";
        case MessageKind::heartbeat: return "heartbeat";
        case MessageKind::join: return "join";
        case MessageKind::ping: return "ping";
        case MessageKind::news: return "news";
        case MessageKind::stalled: return "stalled";
        case MessageKind::ballot_wanted: return "ballot_wanted";
    }
    return "?";
}

std::vector<std::byte> encode(const Message& message) {
    Writer writer;
    message_fields(writer, message);
    return writer.take();
}

std::optional<Message> decode(std::span<const std::byte> bytes) {
    if (bytes.size() > kMessageBytesMax) {
        return std::nullopt;
    }
    Reader reader(bytes);
    Message message;
    message_fields(reader, message);
    if (!reader.is_good() || !reader.is_at_end()) {
        return std::nullopt;
    }
    return message;
}

}  // namespace sft
