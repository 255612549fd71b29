// How messages look in a trace.
#include "base/report.hpp"
#include "tests/sim/process.hpp"

namespace sft::sim {

std::string to_string(const Message& message) {
    std::string text = format("%s [%d.%u] after %llu", name_of(message.kind), message.ballot.leader,
                              message.ballot.number, static_cast<unsigned long long>(message.index));
    if (message.ready.goal != Goal::none) {
        text += format(" ready: %s%s", name_of(message.ready.goal), message.ready.is_mixed ? " (mixed)" : "");
    }
    if (message.accepted.kind == Acceptance::Kind::proposal) {
        text += format(" accepted [%d.%u]", message.accepted.ballot.leader, message.accepted.ballot.number);
    } else if (message.accepted.kind == Acceptance::Kind::differs) {
        text += " accepted: differs";
    }
    if (message.end.is_set) {
        text += format(" end asked for by p%d", message.end.from.value());
    }
    if (message.state) {
        text += " {" + sft::to_string(*message.state) + "}";
    }
    for (const Death& death : message.deaths) {
        text += format(" dead:%d%s", death.process.value(), death.is_certain ? "" : "?");
    }
    return text;
}

}  // namespace sft::sim
