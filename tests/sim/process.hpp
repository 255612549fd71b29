// One simulated process: the code under test (Agreement, Participant, Detector) with a model of the program and of the
// memory that they serve.
//
// The program computes, puts to others, takes a checkpoint after an agreed number of steps, and asks for a restart when
// a checkpoint fails. Puts go straight into memory, as in the library; a process takes none from a process that it
// knows to be dead, which is what a transport has to guarantee. A put carries the view it was sent in for the checkers
// only.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "recovery/detection/detector.hpp"
#include "recovery/detection/node_watch.hpp"
#include "recovery/membership/agreement.hpp"
#include "recovery/membership/scheme.hpp"
#include "recovery/participant.hpp"
#include "tests/sim/events.hpp"
#include "tests/sim/memory.hpp"
#include "tests/sim/world.hpp"

namespace sft::sim {

[[nodiscard]] std::string to_string(const Message& message);
[[nodiscard]] std::vector<ProcId> holders_of(std::span<const Share> shares);

class SimProcess final : public AgreementWorld {
public:
    SimProcess(World& world, ProcId self, const JobState& first);

    void start();
    // Instead, for a spare that comes while the job runs.
    void come(std::vector<ProcId> everybody);
    void deliver(ProcId from, const Message& message, std::int32_t hops);
    void learn_of_death(const Death& death);
    void learn_that_left(ProcId process, Stage how);
    void request_end(EndReason reason);
    void look_at_words();
    void corrupt_a_copy(bool of_local_copy, Random& random);
    [[nodiscard]] const Agreement& agreement() const noexcept { return agreement_; }
    [[nodiscard]] Time beat_at() const noexcept { return beat_at_; }
    [[nodiscard]] std::uint32_t beats() const noexcept { return beats_; }
    [[nodiscard]] std::int64_t lease_ns() const noexcept { return node_watch_.lease_ns(); }
    [[nodiscard]] bool has_lease() const override;
    [[nodiscard]] Testimony testimony_about(NodeId node) const override {
        return node_watch_.testimony_about(node, world_.now());
    }

    // AgreementWorld
    void send(ProcId to, const Message& message) override;
    void record(const JobState& value) override;
    void decided(const JobState& before, const JobState& after) override;
    void heard_of_death(const Death& death) override;
    void must_stop(const Stop& why) override;
    [[nodiscard]] bool has_ready_words() const override { return world_.scenario().has_ready_words; }
    void write_ready_word(std::uint64_t word) override;
    [[nodiscard]] std::uint64_t ready_word_of(ProcId process) const override { return world_.ready_word_of(process); }
    void wake_for_words() override;
    [[nodiscard]] std::optional<JobState> decided_by(std::span<const Death> dead) const override;

private:
    struct Put {
        PeId pe;
        std::size_t inbox;
        std::uint32_t value;
        std::uint32_t view;
    };
    using Content = sim::Content;

    // process.cpp: the program
    void compute();
    void step();
    void put(std::size_t inbox);
    void take_put(ProcId from, const Put& put);
    void begin_call(Call call);
    void enter_if_quiet();
    void pump();
    void act(Participant::Do what);
    void returned(Participant::Do result);
    void enter_restart();
    void become_substitute();
    void after_agreement();
    void watch_nodes();
    void ask_for_spares();
    [[nodiscard]] bool is_alive() const noexcept { return world_.is_alive(self_); }
    [[nodiscard]] const JobState& state() const noexcept { return agreement_.decided(); }

    // checkpoint_actions.cpp: work on memory, word by word
    void begin_work(Participant::Do work);
    void work_done(Participant::Outcome result);
    void replicate(std::vector<ProcId> holders, Version version);
    void update_local_copy(Version version);
    void restore(Version version);
    void protect();
    void show_new_holders(std::vector<ProcId> holders);
    void protect_own();
    struct Protecting {
        ProcId holder;
        bool is_missing;  // its share
    };
    void protect_next(std::vector<Protecting> left);
    struct Writing {
        ProcId holder;
        std::size_t slot;
        Version version;
        std::function<void(bool is_gone)> then;
    };
    void write_word(const Writing& writing, std::size_t word);
    void mend(Version version);
    void fetch(std::vector<ProcId> holders, Version version);
    [[nodiscard]] Copy& local();
    [[nodiscard]] Place local_place() const;
    [[nodiscard]] Shadow& shadow_at(ProcId holder);
    [[nodiscard]] Place place_of(ProcId holder, std::size_t slot) const;
    [[nodiscard]] const Copy& share_at(ProcId holder, Version version);
    void take_copy(const Copy& copy, Version version, RestoredFrom where);
    void await_fault();
    void end_the_dead_here();
    void prepare_as_substitute();
    struct Preparing {
        std::vector<ProcId> holders;  // of shares, not asked yet
        std::uint64_t index;          // of the value that it was begun for
        Version version;
        bool is_any_gone;
    };
    void prepare_from(const Preparing& from);
    void await_another_value(std::uint64_t index);
    void join_as_substitute();
    [[nodiscard]] bool takes_from(ProcId writer) const noexcept;

