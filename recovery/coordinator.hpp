// Where the agreement meets the process: messages come in and go out, the application's calls wait for decisions, and
// decided values become work on this process's memory.
//
// Everything that decides is in the state machines (Agreement, JobRules, Participant), which the simulator runs too;
// here is only the I/O around them.
//
// Threads: the application's thread makes the collective calls, or another one in its place (carry_out); the service
// thread calls pump() and process_died(). One mutex protects the state machines and the mailbox. It is never held while
// an action is carried out, nor while an observer is told anything.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/mutex.hpp"
#include "recovery/membership/agreement.hpp"
#include "recovery/participant.hpp"
#include "recovery/ready_words.hpp"
#include "recovery/rules.hpp"
#include "recovery/value_records.hpp"
#include "transport/mail/mailbox.hpp"

namespace sft {

// What the protocols ask the process to do with its memory. Called by the thread that made the call.
class CheckpointActions {
public:
    virtual ~CheckpointActions() = default;

    // own live state -> its shares of `version`, which is not committed yet.
    virtual void replicate(Version version) = 0;
    // `version` is committed: own live state -> local copy.
    virtual void update_local_copy(Version version) = 0;

    using Outcome = Participant::Outcome;
    // Brings the own memory to state.version: rolls back, or, as a substitute, fetches the PE's state from who has
    // shares of it.
    virtual Outcome restore(const JobState& state) = 0;
    // The state of every PE is back; makes the own shares exist where they belong now, and resets what the
    // communication between PEs counts.
    virtual Outcome protect(const JobState& state) = 0;
};

// What the process wants to know at once. Called by any thread, one call at a time.
class JobObserver {
public:
    virtual ~JobObserver() = default;

    virtual void heard_of_death(const Death& death) = 0;
    virtual void decided(const JobState& before, const JobState& after) = 0;
    virtual void must_stop(const Stop& why) = 0;
    // This process leads, and nobody is there to take over these PEs; empty: that is over. Only with a policy that
    // waits.
    virtual void awaits_spares(const std::vector<PeId>& pes) = 0;
};

class Coordinator final : private AgreementWorld {
public:
    struct Options {
        JobShape shape;
        ProcId self = kNoProc;
        UnreplacedPolicy policy = UnreplacedPolicy::abort;
        Mailbox* mailbox = nullptr;
        CheckpointActions* actions = nullptr;
        JobObserver* observer = nullptr;
        // AgreementWorld::has_lease(), asked by any thread with the coordinator's lock; empty: always.
        std::function<bool()> has_lease = {};
        ValueRecords* records = nullptr;  // what outlives processes of this node; null: nothing does
        ReadyWords* words = nullptr;      // of a job of several PEs on one node; null: it is another one
    };
    explicit Coordinator(const Options& options);

    // A collective call, as of participant.hpp.
    struct Call {
        enum class Kind : std::uint8_t { checkpoint, restart, finish } kind{};
        std::uint64_t list_hash = 0;  // of a restart
        bool joins = false;
    };
    // From the call to its outcome. One thread at a time: the application's, or that of a checkpoint in the background.
    [[nodiscard]] Participant::Do carry_out(const Call& call);

    // Any thread. Ends the job for everybody unless it has ended already; the value tells who was first.
    void request_end(EndReason reason, std::int32_t exit_status);
    // Sleeps until `is_reached` says so of the last decided value, which is returned.
    JobState wait_until(const std::function<bool(const JobState&)>& is_reached);
    // What has been decided last. Waits for nobody, so it may be asked anywhere.
    [[nodiscard]] JobState state() const;
    [[nodiscard]] bool is_dead(ProcId process) const;
    // Sleeps until that is so. False: that time has come (now_ns()).
    [[nodiscard]] bool await_death(ProcId process, std::int64_t end_ns);
    // Sleeps until the job is over for everybody. False: that time has come (now_ns()).
    [[nodiscard]] bool await_end(std::int64_t end_ns);
    [[nodiscard]] std::vector<Death> known_deaths() const;  // sorted by process
    [[nodiscard]] ProcId leader() const;
    // Whether this process leads. Never waits, so it may be asked anywhere.
    [[nodiscard]] bool leads() const noexcept { return leads_.load(); }
    [[nodiscard]] std::int32_t protected_losses() const;
    // The same and what it follows from, as of one moment.
    struct Knowledge {
        JobState state;
        std::vector<Death> deaths;  // sorted by process
        std::int32_t protected_losses = 0;
        bool waits_for_spare = false;
    };
    [[nodiscard]] Knowledge knowledge() const;
    // n_on_demand: spares that can still be started while the job runs.
    [[nodiscard]] NodeLosses node_losses(const Knowledge& known, std::int32_t n_on_demand) const;
    [[nodiscard]] const JobShape& shape() const noexcept { return shape_; }

