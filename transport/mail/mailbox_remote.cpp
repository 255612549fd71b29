// What the mailbox hands to the part of it for other nodes.

#include "transport/mail/mailbox.hpp"

namespace sft {

MailAddress Mailbox::address() const noexcept { return remote_.address(); }

std::vector<RemoteMail::Gone> Mailbox::take_gone() {
    return is_mine() ? remote_.take_gone() : std::vector<RemoteMail::Gone>{};
}

void Mailbox::give_up(ProcId process) {
    if (is_mine() && is_remote(process)) {
        remote_.give_up(process);
    }
}

void Mailbox::probe(ProcId process) {
    if (is_mine() && is_remote(process)) {
        remote_.probe(process);
    }
}

void Mailbox::send_datagram(ProcId to, std::span<const std::byte> message) {
    if (is_mine() && is_remote(to)) {
        remote_.send_datagram(to, message);
    }
}

bool Mailbox::is_settled() const noexcept { return !is_mine() || remote_.is_settled(); }

std::vector<RemoteMail::Stuck> Mailbox::stuck() const {
    return is_mine() && remote_.is_open() ? remote_.stuck() : std::vector<RemoteMail::Stuck>{};
}

void Mailbox::leave(std::uint64_t how) {
    if (is_mine()) {
        remote_.leave(how);
    }
}

void Mailbox::cut_until(std::int64_t end_ns) {
    if (is_mine() && remote_.is_open()) {
        remote_.cut_until(end_ns);
    }
}

}  // namespace sft
