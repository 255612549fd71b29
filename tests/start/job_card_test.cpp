#include "shmem_ft/start/job_card.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "transport/shm/control.hpp"

namespace sft {
namespace {

JobCard card() { return own_card(Config(), {0x1000, 4096}, {0x9000, 512}, 0); }

std::string difference(const JobCard& mine) {
    const Result<> compared = compare_cards(mine, card(), ProcId(3));
    return compared ? "" : compared.error().line;
}

TEST(JobCard, ProcessesThatAreAlikeFit) { EXPECT_EQ(difference(card()), ""); }

TEST(JobCard, WhatProcess0AloneChoosesIsNotCompared) {
    JobCard mine = card();
    mine.mail_name = 7;
    mine.mail_secret = 8;
    mine.is_crowded = 1;
    EXPECT_EQ(difference(mine), "");
}

TEST(JobCard, EachDifferenceIsNamed) {
    const struct {
        void (*change)(JobCard&);
        const char* named;
    } cases[] = {
        {[](JobCard& c) { ++c.layout; }, "different versions of this library"},
        {[](JobCard& c) { std::memcpy(c.libc_version, "0.1", 4); }, "libc 0.1"},
        {[](JobCard& c) { ++c.program_fingerprint; }, "another program"},
        {[](JobCard& c) { c.globals_bytes = 0; }, "SHMEM_FT_GLOBALS"},
        {[](JobCard& c) { c.globals_begin += 16; }, "-no-pie"},
        {[](JobCard& c) { ++c.check_mode; }, "SHMEM_FT_CHECK"},
        {[](JobCard& c) { ++c.port_guard; }, "SHMEM_FT_GUARD_PORTS"},
        {[](JobCard& c) { ++c.tracks; }, "SHMEM_FT_TRACKING"},
        {[](JobCard& c) { ++c.guards; }, "SHMEM_FT_BACKGROUND"},
        {[](JobCard& c) { ++c.topology; }, "SHMEM_FT_TOPOLOGY"},
        {[](JobCard& c) { ++c.interval_kind; }, "SHMEM_FT_INTERVAL"},
        {[](JobCard& c) { ++c.interval_amount; }, "SHMEM_FT_INTERVAL"},
        {[](JobCard& c) { c.heap_bytes *= 2; }, "SHMEM_SYMMETRIC_SIZE"},
        {[](JobCard& c) { c.heap_base += 4096; }, "SHMEM_FT_HEAP_BASE"},
        {[](JobCard& c) { ++c.spares; }, "SHMEM_FT_SPARES"},
        {[](JobCard& c) { ++c.backup_mode; }, "SHMEM_FT_BACKUP_MODE"},
        {[](JobCard& c) { ++c.partners; }, "SHMEM_FT_BACKUP_MODE"},
    };
    for (const auto& item : cases) {
        JobCard mine = card();
        item.change(mine);
        const std::string line = difference(mine);
        EXPECT_NE(line.find(item.named), std::string::npos) << item.named << ": " << line;
        if (line.find("the globals of") == std::string::npos) {
            EXPECT_EQ(line.rfind("process 3 ", 0), 0U) << line;
        }
    }
}

TEST(JobCard, TheNumbersLeaveRoomForAPe) {
    Config config;
    config.spares = 2;
    EXPECT_TRUE(check_sizes(config, 3));
    const Result<> none = check_sizes(config, 2);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().line, "SHMEM_FT_SPARES=2 leaves no PE: the job has 2 processes");
    EXPECT_TRUE(check_sizes(config, kProcessesMax));
    EXPECT_FALSE(check_sizes(config, kProcessesMax + 1));
}

}  // namespace
}  // namespace sft