    // The service thread: messages that have arrived, and what the kernel tells of other processes.
    // True: there was a message, and there may be more.
    bool pump();
    void process_died(const Death& death);
    void process_left(ProcId process, Stage how);
    void request_join(std::vector<ProcId> everybody, NodeId node);
    [[nodiscard]] int fd() const noexcept { return mailbox_->fd(); }
    // What fails while everybody lives (transport/mail/mailbox.hpp).
    [[nodiscard]] bool has_trouble() const;
    [[nodiscard]] std::optional<Trouble> lasting_trouble(std::int64_t begin_ns) const;
    [[nodiscard]] std::vector<Mailbox::Lost> lost_connections() const;
    void settle_lost(ProcId process);
    // Several nodes (transport/mail/mailbox.hpp). probe_node_of: all processes of the node that are not known to be
    // dead.
    [[nodiscard]] std::vector<RemoteMail::Gone> take_gone();
    void probe_node_of(ProcId process);
    // Data: what the mailbox cannot get to its receiver, and what other nodes say of theirs since the last call.
    [[nodiscard]] std::vector<RemoteMail::Stuck> stuck() const;
    struct Stalled {
        ProcId from;
        std::int64_t age_ns = 0;
    };
    [[nodiscard]] std::vector<Stalled> take_stalled();
    void tell_stalled(ProcId to, std::int64_t age_ns);
    // From whom something has come since the last call, and when the question was asked that it answered (0: none); and
    // questions whether they live.
    struct Heard {
        ProcId from;
        std::int64_t asked_ns = 0;
        bool has_mail = false;   // besides datagrams
        NodeId about = kNoNode;  // what else the answer is about
        Testimony testimony = Testimony::none;
    };
    [[nodiscard]] std::vector<Heard> take_heard();
    void ping(const std::vector<ProcId>& processes, std::int64_t asked_ns, NodeId about);
    // What is answered to others that ask about nodes, until it is said anew.
    void testify(std::map<NodeId, Testimony> testimonies);
    void remind();    // Agreement::remind()
    void give_way();  // Agreement::give_way()
    // For tests: no messages to and from other nodes before that time (now_ns()).
    void cut_until(std::int64_t end_ns);
    // The job is over for this process: waits until all others have what was sent to them, or that time has come
    // (now_ns()), and says goodbye.
    void leave(Stage how, std::int64_t end_ns);

    // Of the last restart, for the summary (CLOCK_MONOTONIC, ns).
    struct Times {
        std::int64_t planned = 0;
        std::int64_t restored = 0;
        std::int64_t resumed = 0;
    };
    [[nodiscard]] Times times() const;

private:
    // AgreementWorld
    void send(ProcId to, const Message& message) override SFT_REQUIRES(mutex_);
    void record(const JobState& value) override SFT_REQUIRES(mutex_);
    void decided(const JobState& before, const JobState& after) override SFT_REQUIRES(mutex_);
    void heard_of_death(const Death& death) override SFT_REQUIRES(mutex_);
    void must_stop(const Stop& why) override SFT_REQUIRES(mutex_);
    [[nodiscard]] bool has_lease() const override { return !has_lease_ || has_lease_(); }
    [[nodiscard]] Testimony testimony_about(NodeId node) const override SFT_REQUIRES(mutex_);
    [[nodiscard]] std::optional<JobState> decided_by(std::span<const Death> dead) const override;
    [[nodiscard]] bool has_ready_words() const override { return words_ != nullptr; }
    void write_ready_word(std::uint64_t word) override { words_->write(word); }
    [[nodiscard]] std::uint64_t ready_word_of(ProcId process) const override { return words_->of(process); }
    void wake_for_words() override SFT_REQUIRES(mutex_);

    struct Event {
        enum class Kind : std::uint8_t { death, decision, stop, awaiting } kind{};
        Death death;
        JobState before;
        JobState after;
        std::vector<PeId> awaited;
        Stop why_stop;
    };
    bool take_messages() SFT_REQUIRES(mutex_);
    void note_heard(const Heard& heard) SFT_REQUIRES(mutex_);
    // Without the lock while it is at a fault point, or at work.
    template <class What>
    void visit(What what) SFT_REQUIRES(mutex_);
    [[nodiscard]] Participant::Do enter(const Call& call) SFT_REQUIRES(mutex_);
    void await_change(std::uint64_t index) SFT_REQUIRES(mutex_);
    [[nodiscard]] bool await_words() SFT_REQUIRES(mutex_);
    void note_awaited() SFT_REQUIRES(mutex_);
    // Gives the news to the observer, in order, without the lock.
    void tell() SFT_REQUIRES(mutex_);

    JobShape shape_;
    Mailbox* mailbox_;
    CheckpointActions* actions_;
    JobObserver* observer_;
    std::function<bool()> has_lease_;
    ValueRecords* records_;
    ReadyWords* words_;
    bool waits_for_spares_;

    mutable Mutex mutex_{MutexRank::coordinator};
    JobRules rules_ SFT_GUARDED_BY(mutex_);
    Agreement agreement_ SFT_GUARDED_BY(mutex_);
    Participant participant_ SFT_GUARDED_BY(mutex_);
    std::vector<PeId> awaited_ SFT_GUARDED_BY(mutex_);  // as the observer knows it
    std::vector<Event> events_ SFT_GUARDED_BY(mutex_);
    std::vector<Stalled> stalled_ SFT_GUARDED_BY(mutex_);
    std::vector<Heard> heard_ SFT_GUARDED_BY(mutex_);  // several nodes: since take_heard()
    std::map<NodeId, Testimony> testimonies_ SFT_GUARDED_BY(mutex_);
    bool is_telling_ SFT_GUARDED_BY(mutex_) = false;
    Times times_ SFT_GUARDED_BY(mutex_);
    mutable Mutex snapshot_mutex_{MutexRank::snapshot};
    JobState snapshot_ SFT_GUARDED_BY(snapshot_mutex_);
    std::atomic<bool> leads_{false};
    // Not std::atomic's wait(): its pool of waiters is a global, which a rollback of a statically linked program would
    // take back with sleepers in it.
    Condition changed_;  // a value was decided
};

}  // namespace sft
