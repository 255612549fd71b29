// The record of the start-up as a piece of memory: what is written is read again, repetitions take no room, and what
// does not fit is said.
#include "shmem_ft/ops/startup_log.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace sft {
namespace {

struct Call {
    std::uint64_t site = 0;
    std::string result;
    std::string filled;
    std::vector<std::uint64_t*> changed;

    bool operator==(const Call&) const = default;
};

class StartupLogTest : public testing::Test {
protected:
    void write(const Call& call) {
        CallEntry entry;
        entry.key.site = call.site;
        writer_.begin(entry);
        writer_.result(call.result.data(), call.result.size());
        writer_.filled(call.filled.data(), call.filled.size());
        for (const std::uint64_t* word : call.changed) {
            writer_.change(reinterpret_cast<std::uintptr_t>(word), sizeof *word);
        }
        writer_.end();
    }

    // As read() gives it: the places of changes, and their contents then.
    struct Read {
        std::uint64_t site = 0;
        std::string result;
        std::string filled;
        std::vector<std::pair<std::uintptr_t, std::uint64_t>> changes;
        bool operator==(const Read&) const = default;
    };
    static Read expected(const Call& call) {
        Read read{call.site, call.result, call.filled, {}};
        for (const std::uint64_t* word : call.changed) {
            read.changes.emplace_back(reinterpret_cast<std::uintptr_t>(word), *word);
        }
        return read;
    }
    static Read read(const RecordedCall& call) {
        const auto* result = reinterpret_cast<const char*>(call.result());
        const auto* filled = reinterpret_cast<const char*>(call.filled());
        Read read{call.entry().key.site, {result, call.entry().result_bytes}, {filled, call.entry().filled_bytes}, {}};
        call.each_change([&](std::uintptr_t address, const std::byte* from, std::size_t bytes) {
            std::uint64_t word = 0;
            ASSERT_EQ(bytes, sizeof word);
            std::memcpy(&word, from, sizeof word);
            read.changes.emplace_back(address, word);
        });
        return read;
    }

    static constexpr std::size_t kBytes = 1 << 20;
    alignas(8) std::vector<std::byte> memory_ = std::vector<std::byte>(kBytes);
    StartupWriter writer_{memory_.data(), kBytes};
};

TEST_F(StartupLogTest, WhatIsWrittenIsRead) {
    std::mt19937_64 random(4711);
    std::vector<std::uint64_t> words(16);
    std::vector<Read> all;
    for (int i = 0; i < 3000; ++i) {
        // Few different ones, so that repetitions of every length begin and end.
        Call call{random() % 3, std::string(random() % 3 * 3, 'r'), std::string(random() % 2 * 5, 'f'), {}};
        if (random() % 4 == 0) {
            words[random() % 2] = random() % 2;
            call.changed = {&words[0], &words[1]};
        }
        write(call);
        all.push_back(expected(call));
    }
    ASSERT_FALSE(writer_.is_full());
    writer_.close(StartupState::complete, false);
    StartupReader reader(memory_.data(), kBytes);
    ASSERT_EQ(reader.state(), StartupState::complete);
    ASSERT_EQ(reader.n_calls(), all.size());
    for (std::size_t i = 0; i < all.size(); ++i, reader.next()) {
        ASSERT_FALSE(reader.at_end()) << i;
        ASSERT_EQ(reader.position(), i);
        ASSERT_EQ(read(reader.call()), all[i]) << i;
    }
    EXPECT_TRUE(reader.at_end());
}

TEST_F(StartupLogTest, LoopsTakeNoRoom) {
    for (std::uint64_t turn = 0; turn < 100'000; ++turn) {
        for (std::uint64_t site = 0; site < kBack; ++site) {
            write({site, "12345678", "", {}});
        }
    }
    EXPECT_EQ(writer_.n_calls(), 100'000 * kBack);
    EXPECT_LT(writer_.used_bytes(), kBack * 100);
}

TEST_F(StartupLogTest, AValueThatChangesEndsARepetition) {
    for (int i = 0; i < 10; ++i) {
        write({1, "0", "", {}});
    }
    write({1, "1", "", {}});
    writer_.close(StartupState::complete, false);
    StartupReader reader(memory_.data(), kBytes);
    for (int i = 0; i < 10; ++i, reader.next()) {
        ASSERT_EQ(read(reader.call()).result, "0");
    }
    EXPECT_EQ(read(reader.call()).result, "1");
}

// Seven calls a turn, whose entries are those of the turn before but for some words, or other ones altogether.
TEST_F(StartupLogTest, EntriesThatDifferInFewWordsAreReadAsTheyWere) {
    std::mt19937_64 random(42);
    std::vector<Call> calls;
    for (std::uint64_t site = 0; site < 7; ++site) {
        calls.push_back({site * 5, std::string(8, 'r'), std::string(site * 60, 'f'), {}});
    }
    std::vector<Read> all;
    for (int turn = 0; turn < 400; ++turn) {
        for (Call& call : calls) {
            for (std::uint64_t i = random() % 3; i > 0 && !call.filled.empty(); --i) {
                call.filled[random() % call.filled.size()] = static_cast<char>(random());
            }
            call.result[random() % 8] = static_cast<char>(random() % 3);
            if (random() % 50 == 0) {
                call.filled = std::string(random() % 400, static_cast<char>(random()));
            }
            write(call);
            all.push_back(expected(call));
        }
    }
    ASSERT_FALSE(writer_.is_full());
    writer_.close(StartupState::complete, false);
    StartupReader reader(memory_.data(), kBytes);
    for (std::size_t i = 0; i < all.size(); ++i, reader.next()) {
        ASSERT_FALSE(reader.at_end()) << i;
        ASSERT_EQ(read(reader.call()), all[i]) << i;
        StartupReader ahead = reader;
        ahead.next();
        ASSERT_TRUE(ahead.at_end() || read(ahead.call()) == all[i + 1]) << i;
    }
    EXPECT_TRUE(reader.at_end());
}

TEST_F(StartupLogTest, WordsThatStayTakeNoRoom) {
    std::string block(1024, 'b');
    for (std::uint64_t turn = 0; turn < 1000; ++turn) {
        std::memcpy(&block[512], &turn, sizeof turn);
        write({1, "12345678", block, {}});
        write({2, std::to_string(10'000'000 + turn), "", {}});
    }
    EXPECT_LT(writer_.used_bytes(), 2000U + 1000 * 32 + 1000 * 40);
}

TEST_F(StartupLogTest, WhatDoesNotFitIsSaid) {
    write({1, "", std::string(1000, 'x'), {}});
    write({2, "", std::string(kBytes, 'x'), {}});
    EXPECT_TRUE(writer_.is_full());
    writer_.close(StartupState::too_large, true);
    StartupReader reader(memory_.data(), kBytes);
    EXPECT_EQ(reader.state(), StartupState::too_large);
    EXPECT_TRUE(reader.at_end());
    EXPECT_TRUE(reader.is_exposed_unseen());
}

TEST_F(StartupLogTest, SomethingElseIsNoRecord) {
    std::vector<std::byte> zeros(4096);
    EXPECT_EQ(StartupReader(zeros.data(), zeros.size()).state(), StartupState::none);
    writer_.close(StartupState::complete, false);
    StartupHead head;
    std::memcpy(static_cast<void*>(&head), memory_.data(), sizeof head);
    head.used_bytes = kBytes;
    std::memcpy(memory_.data(), &head, sizeof head);
    EXPECT_EQ(StartupReader(memory_.data(), kBytes).state(), StartupState::none);
}

}  // namespace
}  // namespace sft
