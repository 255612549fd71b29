#include "backup/checkpoint_pace.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

namespace sft {
namespace {

using Kind = CheckpointInterval::Kind;
using Call = CheckpointPace::Call;

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kSecond = 1000 * kMs;
constexpr std::int64_t kDay = 86'400 * kSecond;

TEST(BestInterval, IsThatOfYoungForAShortCheckpoint) {
    for (const std::int64_t cost : {kMs, 100 * kMs, 5 * kSecond}) {
        const double young = std::sqrt(2.0 * static_cast<double>(cost) * static_cast<double>(kDay));
        EXPECT_NEAR(static_cast<double>(best_interval_ns(cost, kDay)) / young, 1, 0.01) << cost;
    }
}

// What a job of a long checkpoint loses is counted out: computing, checkpoint, and half an interval per failure.
TEST(BestInterval, LosesLessThanOthers) {
    const std::int64_t mtbf = 100 * kSecond;
    const std::int64_t cost = 10 * kSecond;
    // Daly's exact model of the run time, for one second of work and no time of restart.
    const auto stretch = [&](double interval) {
        return static_cast<double>(mtbf) *
               (std::exp((interval + static_cast<double>(cost)) / static_cast<double>(mtbf)) - 1) / interval;
    };
    const auto best = static_cast<double>(best_interval_ns(cost, mtbf));
    for (const double factor : {0.5, 0.8, 1.25, 2.0}) {
        EXPECT_LT(stretch(best), stretch(best * factor)) << factor;
    }
    EXPECT_LT(stretch(best), 1.003 * stretch(std::sqrt(2.0 * static_cast<double>(cost) * static_cast<double>(mtbf))));
}

TEST(BestInterval, OfACheckpointLongerThanTheTimeBetweenFailures) {
    EXPECT_EQ(best_interval_ns(2 * kSecond, kSecond), kSecond);
    EXPECT_EQ(best_interval_ns(0, kDay), 0);
}

// A job whose PEs count alike: this is PE 0, which decides, and one more that only hears.
class Job {
public:
    Job(CheckpointInterval interval, std::int64_t cost_ns) : cost_(cost_ns) {
        for (CheckpointPace& pe : pes_) {
            pe.begin(interval, kDay, now_);
        }
    }
    // One step of the program that takes so long, and its call. Whether it made a version.
    bool step(std::int64_t work_ns) {
        now_ += work_ns;
        const Call call = pes_[0].next();
        EXPECT_EQ(pes_[1].next(), call);
        bool is_due = call == Call::is_due;
        if (call == Call::asks) {
            ++n_asked_;
            const CheckpointPace::Answer answer = pes_[0].decide(now_, n_failures_);
            for (CheckpointPace& pe : pes_) {
                pe.hear(answer);
            }
            is_due = answer.is_due != 0;
        }
        if (is_due) {
            for (CheckpointPace& pe : pes_) {
                pe.committed(now_, now_ + cost_);
            }
            now_ += cost_;
            versions_.push_back(now_);
        }
        return is_due;
    }
    // PE 0 has died.
    void fail(CheckpointInterval interval) {
        ++n_failures_;
        pes_[0] = CheckpointPace();
        pes_[0].begin(interval, kDay, now_);
        for (CheckpointPace& pe : pes_) {
            pe.resume(now_);
        }
    }
    // Between the last two versions.
    [[nodiscard]] std::int64_t interval() const { return versions_.back() - cost_ - versions_[versions_.size() - 2]; }
    [[nodiscard]] const CheckpointPace& first() const { return pes_[0]; }
    [[nodiscard]] std::int64_t now() const { return now_; }
    [[nodiscard]] int asked() const { return n_asked_; }
    [[nodiscard]] std::size_t versions() const { return versions_.size(); }

private:
    CheckpointPace pes_[2];
    std::int64_t now_ = 5 * kSecond;
    std::int64_t cost_;
    std::uint32_t n_failures_ = 0;
    int n_asked_ = 0;
    std::vector<std::int64_t> versions_;
};

TEST(CheckpointPace, EveryCallIsDueUnlessToldOtherwise) {
    Job job({}, kMs);
    for (int i = 0; i < 10; ++i) {
        EXPECT_TRUE(job.step(kMs));
    }
}

TEST(CheckpointPace, CallsAreCounted) {
    const CheckpointInterval interval{Kind::calls, 4};
    Job job(interval, kMs);
    std::vector<int> due;
    for (int i = 0; i < 12; ++i) {
        if (job.step(kMs)) {
            due.push_back(i);
        }
    }
    EXPECT_EQ(due, (std::vector{0, 4, 8})) << "the first one is where the start-up ends";
    job.fail(interval);
    due.clear();
    for (int i = 0; i < 9; ++i) {
        if (job.step(kMs)) {
            due.push_back(i);
        }
    }
    EXPECT_EQ(due, (std::vector{3, 7})) << "from the version that all have gone back to";
    EXPECT_EQ(job.asked(), 0);
}

// A call that made none, for want of memory, say, is made up for by the next one.
TEST(CheckpointPace, WhatWasNotCommittedIsStillDue) {
    CheckpointPace pace;
    pace.begin({Kind::calls, 3}, kDay, 0);
    EXPECT_EQ(pace.next(), Call::is_due);
    EXPECT_EQ(pace.next(), Call::is_due);
    pace.committed(0, 1);
    EXPECT_EQ(pace.next(), Call::passes);
    EXPECT_EQ(pace.next(), Call::passes);
    EXPECT_EQ(pace.next(), Call::is_due);
    EXPECT_EQ(pace.next(), Call::is_due);
}

TEST(CheckpointPace, ATimeIsKept) {
    for (const std::int64_t step : {20'000L, kMs, 7 * kMs, 300 * kMs}) {
        Job job({Kind::time, 2 * kSecond}, 10 * kMs);
        while (job.versions() < 12) {
            static_cast<void>(job.step(step));
        }
        EXPECT_NEAR(static_cast<double>(job.interval()), 2e9, static_cast<double>(step)) << step;
        EXPECT_LT(job.asked(), 11 * 8 + 20) << "about eight times per interval";
    }
}

TEST(CheckpointPace, AStepLongerThanTheTimeMakesOneEachTime) {
    Job job({Kind::time, kSecond}, kMs);
    for (int i = 0; i < 5; ++i) {
        EXPECT_TRUE(job.step(3 * kSecond));
    }
}

TEST(CheckpointPace, StepsBecomeTenTimesAsLong) {
    Job job({Kind::time, 2 * kSecond}, kMs);
    while (job.versions() < 12) {
        static_cast<void>(job.step(kMs));
    }
    while (job.versions() < 13) {
        static_cast<void>(job.step(10 * kMs));
    }
    EXPECT_LT(job.interval(), 9 * kSecond / 2);
    while (job.versions() < 15) {
        static_cast<void>(job.step(10 * kMs));
    }
    EXPECT_NEAR(static_cast<double>(job.interval()), 2e9, 2e7);
}

// A loop that begins with many short steps, of which nothing can be told for the long ones behind.
TEST(CheckpointPace, APauseGrowsSlowly) {
    Job job({Kind::time, 1000 * kSecond}, kMs);
    for (int i = 0; i < 20; ++i) {
        static_cast<void>(job.step(1000));
    }
    EXPECT_LT(job.first().costs().n_versions, 3U);
    int n = 0;
    while (!job.step(100 * kSecond)) {
        ASSERT_LT(++n, 40);
    }
}

TEST(CheckpointPace, AutomaticIsTheBestInterval) {
    const CheckpointInterval interval{Kind::automatic, 0};
    Job job(interval, kMs);
    while (job.versions() < 20) {
        static_cast<void>(job.step(50 * kMs));
    }
    EXPECT_NEAR(static_cast<double>(job.interval()), std::sqrt(2.0 * 1e6 * 86'400e9), 0.02 * 13e9) << "13 s for 1 ms";
    // It fails more often than was said, and then less is lost with a shorter one.
    for (int i = 0; i < 24; ++i) {
        job.fail(interval);
    }
    while (job.versions() < 25) {
        static_cast<void>(job.step(50 * kMs));
    }
    EXPECT_NEAR(static_cast<double>(job.interval()), std::sqrt(2.0 * 1e6 * 86'400e9 / 25), 0.05 * 3e9);
}

// It knows of no cost, so it makes one to learn it.
TEST(CheckpointPace, ASubstituteOfPe0BeginsWithOne) {
    const CheckpointInterval interval{Kind::automatic, 0};
    Job job(interval, kMs);
    while (job.versions() < 5) {
        static_cast<void>(job.step(kMs));
    }
    job.fail(interval);
    EXPECT_TRUE(job.step(kMs));
}

TEST(CheckpointPace, TheFirstCheckpointIsNotTypical) {
    CheckpointPace pace;
    pace.begin({}, kDay, 0);
    EXPECT_EQ(pace.costs().typical_ns, 0);
    for (const std::int64_t cost : {500, 10, 12, 11, 10, 11, 500}) {
        static_cast<void>(pace.next());
        pace.committed(0, cost);
    }
    EXPECT_EQ(pace.costs().typical_ns, 11);
    EXPECT_EQ(pace.costs().n_versions, 7U);
    EXPECT_EQ(pace.costs().total_ns, 1054);
    for (int i = 0; i < 8; ++i) {
        static_cast<void>(pace.next());
        pace.committed(0, 70);
    }
    EXPECT_EQ(pace.costs().typical_ns, 70) << "of the last eight";
}

TEST(CheckpointPace, AdviceWhereItPays) {
    const auto after = [](CheckpointInterval interval, std::int64_t step, std::int64_t cost, std::int64_t run,
                          std::uint32_t n_failures = 0) {
        Job job(interval, cost);
        const std::int64_t end = job.now() + run;
        while (job.now() < end) {
            static_cast<void>(job.step(step));
        }
        return job.first().advice(job.now(), n_failures);
    };
    const auto line = after({}, 60 * kMs, 20 * kMs, 100 * kSecond);
    ASSERT_TRUE(line);
    EXPECT_NE(line->find(
                  "checkpoints took 25 % of the time, every 60 ms one of 20 ms: with a failure every 24 h the best "
                  "interval is 59 s, which SHMEM_FT_INTERVAL=auto keeps"),
              std::string::npos)
        << *line;
    EXPECT_FALSE(after({}, 60 * kMs, 20 * kMs, 50 * kSecond)) << "a short job";
    EXPECT_FALSE(after({}, 600 * kMs, 20 * kMs, 100 * kSecond)) << "3 %";
    EXPECT_FALSE(after({}, 100 * kSecond, 20 * kSecond, 2000 * kSecond, 500)) << "nearly the best interval";
    EXPECT_FALSE(after({Kind::automatic, 0}, kMs, 20 * kMs, 70 * kSecond));
}

}  // namespace
}  // namespace sft
