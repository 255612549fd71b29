#include "transport/net/network.hpp"

#include <algorithm>

#include "base/report.hpp"
#include "transport/net/network_impl.hpp"

namespace sft {

void Network::Impl::set_holder(PeId pe, ProcId process) {
    SFT_ASSERT(pe.value() >= 0 && pe.value() < options_.n_pes);
    SFT_ASSERT(process == kNoProc || (process.value() >= 0 && process.value() < options_.n_slots));
    SFT_ASSERT(process != options_.self);  // nobody reaches himself through the network
    holders_[pe.index()].store(process.value(), std::memory_order_release);
}

bool Network::Impl::is_reachable(PeId pe) const noexcept {
    SFT_ASSERT(pe.value() >= 0 && pe.value() < options_.n_pes);
    const std::int32_t process = holders_[pe.index()].load(std::memory_order_acquire);
    return process >= 0 && !peers_[static_cast<std::size_t>(process)].is_retired.load(std::memory_order_relaxed);
}

void Network::Impl::retire_peer(ProcId process) {
    SFT_ASSERT(process != options_.self);
    n_urgent_.fetch_add(1);
    const Locked lock(mutex_);
    n_urgent_.fetch_sub(1);
    NetPeer& dead = peer(process);
    if (dead.is_retired.exchange(true)) {
        return;
    }
    fabric_->retire_peer(process);
    for (RequestList& list : dead.requests.lists) {
        while (list.first != kNoSlot) {
            Request& request = requests_.at(list.first);
            if (request.is_arriving) {
                die("a fabric holds on to the memory that process %d was to write to", process.value());
            }
            end_request(request, false);
        }
    }
    SFT_ASSERT(dead.requests.n_open == 0 && dead.store_bytes == 0);
    dead.done = dead.issued;
    dead.bytes_done = dead.bytes_issued;
    dead.answered.clear();
    dead.is_ack_due = false;
    std::erase_if(replies_, [=](const Reply& reply) { return reply.to == process; });
    std::erase_if(lanes_.early, [=](const EarlyMessage& early) { return early.head.from == process.value(); });
    has_news_ = true;
    finish();
}

void Network::Impl::set_store(std::byte* begin, std::size_t bytes) {
    const Locked lock(mutex_);
    SFT_ASSERT((begin != nullptr) == (bytes != 0));
    regions_.store = begin;
    regions_.store_bytes = bytes;
}

void Network::Impl::set_folder(StoreFolder* folder) {
    const Locked lock(mutex_);
    folder_ = folder;
}

void Network::Impl::set_marks(const WriteMarks& marks) {
    const Locked lock(mutex_);
    marks_ = marks;
}

Network::Network() : impl_(std::make_unique<Impl>()) {}
Network::~Network() { impl_->close(); }

Result<> Network::open(Options options) { return impl_->open(std::move(options)); }
void Network::close() noexcept { impl_->close(); }

Bytes Network::address() const noexcept { return impl_->fabric_->address(); }

bool Network::has_listeners() const noexcept { return impl_->fabric_->has_listeners(); }

bool Network::admit(const std::vector<ProcId>& processes) {
    const Locked lock(impl_->mutex_);
    std::vector<Bytes> addresses;
    for (const ProcId process : processes) {
        addresses.push_back(impl_->options_.address_of(process));
    }
    return impl_->fabric_->admit(addresses);
}

std::string Network::describe() const {
    const Locked lock(impl_->mutex_);
    return impl_->fabric_->describe();
}

bool Network::writes_by_threads() const {
    const Locked lock(impl_->mutex_);
    return impl_->fabric_->copies_payloads();
}

void Network::set_self(PeId me) {
    SFT_ASSERT(me.value() >= 0 && me.value() < impl_->options_.n_pes);
    const std::int32_t before = impl_->me_.exchange(me.value(), std::memory_order_relaxed);
    SFT_ASSERT(before == kNoPe.value() || before == me.value());
}
void Network::set_holder(PeId pe, ProcId process) { impl_->set_holder(pe, process); }
bool Network::is_reachable(PeId pe) const noexcept { return impl_->is_reachable(pe); }
void Network::retire_peer(ProcId process) { impl_->retire_peer(process); }
void Network::reset_channels(std::uint32_t epoch) { impl_->reset_channels(epoch); }
void Network::set_marks(const WriteMarks& marks) { impl_->set_marks(marks); }
void Network::set_store(std::byte* begin, std::size_t bytes) { impl_->set_store(begin, bytes); }
void Network::set_folder(StoreFolder* folder) { impl_->set_folder(folder); }

void Network::put(PeId pe, void* dest, const void* source, std::size_t bytes) {
    impl_->put(pe, dest, source, bytes, true);
}
void Network::put_nbi(PeId pe, void* dest, const void* source, std::size_t bytes) {
    impl_->put(pe, dest, source, bytes, false);
}
void Network::get(PeId pe, void* dest, const void* source, std::size_t bytes) {
    impl_->get(pe, dest, source, bytes, true);
}
void Network::get_nbi(PeId pe, void* dest, const void* source, std::size_t bytes) {
    impl_->get(pe, dest, source, bytes, false);
}
void Network::put_blocks(PeId pe, void* dest, const void* source, NetBlocks blocks) {
    impl_->put_blocks(pe, dest, source, blocks);
}
void Network::get_blocks(PeId pe, void* dest, const void* source, NetBlocks blocks) {
    impl_->get_blocks(pe, dest, source, blocks);
}
void Network::fence() { impl_->fence(); }
void Network::quiet() { impl_->quiet(); }

namespace {

WireHead atomic_head(AtomicOperation operation, std::size_t width, void* address, std::uint64_t operand) {
    static_assert(sizeof operation == sizeof WireHead::operation);
    SFT_ASSERT(width == 4 || width == 8);  // the target knows no others
    WireHead head;
    head.operation = static_cast<std::uint8_t>(operation);
    head.width = static_cast<std::uint8_t>(width);
    head.address = reinterpret_cast<std::uintptr_t>(address);
    head.operand = operand;
    return head;
}

}  // namespace

std::uint64_t Network::atomic_fetch(PeId pe, AtomicOperation operation, std::size_t width, void* address,
                                    std::uint64_t operand, std::uint64_t condition) {
    WireHead head = atomic_head(operation, width, address, operand);
    head.length = condition;
    return impl_->fetch(pe, head);
}
void Network::atomic_post(PeId pe, AtomicOperation operation, std::size_t width, void* address, std::uint64_t operand) {
    impl_->post(pe, atomic_head(operation, width, address, operand));
}

bool Network::send(PeId to, LaneId lane, const void* payload, std::size_t bytes) {
    return impl_->send(to, lane, payload, bytes);
}
bool Network::try_receive(PeId from, LaneId lane, void* payload, std::size_t bytes) {
    return impl_->try_receive(from, lane, payload, bytes);
}

void Network::write_store(ProcId process, std::size_t offset, const void* source, std::size_t bytes) {
    impl_->write_store(process, offset, source, bytes);
}
void Network::read_store(ProcId process, std::size_t offset, void* dest, std::size_t bytes) {
    impl_->read_store(process, offset, dest, bytes);
}
void Network::fold_store(ProcId process, std::size_t offset, std::uint64_t build, bool is_anew, const void* source,
                         std::size_t bytes) {
    impl_->fold_store(process, offset, build, is_anew, source, bytes);
}
bool Network::flush_store(ProcId process) { return impl_->flush_store(process); }
std::size_t Network::store_piece_bytes() const noexcept { return impl_->fabric_->piece_bytes(); }

void Network::drain_store(ProcId process, std::size_t bytes) { impl_->drain_store(process, bytes); }

bool Network::poll() { return impl_->poll(); }

Network::Polling::Polling(Network* network) noexcept : network_(network) {
    if (network_ != nullptr) {
        network_->impl_->enter_polling();
    }
}
Network::Polling::~Polling() {
    if (network_ != nullptr) {
        network_->impl_->leave_polling();
    }
}

Network::Counters Network::counters() const {
    const Locked lock(impl_->mutex_);
    return impl_->counters_;
}

}  // namespace sft