    // watching.cpp: heartbeats
    void tick();
    void tick_nodes();

    // background_actions.cpp: checkpoints while the program goes on
    struct Line {
        enum class Step : std::uint8_t { come, copying, held, copied };
        std::uint32_t view = 0;
        Version version;
        Step step{};

        friend auto operator<=>(const Line&, const Line&) noexcept = default;
    };
    [[nodiscard]] bool goes_on_meanwhile() const;
    void come_to_line();
    void arrive(Line::Step step, bool leaves_at_once);
    void tell_others();
    void take_arrival(ProcId from, PeId pe, const Line& at);
    void look_at_line();
    void leave_line(bool is_in_order);
    void copy_to_still(std::size_t word);
    // What is held up of their writes to memory that has not been copied yet.
    void hold();
    void guard();
    void begin_saving();
    void save(std::size_t word);
    void save_before(const SimProcess& writer, std::size_t word);
    void write(const SimProcess& writer, std::size_t word, std::uint32_t value);
    void write_computed();
    void make_version();
    void end_still(Participant::Do result);
    [[nodiscard]] const Content& source() const;
    void returned_meanwhile(Participant::Do result);
    [[nodiscard]] Version passed() const;
    [[nodiscard]] bool has_settled(Call call);

    // parity_actions.cpp: the same with parity in groups
    struct Folding {
        std::vector<Share> shares;  // that it goes to
        Version version;
        std::uint64_t stamp = 0;
        bool is_anew = false;
        Content change{};
        std::function<void(bool is_gone)> then = {};
    };
    using Brought = std::function<void(Participant::Outcome)>;
    [[nodiscard]] std::uint64_t stamp_of(Version version, std::uint32_t attempt) const;
    void replicate_to_group(Version version);
    void fold(const Folding& folding, std::size_t share, std::size_t word);
    void restore_from_group(Version version);
    void protect_in_group();
    void prepare_in_group();
    void mend_neighbours(Version version);
    bool mend_left(PeId pe, Version version);
    void bring_local(Version version, Brought then);
    enum class Look : std::uint8_t { there, gone, later };
    [[nodiscard]] Look look_at(ProcId holder);
    [[nodiscard]] bool compute(Version version, Content& content);
    void take_local(const Content& content, Version version);

    // reach.cpp: what a process can reach of another one
    [[nodiscard]] bool is_near(ProcId other) const;
    [[nodiscard]] bool is_known_to_be_gone(ProcId other, Memory what) const;
    enum class Reach : std::uint8_t { opened, gone };
    using Opened = std::function<void(Reach)>;
    void open(ProcId other, Memory what, Opened then);
    void await_death(ProcId other, Memory what, Time until, Opened then);
    [[nodiscard]] bool can_reach(ProcId other);
    void fail_job(ProcId culprit);
    [[nodiscard]] Time work_delay();

    World& world_;
    ProcId self_;
    const Program& program_;
    Agreement agreement_;
    Participant participant_;
    Detector detector_;
    NodeWatch node_watch_;

    std::vector<PeId> awaited_;  // PEs that the job has nobody for
    std::uint64_t n_awaits_ = 0;
    PeId pe_ = kNoPe;
    bool is_substitute_ = false;
    bool is_working_ = false;
    bool is_in_call_ = false;
    bool is_pump_due_ = false;
    Call call_{};
    bool is_waiting_for_quiet_ = false;
    Version version_ = kNoVersion;  // that the program knows of
    std::uint32_t view_at_entry_ = 0;
    Content live_{};
    std::optional<Line> line_;  // where it waits
    bool is_leaving_line_ = false;
    std::set<std::pair<Line, PeId>> arrived_;
    std::optional<Content> still_;
    using Words = std::array<bool, kWords>;
    Words held_{};                   // not in the still yet, and others know
    std::map<PeId, Words> guards_;   // what this process does not write before
    bool is_in_background_ = false;  // the participant is, and the program goes on
    bool has_failed_ = false;        // in the background, and the program has not asked yet
    std::optional<Call> next_call_;  // which waits for the one in the background
    Copy local_;
    std::vector<ProcId> share_holders_;  // that this process can reach
    std::set<ProcId> shown_;             // substitutes whose memory has been opened
    std::map<PeId, Shadow> shadows_;
    std::map<ProcId, int> unacknowledged_;
    std::int32_t hops_ = 0;  // of the message being handled
    Time beat_at_ = 0;
    std::uint32_t beats_ = 0;
    Time ticked_at_ = 0;
    std::map<ProcId, Time> beats_seen_;
};

}  // namespace sft::sim
