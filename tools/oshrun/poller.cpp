#include "tools/oshrun/poller.hpp"

#include <algorithm>
#include <array>

namespace sft::tools {
namespace {

constexpr std::size_t kBatchMax = 1024;

epoll_event entry_of(Source source, std::uint32_t id, std::uint32_t events) {
    epoll_event entry{};
    entry.events = events;
    entry.data.u64 = (static_cast<std::uint64_t>(source) << 32) | id;
    return entry;
}

}  // namespace

bool Poller::open() {
    epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
    return static_cast<bool>(epoll_);
}

bool Poller::add(int fd, Source source, std::uint32_t id, std::uint32_t events) {
    epoll_event entry = entry_of(source, id, events);
    return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &entry) == 0;
}

void Poller::change(int fd, Source source, std::uint32_t id, std::uint32_t events) {
    epoll_event entry = entry_of(source, id, events);
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &entry);
}

void Poller::remove(int fd) { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

std::vector<Poller::Event> Poller::wait(int timeout_ms) {
    std::array<epoll_event, kBatchMax> batch;
    const int count = epoll_wait(epoll_.get(), batch.data(), static_cast<int>(batch.size()), timeout_ms);
    const auto end = batch.begin() + std::max(count, 0);
    std::sort(batch.begin(), end, [](const epoll_event& a, const epoll_event& b) { return a.data.u64 < b.data.u64; });
    std::vector<Event> news;
    for (auto item = batch.begin(); item != end; ++item) {
        news.push_back(
            {static_cast<Source>(item->data.u64 >> 32), static_cast<std::uint32_t>(item->data.u64 & 0xffffffff)});
    }
    return news;
}

}  // namespace sft::tools
