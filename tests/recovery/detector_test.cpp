// Suspicion by silence: who watches whom, and when somebody is named.
#include "recovery/detection/detector.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/recovery/deaths.hpp"

namespace sft {
namespace {

using Processes = std::vector<ProcId>;

constexpr std::int64_t kBound = 100;

Detector::Options options_of(std::int32_t self, std::int32_t n_processes, std::int32_t fan = 2) {
    Detector::Options options;
    options.self = ProcId(self);
    options.n_processes = n_processes;
    options.period_ns = 10;
    options.bound_ns = kBound;
    options.fan = fan;
    return options;
}

Processes processes_of(std::initializer_list<std::int32_t> numbers) {
    Processes list;
    for (const std::int32_t number : numbers) {
        list.push_back(ProcId(number));
    }
    return list;
}

TEST(Detector, TheNextOnesRoundTheRingAreWatched) {
    Detector detector(options_of(2, 5));
    detector.update({}, kNoProc, 0);
    EXPECT_EQ(detector.watched(), processes_of({3, 4}));
    EXPECT_EQ(detector.watchers({}), processes_of({1, 0}));

    Detector last(options_of(4, 5));
    last.update({}, kNoProc, 0);
    EXPECT_EQ(last.watched(), processes_of({0, 1}));
    EXPECT_EQ(last.watchers({}), processes_of({3, 2}));
}

TEST(Detector, TheDeadAreSkipped) {
    const auto dead = deaths_of({3, 0});
    Detector detector(options_of(2, 6));
    detector.update(dead, kNoProc, 0);
    EXPECT_EQ(detector.watched(), processes_of({4, 5}));
    EXPECT_EQ(detector.watchers(dead), processes_of({1, 5}));
}

TEST(Detector, FewerThanTheFanAreLeft) {
    Detector detector(options_of(1, 3));
    detector.update(deaths_of({0}), kNoProc, 0);
    EXPECT_EQ(detector.watched(), processes_of({2}));
    detector.update(deaths_of({0, 2}), kNoProc, 0);
    EXPECT_TRUE(detector.watched().empty()) << "nobody watches itself";
    EXPECT_TRUE(detector.watchers(deaths_of({0, 2})).empty());
    EXPECT_TRUE(detector.suspects(1'000'000).empty());

    Detector alone(options_of(0, 1));
    alone.update({}, kNoProc, 0);
    EXPECT_TRUE(alone.watched().empty());
}

// Whoever watches somebody gets its heartbeats, and everybody is watched by `fan` others.
TEST(Detector, WatchersAndWatchedAreOneRelation) {
    std::mt19937_64 random(5);
    for (int i = 0; i < 200; ++i) {
        const auto n = static_cast<std::int32_t>(2 + random() % 12);
        const auto fan = static_cast<std::int32_t>(1 + random() % 4);
        std::vector<Death> dead;
        for (std::int32_t process = 0; process < n; ++process) {
            if (random() % 3 == 0) {
                dead.push_back({ProcId(process), {}, true});
            }
        }
        const std::int32_t n_living = n - static_cast<std::int32_t>(dead.size());
        for (std::int32_t a = 0; a < n; ++a) {
            if (contains(dead, ProcId(a))) {
                continue;
            }
            Detector watcher(options_of(a, n, fan));
            watcher.update(dead, kNoProc, 0);
            const Processes watched = watcher.watched();
            EXPECT_EQ(static_cast<std::int32_t>(watched.size()), std::min(fan, n_living - 1));
            for (std::int32_t b = 0; b < n; ++b) {
                if (contains(dead, ProcId(b)) || a == b) {
                    continue;
                }
                const Processes watchers = Detector(options_of(b, n, fan)).watchers(dead);
                const bool a_watches = std::find(watched.begin(), watched.end(), ProcId(b)) != watched.end();
                const bool b_knows = std::find(watchers.begin(), watchers.end(), ProcId(a)) != watchers.end();
                ASSERT_EQ(a_watches, b_knows) << a << " and " << b << " of " << n;
            }
        }
    }
}

TEST(Detector, WhomProgressDependsOnIsWatchedBesides) {
    Detector detector(options_of(2, 8));
    detector.update({}, ProcId(6), 0);
    EXPECT_EQ(detector.watched(), processes_of({3, 4, 6}));
    detector.update({}, ProcId(4), 0);
    EXPECT_EQ(detector.watched(), processes_of({3, 4})) << "once is enough";
    detector.update({}, ProcId(2), 0);
    EXPECT_EQ(detector.watched(), processes_of({3, 4})) << "nobody watches itself";
    detector.update(deaths_of({6}), ProcId(6), 0);
    EXPECT_EQ(detector.watched(), processes_of({3, 4})) << "the dead are silent anyway";
}

TEST(Detector, SilenceMakesASuspectOnce) {
    Detector detector(options_of(0, 4));
    detector.update({}, kNoProc, 1000);
    EXPECT_TRUE(detector.suspects(1000 + kBound).empty()) << "not longer than the bound";
    detector.heard(ProcId(2), 1050);
    EXPECT_EQ(detector.suspects(1001 + kBound), processes_of({1}));
    EXPECT_TRUE(detector.suspects(1002 + kBound).empty()) << "already named";
    EXPECT_EQ(detector.suspects(1051 + kBound), processes_of({2}));

    detector.heard(ProcId(1), 2000);
    EXPECT_TRUE(detector.suspects(2000 + kBound).empty());
    EXPECT_EQ(detector.suspects(2001 + kBound), processes_of({1})) << "another silence";
}

TEST(Detector, LateNewsIsNoNews) {
    Detector detector(options_of(0, 2));
    detector.update({}, kNoProc, 1000);
    detector.heard(ProcId(1), 900);
    EXPECT_TRUE(detector.suspects(1000 + kBound).empty()) << "the watch began later than that";
    EXPECT_EQ(detector.suspects(1001 + kBound), processes_of({1}));
    detector.heard(ProcId(1), 950);
    EXPECT_TRUE(detector.suspects(1002 + kBound).empty()) << "the silence is still the same one";
}

TEST(Detector, StrangersAreIgnored) {
    Detector detector(options_of(0, 8));
    detector.update({}, kNoProc, 0);
    detector.heard(ProcId(7), 50);
    detector.heard(kNoProc, 50);
    EXPECT_EQ(detector.watched(), processes_of({1, 2}));
    EXPECT_EQ(detector.suspects(1 + kBound), processes_of({1, 2}));
}

TEST(Detector, WithoutABoundNobodyIsSuspected) {
    Detector::Options options = options_of(0, 4);
    options.bound_ns = 0;
    Detector detector(options);
    detector.update({}, ProcId(3), 0);
    EXPECT_TRUE(detector.suspects(INT64_MAX).empty());
}

TEST(Detector, ForgivingStartsAfresh) {
    Detector detector(options_of(0, 4));
    detector.update({}, kNoProc, 0);
    EXPECT_EQ(detector.suspects(500).size(), 2U);
    detector.forgive(600);
    EXPECT_TRUE(detector.suspects(600 + kBound).empty());
    EXPECT_EQ(detector.suspects(601 + kBound), processes_of({1, 2}));
}

TEST(Detector, AnUpdateKeepsWhatIsKnown) {
    Detector detector(options_of(0, 6));
    detector.update({}, kNoProc, 0);
    detector.heard(ProcId(2), 90);
    EXPECT_EQ(detector.suspects(101), processes_of({1}));
    detector.update({}, ProcId(5), 110);
    EXPECT_TRUE(detector.suspects(111).empty()) << "1 stays suspected, 5 has just begun to be watched";
    EXPECT_EQ(detector.suspects(91 + kBound), processes_of({2})) << "heard at 90, whatever has been updated since";
    EXPECT_EQ(detector.suspects(111 + kBound), processes_of({5}));

    detector.update(deaths_of({1}), kNoProc, 1000);
    EXPECT_EQ(detector.watched(), processes_of({2, 3}));
    EXPECT_TRUE(detector.suspects(1001).empty()) << "2 has been named";
    EXPECT_EQ(detector.suspects(1001 + kBound), processes_of({3}));
    detector.update({}, kNoProc, 2000);
    EXPECT_EQ(detector.suspects(2001 + kBound), processes_of({1})) << "watched again, from the start";
}

}  // namespace
}  // namespace sft
