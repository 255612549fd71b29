// A job in one process: every PE is a thread with an Engine and a block of memory of its own. The routines under test
// see what they see in a real job, except that symmetric memory lies at another address in each PE, which the
// difference in the peer table covers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "shmem_ft/ops/collectives.hpp"
#include "shmem_ft/ops/engine.hpp"
#include "shmem_ft/ops/target.hpp"
#include "shmem_ft/ops/teams.hpp"

namespace sft::testing {

// Counts that matter to the algorithms: one, powers of two, and others.
inline const auto kJobSizes = ::testing::Values(1, 2, 3, 4, 5, 8);

// What the function of one PE gets.
class Pe {
public:
    Pe(Engine& e, unsigned char* heap, std::size_t heap_bytes) : engine(e), heap_(heap), heap_bytes_(heap_bytes) {}

    [[nodiscard]] int me() const { return engine.peers.me.value(); }
    [[nodiscard]] int n() const { return engine.peers.n_pes; }
    [[nodiscard]] PeGroup all() const { return world(engine); }
    [[nodiscard]] Target to(int pe) const { return {engine, PeId(pe)}; }

    // Symmetric as long as all PEs ask for the same things in the same order.
    template <class T>
    T* reserve(std::size_t count) {
        used_ = (used_ + alignof(std::max_align_t) - 1) / alignof(std::max_align_t) * alignof(std::max_align_t);
        T* const block = reinterpret_cast<T*>(heap_ + used_);
        used_ += count * sizeof(T);
        if (used_ > heap_bytes_) {
            ADD_FAILURE() << "the heap of the harness is too small";
            std::abort();
        }
        return block;
    }

    // The same, filled; others may write to it only after a barrier.
    template <class T>
    T* allocate(std::size_t count, T fill = T{}) {
        T* const block = reserve<T>(count);
        std::fill_n(block, count, fill);
        return block;
    }

    void barrier() { EXPECT_TRUE(sft::barrier(engine, all())); }

    Engine& engine;

private:
    unsigned char* heap_;
    std::size_t heap_bytes_;
    std::size_t used_ = 0;
};

class Job {
public:
    explicit Job(int n, std::size_t heap_bytes = std::size_t{4} << 20) : n_(n), heap_bytes_(heap_bytes) {
        const auto count = static_cast<std::size_t>(n);
        bells_ = std::make_unique<Doorbell[]>(count);
        rings_ = std::make_unique<ChannelRing[]>(kLanesMax * count * count);
        marks_ = std::make_unique<LaneMarks[]>(count);
        points_ = std::make_unique<MeetingPoint[]>(kLanesMax * count);
        for (std::size_t pe = 0; pe < count; ++pe) {
            members_.push_back(std::make_unique<Member>(count, heap_bytes));
        }
        for (std::size_t pe = 0; pe < count; ++pe) {
            connect(pe);
        }
    }

    [[nodiscard]] Engine& engine(int pe) { return members_[static_cast<std::size_t>(pe)]->engine; }

    // Runs body once per PE, all at the same time, and waits for all.
    void run(const std::function<void(Pe&)>& body) {
        std::vector<std::thread> threads;
        for (auto& member : members_) {
            threads.emplace_back([&, this] {
                Pe pe(member->engine, member->heap.get(), heap_bytes_);
                body(pe);
            });
        }
        for (auto& thread : threads) {
            thread.join();
        }
    }

    // What the service threads do when a PE has died.
    void announce_death(int dead) {
        for (auto& member : members_) {
            PeerEntry& entry = member->entries[static_cast<std::size_t>(dead)];
            entry.heap_difference.store(kUnreachable);
            entry.globals_difference.store(kUnreachable);
            member->engine.gate.pending.store(true);
        }
        for (int pe = 0; pe < n_; ++pe) {
            bells_[static_cast<std::size_t>(pe)].ring();
        }
    }

private:
    struct Member {
        Member(std::size_t n, std::size_t heap_bytes)
            : heap(new (std::align_val_t{64}) unsigned char[heap_bytes]()), entries(n) {}
        ~Member() { ::operator delete[](heap.release(), std::align_val_t{64}); }

        Engine engine;
        std::unique_ptr<unsigned char[]> heap;
        std::vector<PeerEntry> entries;
    };

    void connect(std::size_t me) {
        const auto count = static_cast<std::size_t>(n_);
        Member& member = *members_[me];
        Engine& e = member.engine;
        const auto base = reinterpret_cast<std::uintptr_t>(member.heap.get());
        e.peers.heap = {base, heap_bytes_};
        e.peers.globals = {0, 0};
        e.peers.entries = member.entries.data();
        e.peers.n_pes = n_;
        e.peers.me = PeId(static_cast<std::int32_t>(me));
        std::vector<Doorbell*> bells;
        for (std::size_t pe = 0; pe < count; ++pe) {
            const auto theirs = reinterpret_cast<std::uintptr_t>(members_[pe]->heap.get());
            member.entries[pe].heap_difference.store(static_cast<std::intptr_t>(theirs - base));
            member.entries[pe].globals_difference.store(0);
            bells.push_back(&bells_[pe]);
        }
        e.waiter = Waiter(&bells_[me], &e.gate, WaitStyle{50, n_ > 4 ? 4U : 0U});
        e.channels.connect({rings_.get(), marks_.get(), points_.get(), count}, e.peers.me, bells, &e.waiter);
        reset_handles(e);
    }

    int n_;
    std::size_t heap_bytes_;
    std::unique_ptr<Doorbell[]> bells_;
    std::unique_ptr<ChannelRing[]> rings_;
    std::unique_ptr<LaneMarks[]> marks_;
    std::unique_ptr<MeetingPoint[]> points_;
    std::vector<std::unique_ptr<Member>> members_;
};

// Runs the body on jobs of several sizes.
class OnJobs : public ::testing::TestWithParam<int> {
protected:
    void run(const std::function<void(Pe&)>& body) { Job(GetParam()).run(body); }
};

}  // namespace sft::testing
