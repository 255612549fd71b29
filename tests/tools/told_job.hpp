// A job as the guardian would tell the ledger of it.
#pragma once

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "tools/oshrun/job_ledger.hpp"

namespace sft::tools {

inline constexpr std::int64_t kSecond = 1'000'000'000;
inline constexpr FailureReason kGood{FailureKind::exited, 0};

inline FailureReason killed(int signal) { return {FailureKind::signal, static_cast<std::uint16_t>(signal)}; }
inline FailureReason exited(int code) { return {FailureKind::exited, static_cast<std::uint16_t>(code)}; }

// A job as the guardian would tell of it. Process r has pid 100 + r; every fact comes a millisecond after the last one.
class Job {
public:
    Job(int pes, int spares, std::vector<std::string> hosts = {}, std::uint32_t start_timeout_ms = 0)
        : ledger({pes, spares, "./prog", "mpirun", std::move(hosts), start_timeout_ms}), processes_(pes + spares) {}

    static int pid(int rank) { return 100 + rank; }

    Job& launch() {
        for (int rank = 0; rank < processes_; ++rank) {
            ledger.process_launched(rank, pid(rank));
        }
        return *this;
    }
    Job& report(int rank, JobEventKind kind, int code = 0, int pe = -1, const char* text = "") {
        JobEvent event;
        event.kind = kind;
        event.rank = rank;
        event.pid = pid(rank);
        event.pe = pe;
        event.code = code;
        std::snprintf(event.text, sizeof event.text, "%s", text);
        ledger.event(event, tick());
        return *this;
    }
    Job& hello(int rank) { return report(rank, JobEventKind::hello); }
    Job& init(int rank) { return report(rank, JobEventKind::initialized); }
    Job& start() {
        launch();
        for (int rank = 0; rank < processes_; ++rank) {
            hello(rank);
            init(rank);
        }
        return *this;
    }
    Job& end(int rank, FailureReason reason) {
        ledger.process_ended(pid(rank), reason, tick());
        return *this;
    }
    Job& finish(int rank) { return report(rank, JobEventKind::finalized).end(rank, kGood); }
    Job& launcher(FailureReason reason = kGood) {
        ledger.launcher_ended(reason);
        return *this;
    }
    bool must_end(std::int64_t later_ns = 0) { return ledger.must_end(now + later_ns); }
    [[nodiscard]] Outcome outcome() const { return ledger.outcome(); }

    JobLedger ledger;
    std::int64_t now = kSecond;

private:
    std::int64_t tick() { return now += 1'000'000; }
    int processes_;
};

}  // namespace sft::tools
