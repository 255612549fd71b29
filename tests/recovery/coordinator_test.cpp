// The checkpoint and restart protocols with threads as processes: a thread dies by leaving in the middle of a duty or
// between two calls, at a place that the seed decides, and a witness enters it in the death log. What is checked at the
// end does not depend on the protocols: every PE has computed the same chain of values as without any death, or the job
// was ended because the plan says that it cannot go on.
#include "recovery/coordinator.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "backup/placement.hpp"

namespace sft {
namespace {

struct Died {};

// What one PE computes: it depends on all earlier steps.
struct Cell {
    std::uint32_t step = 0;
    std::uint64_t value = 1;

    void compute(PeId pe) {
        value = value * 6364136223846793005U + static_cast<std::uint64_t>(pe.value()) + step;
        ++step;
    }
    friend bool operator==(const Cell&, const Cell&) = default;
};

struct Copy {
    std::uint32_t version = 0;
    Cell cell;
};

constexpr std::uint32_t kSteps = 12;

class World;

class Process final : public Duties {
public:
    Process(World& world, ProcId self, std::uint32_t seed);

    void run();

    void ship(Version version) override;
    void fold(Version version) override;
    Restored restore(const Assignment& own, Version version) override;
    bool protect(ProcId keeper, bool moved, Version version) override;

    std::vector<std::vector<Copy>> kept;  // by PE, two slots: this process's memory
    // What a dying process asks the others for (run()): it acts as the witness of its own death.
    std::atomic<bool> holds_pe{false};
    std::atomic<bool> dead{false};
    std::atomic<bool> ended{false};
    std::atomic<bool> finished{false};
    PeId me = kNoPe;
    Cell cell;

private:
    void maybe_die() {
        if (lives_ > 0 && --lives_ == 0) {
            throw Died{};
        }
    }
    void loop();

    World& world_;
    ProcId self_;
    std::unique_ptr<Coordinator> coordinator_;
    FaultGate never_;
    std::uint32_t lives_;  // places passed until it dies; 0: it does not
    ProcId keeper_ = kNoProc;
    Copy local_;
    bool joined_ = true;
};

class World {
public:
    World(std::int32_t pes, std::int32_t n_spares, std::uint32_t seed) : n_pes(pes) {
        std::string error;
        EXPECT_TRUE(control.create(n_pes, n_pes + n_spares, error)) << error;
        std::vector<ProcId> holders;
        std::vector<ProcId> spares;
        for (std::int32_t process = 0; process < n_pes + n_spares; ++process) {
            (process < n_pes ? holders : spares).push_back(ProcId(process));
        }
        const std::vector<ProcId> none(holders.size(), kNoProc);
        const auto keepers = place_keepers({holders, none, spares});
        std::mt19937 random(seed);
        for (std::int32_t process = 0; process < n_pes + n_spares; ++process) {
            if (process < n_pes) {
                control.assignment(Epoch(0), PeId(process)).keeper.store(keepers[PeId(process).index()].value());
            }
            // About one process in three dies, somewhere within the job.
            const std::uint32_t lives = random() % 3 == 0 ? 1 + static_cast<std::uint32_t>(random() % 90) : 0;
            processes.push_back(std::make_unique<Process>(*this, ProcId(process), lives));
        }
    }

