// The asking side: what is sent, and what a caller waits for.
#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/net/network_impl.hpp"

namespace sft {
namespace {

std::uint64_t number_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

bool fits_operand(std::size_t bytes) { return bytes <= kWireSmallBytes; }

Bytes bytes_at(const void* address, std::size_t bytes) { return {static_cast<const std::byte*>(address), bytes}; }

}  // namespace

// Null: the PE is not reached through the network, or dead.
NetPeer* Network::Impl::peer_of(PeId pe, WireOperation operation, ProcId& process) {
    SFT_ASSERT(pe.value() >= 0 && pe.value() < options_.n_pes);
    process = ProcId(holders_[pe.index()].load(std::memory_order_acquire));
    if (process == kNoProc) {
        return nullptr;
    }
    SFT_ASSERT(fabric_->way_to(process, operation) == Way::by_message);  // the other way would branch off here
    return reach(process);
}

// What cannot be sent to is never counted as under way.
NetPeer* Network::Impl::reach(ProcId process) {
    NetPeer& found = peer(process);
    if (found.is_retired.load(std::memory_order_relaxed) || (!found.is_introduced && !introduce(process))) {
        return nullptr;
    }
    return &found;
}

bool Network::Impl::introduce(ProcId process) {
    const Bytes address = options_.address_of(process);
    if (address.empty()) {
        return false;
    }
    NetPeer& other = peer(process);
    SFT_ASSERT(!other.is_introduced && other.issued == 0);
    SFT_ASSERT(address.size() <= kFabricAddressBytes && process != options_.self);
    fabric_->introduce(process, address);
    other.is_introduced = true;
    other.bytes_of = std::make_unique<std::uint32_t[]>(kWindowMessages);
    known_.push_back(process.value());
    return true;
}

Fabric::Sent Network::Impl::transmit(ProcId process, WireHead& head, Bytes payload, std::uint64_t ticket) {
    NetPeer& to = peer(process);
    if (!to.is_introduced && !introduce(process)) {
        return Fabric::Sent::gone;
    }
    SFT_ASSERT(process != options_.self && head.kind != WireKind{});
    head.secret = options_.secret;
    head.from = options_.self.value();
    head.to = process.value();
    head.done = to.executed;
    if (to.answered.empty()) {
        to.is_ack_due = false;  // this head says it
    }
    ++counters_.sent;
    const Fabric::Sent result = fabric_->send(process, std::as_bytes(std::span(&head, 1)), payload, ticket);
    if (result == Fabric::Sent::gone && !to.is_lost && !to.is_retired.load(std::memory_order_relaxed)) {
        lost(process);
    }
    return result;
}

void Network::Impl::lost(ProcId process) {
    peer(process).is_lost = true;
    lost_.push_back(process);
    wake_thread();
}

bool Network::Impl::begin_counted(NetPeer& other, std::size_t bytes) {
    await([&] { return other.has_room(bytes); });
    if (other.is_retired.load(std::memory_order_relaxed)) {
        return false;
    }
    SFT_ASSERT(other.is_introduced && other.has_room(bytes));
    SFT_ASSERT(bytes <= UINT32_MAX);
    other.bytes_of[other.issued % kWindowMessages] = static_cast<std::uint32_t>(bytes);
    ++other.issued;
    other.bytes_issued += bytes;
    SFT_ASSERT(other.issued - other.done <= kWindowMessages);
    return true;
}

bool Network::Impl::await_request_room(NetPeer& other) {
    await([&] { return other.requests.n_open < kWindowRequests; });
    return !other.is_retired.load(std::memory_order_relaxed);
}

Network::Impl::Outgoing& Network::Impl::begin_outgoing(Awaited* awaited) {
    if (outgoing_free_.empty()) {
        outgoing_free_.push_back(static_cast<std::uint32_t>(outgoing_.size()));
        Outgoing& made = outgoing_.emplace_back();
        made.slot = outgoing_free_.back();
    }
    SFT_ASSERT(outgoing_free_.back() < outgoing_.size());
    Outgoing& outgoing = outgoing_[outgoing_free_.back()];
    SFT_ASSERT(outgoing.awaited == nullptr && outgoing.slot == outgoing_free_.back());
    outgoing_free_.pop_back();
    outgoing.awaited = awaited;
    return outgoing;
}

void Network::Impl::end_outgoing(std::uint64_t ticket) {
    SFT_ASSERT(ticket != 0 && ticket <= outgoing_.size());
    Outgoing& outgoing = outgoing_[ticket - 1];
    SFT_ASSERT(outgoing_free_.size() < outgoing_.size());
    SFT_ASSERT_SLOW(std::find(outgoing_free_.begin(), outgoing_free_.end(), outgoing.slot) == outgoing_free_.end());
    if (outgoing.awaited != nullptr) {
        SFT_ASSERT(outgoing.awaited->n_open != 0);
        --outgoing.awaited->n_open;
        outgoing.awaited = nullptr;
        has_news_ = true;
    }
    outgoing_free_.push_back(outgoing.slot);
}

// A buffer for what is packed.
Network::Impl::Outgoing& Network::Impl::begin_packed() {
    Outgoing& outgoing = begin_outgoing(nullptr);
    if (outgoing.buffer == nullptr) {
        outgoing.buffer = std::make_unique_for_overwrite<std::byte[]>(packed_bytes_);
    }
    return outgoing;
}

void Network::Impl::transmit_outgoing(ProcId process, WireHead& head, Bytes payload, Outgoing& outgoing) {
    const std::uint64_t ticket = outgoing.slot + 1;
    if (transmit(process, head, payload, ticket) != Fabric::Sent::pending) {
        end_outgoing(ticket);
    }
}

// ---- put ----

void Network::Impl::put(PeId pe, void* dest, const void* source, std::size_t bytes, bool is_source_reused) {
    if (bytes == 0) {
        return;
    }
    const Locked lock(mutex_);
    ProcId process;
    if (peer_of(pe, WireOperation::put, process) == nullptr) {
        return;
    }
    WireHead head;
    head.kind = WireKind::put;
    head.address = number_of(dest);
    head.length = bytes;
    if (fits_operand(bytes)) {
        put_small(process, head, source);
    } else {
        put_bytes(process, head, bytes_at(source, bytes), is_source_reused);
    }
    finish();
}

void Network::Impl::put_small(ProcId process, WireHead& head, const void* source) {
    SFT_ASSERT(head.length <= sizeof head.operand);
    std::memcpy(&head.operand, source, head.length);
    if (begin_counted(peer(process), 0)) {
        transmit(process, head);
    }
}

void Network::Impl::put_bytes(ProcId process, WireHead& head, Bytes payload, bool is_source_reused) {
    NetPeer& to = peer(process);
    if (payload.size() <= eager_bytes_) {
        if (!begin_counted(to, payload.size())) {
            return;
        }
    } else {
        if (!await_request_room(to)) {
            return;
        }
        head.request = requests_.begin(to.requests, Request::Kind::put, process).id();
        SFT_ASSERT(head.request != 0 && (head.request & kAckRefused) == 0);
        SFT_ASSERT(to.requests.n_open <= kWindowRequests);
    }
    Awaited source_free{.n_open = 1, .value = 0};
    transmit_outgoing(process, head, payload, begin_outgoing(is_source_reused ? &source_free : nullptr));
    if (is_source_reused) {
        finish();
        await([&] { return source_free.n_open == 0; });
    }
}

std::size_t Network::Impl::blocks_per_message(std::size_t block_bytes) const noexcept {
    SFT_ASSERT(block_bytes != 0);
    return std::max<std::size_t>(packed_bytes_ / block_bytes, 1);
}

void Network::Impl::put_blocks(PeId pe, void* dest, const void* source, NetBlocks blocks) {
    if (blocks.block_bytes == 0) {
        return;
    }
    const auto* from = static_cast<const std::byte*>(source);
    auto* to = static_cast<std::byte*>(dest);
    const std::size_t n_max = blocks_per_message(blocks.block_bytes);
    while (blocks.n_blocks != 0) {
        const std::size_t n = std::min(blocks.n_blocks, n_max);
        if (n == 1) {
            put(pe, to, from, blocks.block_bytes, true);
        } else {
            put_packed(pe, to, from, blocks, n);
        }
        from += static_cast<std::ptrdiff_t>(n) * blocks.source_step;
        to += static_cast<std::ptrdiff_t>(n) * blocks.dest_step;
        blocks.n_blocks -= n;
    }
}

void Network::Impl::put_packed(PeId pe, std::byte* to, const std::byte* from, const NetBlocks& blocks, std::size_t n) {
    const Locked lock(mutex_);
    ProcId process;
    NetPeer* const other = peer_of(pe, WireOperation::put, process);
    const std::size_t bytes = n * blocks.block_bytes;
    if (other == nullptr || !begin_counted(*other, bytes)) {
        return;
    }
    SFT_ASSERT(n > 1 && bytes <= packed_bytes_);
    Outgoing& outgoing = begin_packed();
    std::byte* packed = outgoing.buffer.get();
    for (std::size_t i = 0; i < n; ++i, from += blocks.source_step, packed += blocks.block_bytes) {
        std::memcpy(packed, from, blocks.block_bytes);
    }
    WireHead head;
    head.kind = WireKind::put_blocks;
    head.address = number_of(to);
    head.length = wire_pair(static_cast<std::uint32_t>(blocks.block_bytes), static_cast<std::uint32_t>(n));
    head.operand = static_cast<std::uint64_t>(blocks.dest_step);
    transmit_outgoing(process, head, Bytes(outgoing.buffer.get(), bytes), outgoing);
    finish();
}

// ---- get ----

void Network::Impl::get(PeId pe, void* dest, const void* source, std::size_t bytes, bool is_awaited) {
    if (bytes == 0) {
        return;
    }
    const Locked lock(mutex_);
    Awaited awaited;
    ask_get(pe, dest, source, bytes, is_awaited ? &awaited : nullptr);
    finish();
    if (is_awaited) {
        await([&] { return awaited.n_open == 0; });
    }
}

void Network::Impl::ask_get(PeId pe, void* dest, const void* source, std::size_t bytes, Awaited* awaited) {
    WireHead head;
    head.kind = WireKind::get;
    head.address = number_of(source);
    head.length = bytes;
    ask(pe, head, {.kind = Request::Kind::get, .dest = static_cast<std::byte*>(dest), .bytes = bytes}, awaited);
}

// Sends what brings something back to `wanted`.
void Network::Impl::ask(PeId pe, WireHead& head, const Wanted& wanted, Awaited* awaited) {
    ProcId process;
    NetPeer* const other =
        peer_of(pe, wanted.kind == Request::Kind::fetch ? WireOperation::atomic : WireOperation::get, process);
    if (other == nullptr || !await_request_room(*other)) {
        return;
    }
    Request& request = requests_.begin(other->requests, wanted.kind, process);
    SFT_ASSERT(other->requests.n_open <= kWindowRequests);
    SFT_ASSERT(wanted.kind == Request::Kind::fetch ? awaited != nullptr : wanted.dest != nullptr && wanted.bytes != 0);
    request.dest = wanted.dest;
    request.bytes = wanted.bytes;
    request.n_blocks = wanted.n_blocks;
    request.dest_step = wanted.dest_step;
    request.awaited = awaited;
    if (awaited != nullptr) {
        ++awaited->n_open;
    }
    head.request = request.id();
    SFT_ASSERT(head.request != 0 && (head.request & kAckRefused) == 0);
    transmit(process, head);
}

void Network::Impl::get_blocks(PeId pe, void* dest, const void* source, NetBlocks blocks) {
    if (blocks.block_bytes == 0) {
        return;
    }
    const auto* from = static_cast<const std::byte*>(source);
    auto* to = static_cast<std::byte*>(dest);
    const std::size_t n_max = blocks_per_message(blocks.block_bytes);
    const Locked lock(mutex_);
    Awaited awaited;
    while (blocks.n_blocks != 0) {
        const std::size_t n = std::min(blocks.n_blocks, n_max);
        if (n == 1) {
            ask_get(pe, to, from, blocks.block_bytes, &awaited);
        } else {
            SFT_ASSERT(n * blocks.block_bytes <= packed_bytes_);  // as the other side puts them together
            WireHead head;
            head.kind = WireKind::get_blocks;
            head.address = number_of(from);
            head.length = wire_pair(static_cast<std::uint32_t>(blocks.block_bytes), static_cast<std::uint32_t>(n));
            head.operand = static_cast<std::uint64_t>(blocks.source_step);
            const Wanted wanted{.kind = Request::Kind::get_blocks,
                                .dest = to,
                                .bytes = blocks.block_bytes,
                                .n_blocks = n,
                                .dest_step = blocks.dest_step};
            ask(pe, head, wanted, &awaited);
        }
        from += static_cast<std::ptrdiff_t>(n) * blocks.source_step;
        to += static_cast<std::ptrdiff_t>(n) * blocks.dest_step;
        blocks.n_blocks -= n;
    }
    finish();
    await([&] { return awaited.n_open == 0; });
}

// ---- order and completion ----

// By indices, since others may be introduced while this waits.
void Network::Impl::fence() {
    const Locked lock(mutex_);
    for (std::size_t i = 0; i < known_.size(); ++i) {
        fence(peers_[static_cast<std::size_t>(known_[i])]);
    }
}

void Network::Impl::fence(NetPeer& other) {
    const RequestList& writes = other.requests.of(RequestSort::write);
    const std::uint64_t last = writes.n_begun;
    await([&] {
        mutex_.assert_held();
        return requests_.is_over(writes, last);
    });
}

// What others begin meanwhile is not waited for, since the numbers are taken first; a thread that goes on putting would
// keep this one for ever.
void Network::Impl::quiet() {
    const Locked lock(mutex_);
    struct Goal {
        NetPeer* peer;
        std::uint64_t issued;
        std::uint64_t writes;
        std::uint64_t reads;
    };
    const auto is_over = [this](const Goal& goal) {
        mutex_.assert_held();
        RequestLists& requests = goal.peer->requests;
        return goal.peer->done >= goal.issued && requests_.is_over(requests.of(RequestSort::write), goal.writes) &&
               requests_.is_over(requests.of(RequestSort::read), goal.reads);
    };
    const auto goal_of = [this](std::int32_t process) {
        NetPeer& other = peers_[static_cast<std::size_t>(process)];
        return Goal{&other, other.issued, other.requests.of(RequestSort::write).n_begun,
                    other.requests.of(RequestSort::read).n_begun};
    };
    // Mostly there is nothing to wait for, or one process: then no memory is asked for.
    std::size_t i = 0;
    while (i < known_.size() && is_over(goal_of(known_[i]))) {
        ++i;
    }
    if (i == known_.size()) {
        return;
    }
    const Goal first = goal_of(known_[i]);
    std::vector<Goal> others;
    for (++i; i < known_.size(); ++i) {
        const Goal goal = goal_of(known_[i]);
        if (!is_over(goal)) {
            others.push_back(goal);
        }
    }
    await([&] { return is_over(first); });
    for (const Goal& goal : others) {
        await([&] { return is_over(goal); });
    }
}

// ---- atomics ----

std::uint64_t Network::Impl::fetch(PeId pe, const WireHead& what) {
    const Locked lock(mutex_);
    WireHead head = what;
    head.kind = WireKind::fetch;
    Awaited awaited;
    ask(pe, head, {.kind = Request::Kind::fetch}, &awaited);
    finish();
    await([&] { return awaited.n_open == 0; });
    return awaited.value;
}

void Network::Impl::post(PeId pe, const WireHead& what) {
    const Locked lock(mutex_);
    ProcId process;
    NetPeer* const other = peer_of(pe, WireOperation::atomic, process);
    if (other == nullptr || !begin_counted(*other, 0)) {
        return;
    }
    WireHead head = what;
    head.kind = WireKind::post;
    transmit(process, head);
    finish();
}

// ---- stores ----

void Network::Impl::write_store(ProcId process, std::size_t offset, const void* source, std::size_t bytes) {
    WireHead head;
    head.kind = WireKind::store_write;
    head.address = offset;
    access_store(process, head, nullptr, bytes_at(source, bytes));
}

void Network::Impl::read_store(ProcId process, std::size_t offset, void* dest, std::size_t bytes) {
    auto* const to = static_cast<std::byte*>(dest);
    WireHead head;
    head.kind = WireKind::store_read;
    head.address = offset;
    access_store(process, head, to, Bytes(to, bytes));
}

void Network::Impl::fold_store(ProcId process, std::size_t offset, std::uint64_t build, bool is_anew,
                               const void* source, std::size_t bytes) {
    WireHead head;
    head.kind = WireKind::store_fold;
    head.address = offset;
    head.operand = build;
    head.flags = is_anew ? kWireAnew : 0;
    access_store(process, head, nullptr, bytes_at(source, bytes));
}

// What is sent to a store is answered in one way, whatever is done with it there.
void Network::Impl::access_store(ProcId process, WireHead head, std::byte* dest, Bytes data) {
    if (data.empty()) {
        return;
    }
    const Locked lock(mutex_);
    if (reach(process) == nullptr || !await_request_room(peer(process))) {
        peer(process).is_store_refused = true;
        return;
    }
    NetPeer& other = peer(process);
    const bool is_sent = head.kind != WireKind::store_read;
    Request& request =
        requests_.begin(other.requests, is_sent ? Request::Kind::store_write : Request::Kind::store_read, process);
    SFT_ASSERT(is_sent == (dest == nullptr));
    SFT_ASSERT(other.requests.n_open <= kWindowRequests);
    request.dest = dest;
    request.bytes = data.size();
    other.store_bytes += data.size();
    head.length = data.size();
    head.request = request.id();
    transmit(process, head, is_sent ? data : Bytes());
    finish();
}

bool Network::Impl::flush_store(ProcId process) {
    const Locked lock(mutex_);
    NetPeer& other = peer(process);
    const RequestList& list = other.requests.of(RequestSort::store);
    const std::uint64_t last = list.n_begun;
    await([&] {
        mutex_.assert_held();
        return requests_.is_over(list, last);
    });
    SFT_ASSERT(list.first != kNoSlot || other.store_bytes == 0);
    const bool is_refused = std::exchange(other.is_store_refused, false);
    return !is_refused && !other.is_retired.load(std::memory_order_relaxed);
}

void Network::Impl::drain_store(ProcId process, std::size_t bytes) {
    const Locked lock(mutex_);
    const NetPeer& other = peer(process);
    if (other.store_bytes > bytes) {
        await([&] { return other.store_bytes <= bytes - bytes / 8; });
    }
}

}  // namespace sft
