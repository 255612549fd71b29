#include "tools/shmem-ft/status_summary.hpp"

#include <gtest/gtest.h>

#include "recovery/detection/node_loss.hpp"
#include "recovery/membership/job_state.hpp"
#include "tools/shmem-ft/status_report.hpp"

namespace sft::tools {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

// Three PEs and two spares, version 7, all well.
SeenJob good_job() {
    SeenJob job;
    job.n_pes = 3;
    job.program = "/somewhere/solver";
    job.seen_ns = 100 * kSecond;
    for (std::int32_t process = 0; process < 5; ++process) {
        ProcessStatus status;
        const bool is_spare = process >= job.n_pes;
        status.index = is_spare ? 0 : 40;
        status.version = is_spare ? 0 : 7;
        status.committed_ns = is_spare ? 0 : 98 * kSecond;
        status.stored_bytes = is_spare ? 0 : 1024;
        status.pe = is_spare ? -1 : process;
        status.keeper = is_spare ? -1 : (process + 1) % job.n_pes;
        status.protected_losses = is_spare ? 0 : 1;
        status.idle_spares = 2;
        status.stage = static_cast<std::uint8_t>(Stage::running);
        status.keeps_copies = 1;
        job.processes.push_back({.process = process,
                                 .node_name = {},
                                 .pid = 1000 + process,
                                 .is_alive = true,
                                 .status = status,
                                 .death = {},
                                 .death_seen_ns = 0});
    }
    return job;
}

void kill(SeenJob& job, std::size_t process) {
    job.processes[process].is_alive = false;
    job.processes[process].death = {FailureKind::signal, 9};
    job.processes[process].death_seen_ns = 99 * kSecond;
}

using Limits = std::vector<std::string>;

TEST(StatusSummary, AllIsWell) {
    const SeenJob job = good_job();
    const JobSummary summary = summarize(job);
    EXPECT_EQ(summary.stage, "running");
    EXPECT_EQ(summary.version, 7U);
    EXPECT_EQ(summary.committed_ns, 98 * kSecond);
    EXPECT_EQ(summary.stored_bytes, 3072U);
    EXPECT_EQ(summary.protected_losses, 1);
    EXPECT_EQ(summary.losses_in_turn, 2);
    EXPECT_NE(text_of(job).find("1 further loss of a PE at one moment, 2 one after another: "), std::string::npos);
    EXPECT_EQ(summary.limits, Limits{"every PE has one copy besides its own"});
    EXPECT_EQ(summary.idle_spares.size(), 2U);
    ASSERT_EQ(summary.pes.size(), 3U);
    EXPECT_EQ(summary.pes[2].protection, Protection::is_safe);
    EXPECT_EQ(summary.pes[2].keeper, 0);
    EXPECT_EQ(summary.pes[2].keeper_pe, 0);
}

// With SHMEM_FT_BACKUP_MODE=replica:2.
TEST(StatusSummary, SeveralCopies) {
    SeenJob job = good_job();
    for (std::int32_t pe = 0; pe < 3; ++pe) {
        job.processes[static_cast<std::size_t>(pe)].status->further_keepers[0] = (pe + 2) % 3;
    }
    EXPECT_EQ(summarize(job).limits, Limits{"every PE has 2 copies besides its own"});
    EXPECT_NE(text_of(job).find("process 2 (PE 2), process 0\n"), std::string::npos) << text_of(job);
    EXPECT_EQ(json_of(job)["pes"][1]["further_copies_in_processes"], nlohmann::ordered_json::array({0}));
    // One has been lost.
    job.processes[1].status->further_keepers[0] = -1;
    EXPECT_EQ(summarize(job).limits, Limits{"every PE has one copy besides its own"});
}

// The time of a checkpoint is that of whoever came last to it; a substitute has not counted from the start.
TEST(StatusSummary, WhatCheckpointsCost) {
    SeenJob job = good_job();
    EXPECT_EQ(text_of(job).find("checkpoints"), std::string::npos) << "none is known of";
    EXPECT_TRUE(json_of(job)["checkpoints"].is_null());
    EXPECT_TRUE(json_of(job)["memory"].is_null());
    for (std::size_t pe = 0; pe < 3; ++pe) {
        ProcessStatus& status = *job.processes[pe].status;
        const bool is_substitute = pe == 2;
        status.checkpoint_calls = is_substitute ? 30 : 1000;
        status.checkpoints = is_substitute ? 2 : 50;
        status.checkpoints_ns = kSecond;
        status.checkpoint_ns = is_substitute ? 5'000'000 : 20'000'000 * (2 - static_cast<std::int64_t>(pe));
        status.checkpoints_since_ns = 49 * kSecond;
        status.best_interval_ns = is_substitute ? 7 * kSecond : 9 * kSecond;
        status.room_most = 2U << 20;
        status.room_left = (100U - static_cast<std::uint32_t>(pe)) << 20;
    }
    const JobSummary summary = summarize(job);
    EXPECT_EQ(summary.checkpoint_calls, 1000U);
    EXPECT_EQ(summary.checkpoints, 50U);
    EXPECT_EQ(summary.checkpoint_ns, 5'000'000);
    EXPECT_EQ(summary.interval_ns, kSecond) << "50 s of work, 50 versions";
    EXPECT_NE(text_of(job).find(
                  "checkpoints 50 in 1000 calls, 5 ms each, 2 % of the time; one every 1.0 s, 7.0 s is best\n"),
              std::string::npos)
        << text_of(job);
    EXPECT_NE(text_of(job).find(
                  "memory      at most 6.0 MiB for state and copies; the last look found 98.0 MiB left\n"),
              std::string::npos)
        << text_of(job);
    EXPECT_EQ(json_of(job)["checkpoints"]["best_interval_seconds"], 7.0);
    EXPECT_EQ(json_of(job)["memory"]["most_bytes"], 6U << 20);
}

TEST(StatusSummary, TheBestInformedProcessCounts) {
    SeenJob job = good_job();
    job.processes[1].status->index = 41;
    job.processes[1].status->stage = static_cast<std::uint8_t>(Stage::replicating);
    EXPECT_EQ(summarize(job).stage, "checkpoint");
    kill(job, 1);  // what the dead have said last does not
    EXPECT_EQ(summarize(job).stage, "running");
}

TEST(StatusSummary, MemoryDomainsAreShownIfAnyIsKnown) {
    SeenJob job = good_job();
    EXPECT_EQ(text_of(job).find("memory domain"), std::string::npos);
    EXPECT_TRUE(json_of(job)["pes"][0]["memory_domain"].is_null());
    const std::int32_t keeper = summarize(job).pes[0].keeper;
    job.processes[0].memory_domain = 0;
    job.processes[static_cast<std::size_t>(keeper)].memory_domain = 1;
    EXPECT_NE(text_of(job).find(", memory domain 1 (own: 0)"), std::string::npos) << text_of(job);
    EXPECT_EQ(json_of(job)["pes"][0]["memory_domain"], 0);
    EXPECT_EQ(json_of(job)["pes"][0]["copy_in_memory_domain"], 1);
}

// Process 1 and its PE are on another node, and so is the copy of PE 0.
SeenJob job_on_two_nodes() {
    SeenJob job = good_job();
    job.n_nodes = 2;
    job.node_name = "here";
    SeenProcess elsewhere;
    elsewhere.process = 1;
    elsewhere.node_name = "there";
    job.processes[1] = elsewhere;
    return job;
}

TEST(StatusSummary, WhatIsOnAnotherNodeHasNotFailed) {
    SeenJob job = job_on_two_nodes();
    const JobSummary summary = summarize(job);
    EXPECT_EQ(summary.pes[1].protection, Protection::elsewhere);
    EXPECT_EQ(summary.pes[0].keeper_node, "there");
    EXPECT_EQ(summary.pes[2].keeper_node, "");
    EXPECT_EQ(summary.limits, Limits{"every PE has one copy besides its own"});
    EXPECT_NE(text_of(job).find("process 1 on there\n"), std::string::npos) << text_of(job);
    EXPECT_NE(text_of(job).find("1 PE on other nodes"), std::string::npos);
    EXPECT_EQ(json_of(job)["pes"][1]["state"], "elsewhere");
}

TEST(StatusSummary, ANodeThatMustNotBeLostIsNamed) {
    SeenJob job = job_on_two_nodes();
    job.node_names = {"here", "there"};
    for (const std::size_t process : {0U, 2U}) {
        ProcessStatus& status = *job.processes[process].status;
        status.n_nodes = 2;
        status.n_node_losses = 1;
        status.fatal_node = 0;
        status.node_loss = static_cast<std::uint8_t>(NodeLoss::majority);
    }
    EXPECT_NE(text_of(job).find(
                  "\n              the loss of one of 1 of 2 nodes, oshrun's host excepted: not of here, so many PEs"),
              std::string::npos)
        << text_of(job);
    EXPECT_EQ(json_of(job)["node_losses"]["fatal_node"], "here");
    EXPECT_EQ(json_of(job)["node_losses"]["survivable"], 1);
    EXPECT_TRUE(json_of(good_job())["node_losses"].is_null());
    EXPECT_EQ(text_of(good_job()).find("the loss of"), std::string::npos);
}

TEST(StatusSummary, SparesOnDemand) {
    SeenJob job = good_job();
    EXPECT_EQ(text_of(job).find("on demand"), std::string::npos);
    for (SeenProcess& item : job.processes) {
        item.status->spares_on_demand = 3;
        item.status->idle_spares = item.status->protected_losses = 0;
    }
    EXPECT_EQ(summarize(job).limits, Limits{"no spare is left, but oshrun starts one when it is needed"});
    EXPECT_NE(text_of(job).find("\n  on demand   oshrun starts up to 3 spares when none is left"), std::string::npos)
        << text_of(job);
    EXPECT_EQ(json_of(job)["spares_on_demand"], 3);
}

TEST(StatusSummary, FailuresOnOtherNodesAreToldByThoseThatAreHere) {
    SeenJob job = job_on_two_nodes();
    job.processes[0].status->failed[0] = 1;
    job.processes[0].status->index = 41;
    EXPECT_EQ(summarize(job).pes[1].protection, Protection::failed);
}

TEST(StatusSummary, WhoHasDiedHereMayBeReplacedElsewhere) {
    SeenJob job = job_on_two_nodes();
    job.processes[2].is_alive = false;
    EXPECT_EQ(summarize(job).pes[2].protection, Protection::failed);  // nobody has noticed yet
    kill(job, 2);
    EXPECT_EQ(summarize(job).pes[2].protection, Protection::elsewhere);
    job.processes[0].status->failed[0] = 2;
    EXPECT_EQ(summarize(job).pes[2].protection, Protection::failed);
}

TEST(StatusSummary, AFailedPe) {
    SeenJob job = good_job();
    kill(job, 1);
    for (const std::size_t process : {0U, 2U}) {
        ProcessStatus& status = *job.processes[process].status;
        status.stage = static_cast<std::uint8_t>(Stage::faulted);
        status.protected_losses = 0;
        status.n_deaths = 1;
    }
    job.processes[0].status->keeper = -1;
    const JobSummary summary = summarize(job);
    EXPECT_EQ(summary.stage, "fault");
    EXPECT_EQ(summary.limits, (Limits{"PE 0 has no second copy", "PE 1 has failed and is not replaced yet"}));
    EXPECT_EQ(summary.pes[0].protection, Protection::unprotected);
    EXPECT_EQ(summary.pes[1].protection, Protection::failed);
    ASSERT_EQ(summary.dead.size(), 1U);
    EXPECT_NE(text_of(job).find("dead: process 1 (PE 1), 1.0 s ago: killed by signal 9 (Killed)"), std::string::npos);
}

TEST(StatusSummary, WhyNotMore) {
    SeenJob job = good_job();
    const auto limits = [&](auto&& change) {
        job = good_job();
        for (SeenProcess& item : job.processes) {
            change(*item.status);
        }
        return summarize(job).limits;
    };
    EXPECT_EQ(limits([](ProcessStatus& status) { status.idle_spares = 1; }),
              (Limits{"every PE has one copy besides its own", "one spare is left"}));
    EXPECT_EQ(limits([](ProcessStatus& status) { status.idle_spares = status.protected_losses = 0; }),
              Limits{"no spare is left"});
    EXPECT_EQ(limits([](ProcessStatus& status) {
                  status.version = 0;
                  status.protected_losses = 0;
              }),
              Limits{"nothing is committed yet"});
    EXPECT_EQ(limits([](ProcessStatus& status) { status.keeps_copies = 0; }),
              Limits{"no copies are kept (SHMEM_FT_BACKUP_MODE=none)"});
}

TEST(StatusSummary, AJobThatIsJustStarting) {
    SeenJob job = good_job();
    for (SeenProcess& item : job.processes) {
        const std::int32_t process = item.process;
        item = {};
        item.process = process;
    }
    EXPECT_EQ(summarize(job).stage, "starting");
    EXPECT_NE(text_of(job).find("nothing yet"), std::string::npos);
    EXPECT_EQ(json_of(job).at("pes").size(), 0U);
}

TEST(StatusReport, AgeIsUnknownWhenNobodyWasThere) {
    SeenJob job = good_job();
    for (SeenProcess& item : job.processes) {
        item.status->committed_ns = 0;
    }
    EXPECT_TRUE(json_of(job).at("committed_seconds_ago").is_null());
    EXPECT_NE(text_of(job).find("version 7, some time ago"), std::string::npos);
}

}  // namespace
}  // namespace sft::tools
