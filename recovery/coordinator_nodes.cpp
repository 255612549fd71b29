// What the coordinator asks and hears in a job on several nodes, about processes and links.
#include <utility>

#include "base/assert.hpp"
#include "recovery/coordinator.hpp"

namespace sft {

std::vector<RemoteMail::Gone> Coordinator::take_gone() {
    const Locked lock(mutex_);
    return mailbox_->take_gone();
}

std::vector<RemoteMail::Stuck> Coordinator::stuck() const {
    const Locked lock(mutex_);
    return mailbox_->stuck();
}

std::vector<Coordinator::Stalled> Coordinator::take_stalled() {
    const Locked lock(mutex_);
    return std::exchange(stalled_, {});
}

void Coordinator::tell_stalled(ProcId to, std::int64_t age_ns) {
    const Locked lock(mutex_);
    SFT_ASSERT(to != agreement_.self() && age_ns >= 0);
    Message message;
    message.kind = MessageKind::stalled;
    message.ballot = agreement_.ballot();
    message.index = agreement_.decided().index;
    message.asked_ns = age_ns;
    send(to, message);
}

void Coordinator::probe_node_of(ProcId process) {
    const Locked lock(mutex_);
    if (shape_.nodes == nullptr || process.value() >= shape_.n_processes) {
        return;
    }
    const NodeId node = shape_.nodes->node_of(process);
    for (std::int32_t other = 0; other < shape_.n_processes; ++other) {
        if (shape_.nodes->node_of(ProcId(other)) == node && !contains(agreement_.known_deaths(), ProcId(other))) {
            mailbox_->probe(ProcId(other));
        }
    }
}

std::vector<Coordinator::Heard> Coordinator::take_heard() {
    const Locked lock(mutex_);
    return std::exchange(heard_, {});
}

void Coordinator::ping(const std::vector<ProcId>& processes, std::int64_t asked_ns, NodeId about) {
    const Locked lock(mutex_);
    Message question;
    question.kind = MessageKind::ping;
    question.ballot = agreement_.ballot();
    question.index = agreement_.decided().index;
    question.asked_ns = asked_ns;
    question.node = about;
    const std::vector<std::byte> bytes = encode(question);
    for (const ProcId process : processes) {
        SFT_ASSERT(process != agreement_.self());
        // Mail finds out whether the process is there at all, and whether mail gets there.
        send(process, question);
        mailbox_->send_datagram(process, bytes);
    }
}

void Coordinator::testify(std::map<NodeId, Testimony> testimonies) {
    const Locked lock(mutex_);
    testimonies_ = std::move(testimonies);
}

Testimony Coordinator::testimony_about(NodeId node) const {
    const auto at = testimonies_.find(node);
    return at == testimonies_.end() ? Testimony::none : at->second;
}

void Coordinator::give_way() {
    const Locked lock(mutex_);
    agreement_.give_way();
    tell();
}

void Coordinator::remind() {
    const Locked lock(mutex_);
    agreement_.remind();
}

void Coordinator::cut_until(std::int64_t end_ns) {
    const Locked lock(mutex_);
    mailbox_->cut_until(end_ns);
}

}  // namespace sft