    void run() {
        std::vector<std::thread> threads;
        for (auto& process : processes) {
            threads.emplace_back([&process] { process->run(); });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
    }

    void bury(ProcId process) {
        processes[process.index()]->dead = true;
        control.death_log().append(process, {FailureKind::signal, 9});
        for (std::int32_t other = 0; other < control.n_processes(); ++other) {
            control.slot(ProcId(other)).doorbell.ring();
        }
    }

    std::int32_t n_pes;
    ControlSegment control;
    std::vector<std::unique_ptr<Process>> processes;
};

Process::Process(World& world, ProcId self, std::uint32_t lives)
    : kept(static_cast<std::size_t>(world.n_pes), std::vector<Copy>(2)), world_(world), self_(self), lives_(lives) {
    coordinator_ = std::make_unique<Coordinator>(world.control, self, world.n_pes,
                                                 Waiter(&world.control.slot(self).doorbell, &never_, 10), *this);
}

void Process::ship(Version version) {
    maybe_die();
    if (keeper_ == kNoProc) {
        return;
    }
    Copy& slot = world_.processes[keeper_.index()]->kept[me.index()][version.value() % 2];
    slot.version = 0;
    maybe_die();
    slot.cell = cell;
    slot.version = version.value();
    maybe_die();
}

void Process::fold(Version version) {
    maybe_die();
    local_ = {version.value(), cell};
    maybe_die();
}

Duties::Restored Process::restore(const Assignment& own, Version version) {
    maybe_die();
    if (joined_) {
        EXPECT_EQ(local_.version, version.value()) << "a survivor's local copy is the committed version";
        cell = local_.cell;
        return Restored::done;
    }
    if (world_.control.is_dead(own.keeper)) {
        return Restored::source_gone;
    }
    const Copy& slot = world_.processes[own.keeper.index()]->kept[me.index()][version.value() % 2];
    EXPECT_EQ(slot.version, version.value()) << "the shadow holds the committed version";
    cell = slot.cell;
    local_ = {version.value(), cell};
    maybe_die();
    return Restored::done;
}

bool Process::protect(ProcId keeper, bool moved, Version version) {
    maybe_die();
    if (keeper != kNoProc && world_.control.is_dead(keeper)) {
        return false;
    }
    keeper_ = keeper;
    if (moved) {
        ship(version);
    }
    maybe_die();
    return true;
}

void Process::loop() {
    do {
        maybe_die();
        const CheckpointOutcome outcome = joined_ ? coordinator_->checkpoint() : CheckpointOutcome::fault;
        maybe_die();
        if (outcome == CheckpointOutcome::ended) {
            ended = true;
            return;
        }
        if (outcome == CheckpointOutcome::committed) {
            cell.compute(me);
            continue;
        }
        Coordinator::RestartRequest request;
        request.joins = !joined_;
        if (coordinator_->restart(request) != RestartOutcome::resumed) {
            ended = true;
            return;
        }
        joined_ = true;
    } while (cell.step < kSteps);
    finished = true;
}

void Process::run() {
    try {
        ProcessSlot& slot = world_.control.slot(self_);
        if (self_.value() < world_.n_pes) {
            me = PeId(self_.value());
            keeper_ = coordinator_->assignments(world_.control.agreed())[me.index()].keeper;
        } else {
            Waiter waiter(&slot.doorbell, &never_, 0);
            bool over = false;
            waiter.block_until([&] {
                const Stage stage = world_.control.agreed().stage;
                coordinator_->take_over_orphaned_job();
                over = stage == Stage::ended || stage == Stage::finished;
                return over || slot.bound_pe.load() != 0;
            });
            if (slot.bound_pe.load() == 0) {
                return;
            }
            me = PeId(slot.bound_pe.load() - 1);
            joined_ = false;
        }
        holds_pe = true;
        coordinator_->become(me);
        loop();
        // The last shmem_finalize, as far as the spares are concerned.
        const Agreed seen = world_.control.agreed();
        if (finished && !coordinator_->any_holder_died(seen)) {
            if (const auto next = finish(seen)) {
                world_.control.decide(seen, *next);
            }
        } else if (finished) {
            coordinator_->end_job(1);
        }
        world_.control.ring_all();
    } catch (const Died&) {
        world_.bury(self_);
        // A death after everybody has left the loop wakes the spares as the end of the job does.
        const Agreed seen = world_.control.agreed();
        bool all_left = true;
        for (const auto& process : world_.processes) {
            all_left = all_left && (!process->holds_pe || process->dead || process->ended || process->finished);
        }
        if (all_left && seen.stage == Stage::running) {
            coordinator_->end_job(1);
        }
    }
}

TEST(Coordinator, WithoutDeathsEveryoneComputesTheChain) {
    World world(5, 2, 0);
    for (auto& process : world.processes) {
        process =
            std::make_unique<Process>(world, ProcId(static_cast<std::int32_t>(&process - world.processes.data())), 0);
    }
    world.run();
    for (std::int32_t pe = 0; pe < 5; ++pe) {
        EXPECT_TRUE(world.processes[PeId(pe).index()]->finished);
        EXPECT_EQ(world.processes[PeId(pe).index()]->cell.step, kSteps);
    }
    EXPECT_EQ(world.control.agreed().version, Version(kSteps));
}

class CoordinatorSeeds : public testing::TestWithParam<std::uint32_t> {};

TEST_P(CoordinatorSeeds, RecoveredOrEndedNeverWrong) {
    int recovered = 0;
    for (std::uint32_t i = 0; i < 150; ++i) {
        const std::uint32_t seed = GetParam() * 1000 + i;
        World world(static_cast<std::int32_t>(1 + seed % 5), static_cast<std::int32_t>(seed / 7 % 5), seed);
        world.run();
        bool some_finished = false;
        bool some_ended = false;
        for (const auto& process : world.processes) {
            some_finished = some_finished || process->finished;
            some_ended = some_ended || process->ended;
            if (!process->finished) {
                continue;
            }
            Cell expected;
            while (expected.step < kSteps) {
                expected.compute(process->me);
            }
            ASSERT_EQ(process->cell, expected) << "seed " << seed << ", PE " << process->me.value();
        }
        // A death after the last commit ends the job while some have left the loop; before it, all do the same.
        const bool all_committed = world.control.agreed().version >= Version(kSteps);
        ASSERT_FALSE(some_finished && some_ended && !all_committed) << "seed " << seed << ": not all do the same";
        recovered += some_finished && world.control.death_log().length() > DeathCount(0);
    }
    EXPECT_GT(recovered, 20) << "too few of the seeds make a recovery: the test proves little";
}

INSTANTIATE_TEST_SUITE_P(Seeds, CoordinatorSeeds, testing::Values(1U, 2U, 3U, 4U));

}  // namespace
}  // namespace sft
