// The line between a process of the job and oshrun's guardian, where there is one: an abstract Unix socket
// (SOCK_SEQPACKET), one fixed-size message per event. Processes only report; answered (by a single byte) are
// join_ready and input_wanted. The end of the connection on either side is news too: a process whose guardian is gone
// ends itself, and a process whose connection ends without `exiting` died of a signal.
// Where oshrun is the launcher as well, processes meet by it (`meeting`).
//
// The library works without it (started by plain mpirun): then nothing is reported and the launcher's own end is
// noticed through PMIx.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "base/ids.hpp"
#include "base/result.hpp"

namespace sft {

enum class JobEventKind : std::uint32_t {
    hello = 1,      // rank, pid; pe or -1 for a spare
    initialized,    // shmem_init is complete on this process (spares: asleep from now on); value: node_word()
    pe_taken,       // a spare has become pe
    failure_seen,   // pe (or -1: a spare), value: rank of the dead process, code: FailureReason::status();
                    // begin_ns: when it was detected
    span,           // text: name of a phase; begin_ns, end_ns; value: version or attempt
    finalized,      // the PE left shmem_finalize
    exiting,        // code: status given to exit()
    global_exit,    // code
    unrecoverable,  // text: the one line, which oshrun prints (the process itself then prints nothing); the job ends.
                    // code: the exit status of the job for the case that no PE's death is the cause
    spare_wanted,   // pe: nobody is left to take it over, and the job waits for a spare
    start_late,     // shmem_init has not been complete for SHMEM_FT_START_TIMEOUT. code: how far it has come (it
                    // rises with the steps); text: what it does there, "waits for ..."
    agreed_lost,    // value: rank of a process that the job has declared dead without having seen it die
    join_ready,     // a spare that comes while the job runs waits to be let in
    meeting,        // in a job that oshrun has started itself: answered with a message of this kind when all processes
                    // that live have sent one. text: of rank 0, bytes that all get; code: not 0 if it has ended
    input_wanted,   // PE 0 is about to begin its start-up. text: what it has as its standard input (file_identity());
                    // code: 1 in a substitute. The answer may bring a descriptor to take its place
    start_up_over,  // on PE 0 the first checkpoint is committed
};

// In whose memory copies lie, and outlive their processes there; kNoNode: they die with processes.
[[nodiscard]] constexpr std::uint64_t node_word(NodeId node) noexcept {
    return static_cast<std::uint64_t>(std::int64_t{node.value()} + 1);
}
[[nodiscard]] constexpr NodeId node_of_word(std::uint64_t word) noexcept {
    return NodeId(static_cast<std::int32_t>(static_cast<std::int64_t>(word) - 1));
}

// Fixed layout: sender and receiver are of one build, which `magic` and `layout` check.
struct JobEvent {
    std::uint32_t magic = 0x53465445;  // "SFTE"
    std::uint32_t layout = 5;
    JobEventKind kind{};
    std::int32_t rank = -1;
    std::int32_t pid = -1;
    std::int32_t pe = -1;
    std::int32_t code = 0;
    std::uint32_t reserved = 0;
    std::int64_t begin_ns = 0;  // CLOCK_MONOTONIC
    std::int64_t end_ns = 0;
    std::uint64_t value = 0;
    char text[456] = {};
};
static_assert(sizeof(JobEvent) == 512 && std::is_trivially_copyable_v<JobEvent>);
static_assert(std::has_unique_object_representations_v<JobEvent>);
static_assert(offsetof(JobEvent, magic) == 0 && offsetof(JobEvent, layout) == 4, "the same in all layouts");
static_assert(offsetof(JobEvent, kind) == 8 && offsetof(JobEvent, value) == 48 && offsetof(JobEvent, text) == 56);

class JobChannel {
public:
    JobChannel() = default;
    ~JobChannel();
    JobChannel(const JobChannel&) = delete;
    JobChannel& operator=(const JobChannel&) = delete;

    // Connects and checks that the guardian belongs to the same user.
    [[nodiscard]] Result<> connect(const std::string& socket_name);
    [[nodiscard]] bool is_connected() const noexcept { return fd_ >= 0; }
    // For the service thread's poll: readable or hung up means that the guardian is gone.
    [[nodiscard]] int fd() const noexcept { return fd_; }
    // Fills rank and pid. Never blocks for long and never fails
    // the caller: a lost report is the guardian's end.
    void report(JobEvent event) noexcept;
    // Blocks. False: the guardian is gone.
    [[nodiscard]] bool await_answer() noexcept;
    // As that; the descriptor that the answer brings is the caller's, -1: it brings none.
    [[nodiscard]] bool await_answer(int& descriptor) noexcept;
    // Sends `event` and waits for the message that answers it, which takes its place.
    [[nodiscard]] bool exchange(JobEvent& event) noexcept;
    void set_rank(std::int32_t rank) noexcept { rank_ = rank; }
    void close() noexcept;

private:
    int fd_ = -1;
    std::int32_t rank_ = -1;
};

// What that descriptor has open, in words that are the same in each process; empty: it is closed.
[[nodiscard]] std::string file_identity(int descriptor);

}  // namespace sft
