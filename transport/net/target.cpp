// The side of an operation that is carried out where the memory is. Nothing in here trusts a number that has come.
#include <atomic>
#include <cstring>

#include "base/report.hpp"
#include "transport/net/network_impl.hpp"

namespace sft {
namespace {

// Word sizes go by a single store, or load, as with memory that is mapped (ops/rma.hpp).
template <class Word>
void store_word(std::byte* to, std::uint64_t operand) {
    static_assert(sizeof(Word) <= kWireSmallBytes && __atomic_always_lock_free(sizeof(Word), nullptr));
    SFT_ASSERT_SLOW(reinterpret_cast<std::uintptr_t>(to) % sizeof(Word) == 0);
    Word word;
    std::memcpy(&word, &operand, sizeof word);
    __atomic_store_n(reinterpret_cast<Word*>(to), word, __ATOMIC_RELEASE);
}

template <class Word>
void load_word(std::uint64_t& operand, const std::byte* from) {
    SFT_ASSERT_SLOW(reinterpret_cast<std::uintptr_t>(from) % sizeof(Word) == 0);
    const Word word = __atomic_load_n(reinterpret_cast<const Word*>(from), __ATOMIC_ACQUIRE);
    std::memcpy(&operand, &word, sizeof word);
}

bool is_word(const std::byte* place, std::size_t bytes) {
    return (bytes & (bytes - 1)) == 0 && reinterpret_cast<std::uintptr_t>(place) % bytes == 0;
}

void store_small(std::byte* to, std::uint64_t operand, std::size_t bytes) {
    SFT_ASSERT(bytes != 0 && bytes <= kWireSmallBytes);
    if (!is_word(to, bytes)) {
        std::memcpy(to, &operand, bytes);
        return;
    }
    switch (bytes) {
        case 1: return store_word<std::uint8_t>(to, operand);
        case 2: return store_word<std::uint16_t>(to, operand);
        case 4: return store_word<std::uint32_t>(to, operand);
        default: return store_word<std::uint64_t>(to, operand);
    }
}

std::uint64_t load_small(const std::byte* from, std::size_t bytes) {
    SFT_ASSERT(bytes != 0 && bytes <= kWireSmallBytes);
    std::uint64_t operand = 0;
    if (!is_word(from, bytes)) {
        std::memcpy(&operand, from, bytes);
        return operand;
    }
    switch (bytes) {
        case 1: load_word<std::uint8_t>(operand, from); break;
        case 2: load_word<std::uint16_t>(operand, from); break;
        case 4: load_word<std::uint32_t>(operand, from); break;
        default: load_word<std::uint64_t>(operand, from); break;
    }
    return operand;
}

// False: no such operation.
template <class Word>
bool apply(AtomicOperation operation, std::byte* place, std::uint64_t operand, std::uint64_t condition,
           std::uint64_t& before) {
    SFT_ASSERT_SLOW(reinterpret_cast<std::uintptr_t>(place) % sizeof(Word) == 0);
    std::atomic_ref<Word> word(*reinterpret_cast<Word*>(place));
    const auto value = static_cast<Word>(operand);
    switch (operation) {
        case AtomicOperation::fetch: before = word.load(); return true;
        case AtomicOperation::set: word.store(value); return true;
        case AtomicOperation::swap: before = word.exchange(value); return true;
        case AtomicOperation::compare_swap: {
            auto expected = static_cast<Word>(condition);
            word.compare_exchange_strong(expected, value);
            before = expected;
            return true;
        }
        case AtomicOperation::add: before = word.fetch_add(value); return true;
        case AtomicOperation::bit_and: before = word.fetch_and(value); return true;
        case AtomicOperation::bit_or: before = word.fetch_or(value); return true;
        case AtomicOperation::bit_xor: before = word.fetch_xor(value); return true;
    }
    return false;
}

WireBlocks blocks_of(const WireHead& head) {
    return {wire_low(head.length), wire_high(head.length), static_cast<std::int64_t>(head.operand)};
}

}  // namespace

void Network::Impl::refuse(const WireHead& head, const char* why) {
    ++counters_.refused;
    if (!is_refusal_said_) {
        is_refusal_said_ = true;
        say("process %d: a message from the network was refused (kind %u, said to be from process %d): %s; further "
            "ones are only counted",
            options_.self.value(), static_cast<unsigned>(head.kind), head.from, why);
    }
}

NetPeer* Network::Impl::admit(Bytes bytes, WireHead& head) {
    ++counters_.received;
    if (bytes.size() != sizeof head) {
        refuse(head, "its head has another size");
        return nullptr;
    }
    std::memcpy(&head, bytes.data(), sizeof head);
    if (head.magic != kWireMagic || head.secret != options_.secret) {
        refuse(head, "it does not carry the secret of this job");
        return nullptr;
    }
    if (head.to != options_.self.value() || head.from < 0 || head.from >= options_.n_slots ||
        head.from == options_.self.value()) {
        refuse(head, "it is not for this process");
        return nullptr;
    }
    NetPeer& from = peer(ProcId(head.from));
    if (from.is_retired.load(std::memory_order_relaxed)) {
        ++counters_.stale;
        return nullptr;
    }
    if (!from.is_introduced) {
        static_cast<void>(introduce(ProcId(head.from)));  // the fabric may have to answer before this process does
    }
    if (!take_done(from, head.done)) {
        refuse(head, "it acknowledges what was not sent");
        return nullptr;
    }
    return &from;
}

void Network::Impl::message(Bytes bytes, Bytes payload) {
    WireHead head;
    NetPeer* const from = admit(bytes, head);
    if (from == nullptr) {
        return;
    }
    switch (head.kind) {
        case WireKind::put: return on_put(*from, head, payload);
        case WireKind::put_blocks: return on_put_blocks(*from, head, payload);
        case WireKind::get: return on_get(head, regions_.symmetric(head.address, head.length));
        case WireKind::get_blocks: return on_get_blocks(head);
        case WireKind::fetch: return on_fetch(head);
        case WireKind::post: return on_post(*from, head);
        case WireKind::reply: return on_reply(head, payload);
        case WireKind::channel: return on_channel(head, payload);
        case WireKind::credit: return on_credit(head);
        case WireKind::store_write: return on_store_write(*from, head, payload);
        case WireKind::store_fold: return on_store_fold(*from, head, payload);
        case WireKind::store_read: return on_get(head, regions_.stored(head.address, head.length));
        case WireKind::ack: return on_ack(head, payload);
    }
    refuse(head, "its kind is not known");
}

void Network::Impl::settle(NetPeer& from, const WireHead& head, bool is_refused) {
    SFT_ASSERT(!from.is_retired.load(std::memory_order_relaxed));  // nobody waits for an answer to a dead one
    if (head.request == 0) {
        ++from.executed;
    } else {
        from.answered.push_back(is_refused ? head.request | kAckRefused : head.request & ~kAckRefused);
    }
    if (!is_refused) {
        is_memory_changed_ = true;
    }
    owe_ack(from, ProcId(head.from));
}

void Network::Impl::owe_ack(NetPeer& from, ProcId process) {
    if (!from.is_ack_due) {
        from.is_ack_due = true;
        acks_due_.push_back(process.value());
    }
}

void Network::Impl::on_put(NetPeer& from, const WireHead& head, Bytes payload) {
    std::byte* const place = regions_.symmetric(head.address, head.length);
    const bool is_small = head.length <= kWireSmallBytes;
    const bool is_good = place != nullptr && payload.size() == (is_small ? 0 : head.length);
    if (!is_good) {
        refuse(head, "a put outside of the symmetric memory");
    } else if (is_small) {
        store_small(place, head.operand, head.length);
    } else {
        std::memcpy(place, payload.data(), payload.size());
    }
    if (is_good) {
        mark_written(place, head.length);
    }
    settle(from, head, !is_good);
}

void Network::Impl::mark_written(const std::byte* place, std::size_t bytes) noexcept {
    SFT_ASSERT(place != nullptr && bytes != 0);
    if (marks_.is_set()) [[unlikely]] {
        marks_.mark(place, bytes);
    }
}

void Network::Impl::on_put_blocks(NetPeer& from, const WireHead& head, Bytes payload) {
    const WireBlocks blocks = blocks_of(head);
    std::byte* place = regions_.symmetric(head.address, blocks);
    const bool is_good = place != nullptr && payload.size() == blocks.bytes();
    if (!is_good) {
        refuse(head, "a put outside of the symmetric memory");
    } else {
        const std::byte* source = payload.data();
        for (std::uint32_t i = 0; i < blocks.n_blocks; ++i, source += blocks.block_bytes) {
            std::memcpy(place + static_cast<std::ptrdiff_t>(i) * blocks.step, source, blocks.block_bytes);
            mark_written(place + static_cast<std::ptrdiff_t>(i) * blocks.step, blocks.block_bytes);
        }
    }
    settle(from, head, !is_good);
}

void Network::Impl::on_store_write(NetPeer& from, const WireHead& head, Bytes payload) {
    std::byte* const place = regions_.stored(head.address, head.length);
    const bool is_good = place != nullptr && payload.size() == head.length && head.request != 0;
    if (is_good) {
        std::memcpy(place, payload.data(), payload.size());
    } else {
        refuse(head, "a write outside of the store");
    }
    settle(from, head, !is_good);
}

void Network::Impl::on_store_fold(NetPeer& from, const WireHead& head, Bytes payload) {
    const bool is_good =
        regions_.stored(head.address, head.length) != nullptr && payload.size() == head.length && head.request != 0 &&
        folder_ != nullptr &&
        folder_->fold(head.address, head.operand, (head.flags & kWireAnew) != 0, payload.data(), payload.size());
    if (!is_good) {
        refuse(head, "it adds to what is no parity, or not to be changed");
    }
    settle(from, head, !is_good);
}

void Network::Impl::reply_refused(const WireHead& head) {
    refuse(head, "it reads or changes what is not symmetric memory");
    Reply& reply = replies_.emplace_back();
    reply.to = ProcId(head.from);
    reply.head.kind = WireKind::reply;
    reply.head.flags = kWireRefused;
    reply.head.request = head.request;
}

void Network::Impl::on_get(const WireHead& head, const std::byte* source) {
    if (source == nullptr) {
        reply_refused(head);
        return;
    }
    Reply& reply = replies_.emplace_back();
    reply.to = ProcId(head.from);
    reply.head.kind = WireKind::reply;
    reply.head.length = head.length;
    reply.head.request = head.request;
    if (head.length <= kWireSmallBytes) {
        reply.head.operand = load_small(source, head.length);
    } else {
        reply.source = source;
    }
}

void Network::Impl::on_get_blocks(const WireHead& head) {
    const WireBlocks blocks = blocks_of(head);
    const std::byte* const source = regions_.symmetric(head.address, blocks);
    if (source == nullptr || blocks.bytes() > packed_bytes_) {
        reply_refused(head);
        return;
    }
    Reply& reply = replies_.emplace_back();
    reply.to = ProcId(head.from);
    reply.head.kind = WireKind::reply;
    reply.head.length = blocks.bytes();
    reply.head.request = head.request;
    reply.source = source;
    reply.blocks = blocks;
}

bool Network::Impl::execute_atomic(const WireHead& head, std::uint64_t& value) {
    std::byte* const place = regions_.word(head.address, head.width);
    const auto operation = static_cast<AtomicOperation>(head.operation);
    if (place == nullptr) {
        return false;
    }
    bool is_done = false;
    switch (head.width) {
        case 4: is_done = apply<std::uint32_t>(operation, place, head.operand, head.length, value); break;
        case 8: is_done = apply<std::uint64_t>(operation, place, head.operand, head.length, value); break;
        default: return false;
    }
    mark_written(place, head.width);
    return is_done;
}

void Network::Impl::on_fetch(const WireHead& head) {
    std::uint64_t value = 0;
    if (!execute_atomic(head, value)) {
        reply_refused(head);
        return;
    }
    is_memory_changed_ = true;
    Reply& reply = replies_.emplace_back();
    reply.to = ProcId(head.from);
    reply.head.kind = WireKind::reply;
    reply.head.request = head.request;
    reply.head.operand = value;
}

void Network::Impl::on_post(NetPeer& from, const WireHead& head) {
    std::uint64_t value = 0;
    const bool is_good = execute_atomic(head, value);
    if (!is_good) {
        refuse(head, "an atomic operation outside of the symmetric memory, or an unknown one");
    }
    settle(from, head, !is_good);
}

// ---- large payloads ----

FabricReceiver::Place Network::Impl::expect(const WireHead& head, std::byte* address, bool is_answer) {
    if (arrivals_free_.empty()) {
        arrivals_free_.push_back(static_cast<std::uint32_t>(arrivals_.size()));
        arrivals_.emplace_back();
    }
    const std::uint32_t slot = arrivals_free_.back();
    SFT_ASSERT(slot < arrivals_.size() && !arrivals_[slot].is_used);
    SFT_ASSERT(address != nullptr);
    arrivals_free_.pop_back();
    Arrival& arrival = arrivals_[slot];
    arrival.is_used = true;
    arrival.is_answer = is_answer;
    arrival.head = head;
    return {.address = address, .from = ProcId(head.from), .ticket = slot};
}

FabricReceiver::Place Network::Impl::place(Bytes bytes, std::size_t payload_bytes) {
    WireHead head;
    NetPeer* const from = admit(bytes, head);
    if (from == nullptr) {
        return {};
    }
    if (head.kind == WireKind::reply) {
        Request* const request = requests_.find(head.request, ProcId(head.from));
        const bool is_fitting = request != nullptr && !request->is_arriving && request->bytes == payload_bytes &&
                                head.length == payload_bytes && payload_bytes > kWireSmallBytes &&
                                (request->kind == Request::Kind::get || request->kind == Request::Kind::store_read);
        if (!is_fitting) {
            refuse(head, "an answer to what was not asked");
            return {};
        }
        request->is_arriving = true;
        return expect(head, request->dest, true);
    }
    if (head.kind == WireKind::store_fold && head.length == payload_bytes && payload_bytes <= kPackedBytes &&
        regions_.stored(head.address, payload_bytes) != nullptr) {
        const Place place = expect(head, regions_.stored(head.address, payload_bytes), false);
        std::vector<std::byte>& buffer = arrivals_[place.ticket].buffer;
        buffer.resize(payload_bytes);
        return {.address = buffer.data(), .from = place.from, .ticket = place.ticket};
    }
    std::byte* address = nullptr;
    if (head.kind == WireKind::put) {
        address = regions_.symmetric(head.address, payload_bytes);
    } else if (head.kind == WireKind::store_write && head.request != 0) {
        address = regions_.stored(head.address, payload_bytes);
    } else {
        refuse(head, "its kind has no large payload");
        return {};
    }
    if (address == nullptr || head.length != payload_bytes) {
        refuse(head, "a put outside of the symmetric memory, or of the store");
        settle(*from, head, true);
        return {};
    }
    return expect(head, address, false);
}

void Network::Impl::arrived(std::uint64_t ticket, bool is_whole) {
    SFT_ASSERT(ticket < arrivals_.size() && arrivals_[ticket].is_used);
    Arrival& arrival = arrivals_[ticket];
    const WireHead head = arrival.head;
    const bool is_answer = arrival.is_answer;
    arrival.is_used = false;
    arrivals_free_.push_back(static_cast<std::uint32_t>(ticket));
    NetPeer& from = peer(ProcId(head.from));
    if (is_answer) {
        // The request is there: it cannot end while its place is written to.
        Request* const request = requests_.find(head.request, ProcId(head.from));
        SFT_ASSERT(request != nullptr && request->is_arriving);
        request->is_arriving = false;
        if (is_whole) {
            end_request(*request, false);
        }
    } else if (is_whole && head.kind == WireKind::store_fold && !from.is_retired.load(std::memory_order_relaxed)) {
        on_store_fold(from, head, Bytes(arrival.buffer.data(), arrival.buffer.size()));
    } else if (is_whole && !from.is_retired.load(std::memory_order_relaxed)) {
        if (head.kind == WireKind::put) {
            mark_written(regions_.symmetric(head.address, head.length), head.length);
        }
        settle(from, head, false);
    }
}

void Network::Impl::sent(std::uint64_t ticket) {
    if (ticket != 0) {
        end_outgoing(ticket);
    }
}

}  // namespace sft
