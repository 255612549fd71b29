// What is sent back to those who asked, and what is done with it there.
#include <cstring>

#include "transport/net/network_impl.hpp"

namespace sft {

// ---- where it was asked ----

bool Network::Impl::take_done(NetPeer& from, std::uint64_t done) {
    if (done == from.done) {
        return true;
    }
    if (done - from.done > from.issued - from.done) {
        return false;
    }
    SFT_ASSERT(from.bytes_of != nullptr && from.issued - from.done <= kWindowMessages);
    for (; from.done != done; ++from.done) {
        from.bytes_done += from.bytes_of[from.done % kWindowMessages];
    }
    SFT_ASSERT(from.bytes_done <= from.bytes_issued);
    SFT_ASSERT(from.done != from.issued || from.bytes_done == from.bytes_issued);
    has_news_ = true;
    return true;
}

void Network::Impl::on_ack(const WireHead& head, Bytes payload) {
    if (payload.size() % sizeof(std::uint64_t) != 0 || head.length != payload.size() / sizeof(std::uint64_t)) {
        refuse(head, "an acknowledgement of another size");
        return;
    }
    for (std::size_t i = 0; i < head.length; ++i) {
        std::uint64_t id;
        std::memcpy(&id, payload.data() + i * sizeof id, sizeof id);
        Request* const request = requests_.find(id & ~kAckRefused, ProcId(head.from));
        if (request == nullptr ||
            (request->kind != Request::Kind::put && request->kind != Request::Kind::store_write)) {
            refuse(head, "it acknowledges what was not sent");
        } else {
            end_request(*request, (id & kAckRefused) != 0);
        }
    }
}

void Network::Impl::end_request(Request& request, bool is_refused) {
    NetPeer& target = peer(request.process);
    SFT_ASSERT(request.kind != Request::Kind::fetch || request.awaited != nullptr);
    if (request.sort() == RequestSort::store) {
        SFT_ASSERT(target.store_bytes >= request.bytes);
        target.store_bytes -= request.bytes;
        target.is_store_refused |= is_refused;
    }
    if (request.awaited != nullptr) {
        SFT_ASSERT(request.awaited->n_open != 0);
        --request.awaited->n_open;
    }
    requests_.end(target.requests, request);
    has_news_ = true;
}

void Network::Impl::on_reply(const WireHead& head, Bytes payload) {
    Request* const request = requests_.find(head.request, ProcId(head.from));
    if (request == nullptr || request->is_arriving) {
        refuse(head, "an answer to what was not asked");
        return;
    }
    const bool is_refused = (head.flags & kWireRefused) != 0;
    bool is_fitting = is_refused;
    switch (request->kind) {
        case Request::Kind::fetch:
            is_fitting = true;
            SFT_ASSERT(request->awaited != nullptr);
            if (!is_refused) {
                request->awaited->value = head.operand;
            }
            break;
        case Request::Kind::get:
        case Request::Kind::store_read:
            if (!is_refused && request->bytes <= kWireSmallBytes && payload.empty()) {
                std::memcpy(request->dest, &head.operand, request->bytes);
                is_fitting = true;
            } else if (!is_refused && request->bytes == payload.size()) {
                std::memcpy(request->dest, payload.data(), payload.size());
                is_fitting = true;
            }
            break;
        case Request::Kind::get_blocks:
            if (!is_refused && request->bytes * request->n_blocks == payload.size()) {
                const std::byte* from = payload.data();
                for (std::size_t i = 0; i < request->n_blocks; ++i, from += request->bytes) {
                    std::memcpy(request->dest + static_cast<std::ptrdiff_t>(i) * request->dest_step, from,
                                request->bytes);
                }
                is_fitting = true;
            }
            break;
        default: is_fitting = false; break;
    }
    if (is_fitting) {
        end_request(*request, is_refused);
    } else {
        refuse(head, "an answer that does not fit what was asked");
    }
}

// ---- where it was carried out ----

bool Network::Impl::finish() {
    const bool is_anything = !replies_.empty() || !acks_due_.empty();
    if (is_memory_changed_) {
        is_memory_changed_ = false;
        // The waiter shows that it sleeps, and then looks at what it waits for; here it is the other way round.
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (options_.doorbell != nullptr) {
            options_.doorbell->ring_if_sleeping();
        }
    }
    send_replies();
    send_acks();
    if (has_news_) {
        has_news_ = false;
        wake_sleepers();
    }
    return is_anything;
}

void Network::Impl::send_replies() {
    while (!replies_.empty()) {
        Reply reply = replies_.front();
        replies_.pop_front();
        send_reply(reply);
    }
}

void Network::Impl::send_reply(Reply& reply) {
    SFT_ASSERT(reply.head.kind == WireKind::reply && reply.to != kNoProc);
    SFT_ASSERT(!peer(reply.to).is_retired.load(std::memory_order_relaxed));  // what was for it is forgotten with it
    SFT_ASSERT(reply.source == nullptr || reply.head.length != 0);
    if (reply.source == nullptr) {
        transmit(reply.to, reply.head);
    } else if (reply.blocks.n_blocks == 0) {
        // Nobody here waits until the fabric has read it: what it reads is memory that others may change anyway.
        transmit(reply.to, reply.head, Bytes(reply.source, reply.head.length));
    } else {
        SFT_ASSERT(reply.head.length == reply.blocks.bytes() && reply.head.length <= packed_bytes_);
        Outgoing& outgoing = begin_packed();
        std::byte* packed = outgoing.buffer.get();
        for (std::uint32_t i = 0; i < reply.blocks.n_blocks; ++i, packed += reply.blocks.block_bytes) {
            std::memcpy(packed, reply.source + static_cast<std::ptrdiff_t>(i) * reply.blocks.step,
                        reply.blocks.block_bytes);
        }
        transmit_outgoing(reply.to, reply.head, Bytes(outgoing.buffer.get(), reply.head.length), outgoing);
    }
}

void Network::Impl::send_acks() {
    while (!acks_due_.empty()) {
        const ProcId process(acks_due_.back());
        acks_due_.pop_back();
        NetPeer& to = peer(process);
        if (!to.is_ack_due) {
            continue;  // a message that went there has said it
        }
        SFT_ASSERT(!to.is_retired.load(std::memory_order_relaxed));
        to.is_ack_due = false;
        WireHead head;
        head.kind = WireKind::ack;
        if (to.answered.empty()) {
            transmit(process, head);
            continue;
        }
        Outgoing& outgoing = begin_packed();
        const std::size_t n = std::min(to.answered.size(), packed_bytes_ / sizeof(std::uint64_t));
        SFT_ASSERT(n != 0 && n * sizeof(std::uint64_t) <= packed_bytes_);
        std::memcpy(outgoing.buffer.get(), to.answered.data(), n * sizeof(std::uint64_t));
        to.answered.erase(to.answered.begin(), to.answered.begin() + static_cast<std::ptrdiff_t>(n));
        if (!to.answered.empty()) {
            owe_ack(to, process);
        }
        head.length = n;
        transmit_outgoing(process, head, Bytes(outgoing.buffer.get(), n * sizeof(std::uint64_t)), outgoing);
    }
}

}  // namespace sft
