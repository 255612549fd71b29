// SimProcess: the work on memory where groups of PEs keep parity (backup/parity_shadow.hpp).
#include <algorithm>
#include <utility>

#include "base/report.hpp"
#include "recovery/membership/mutation.hpp"
#include "recovery/membership/parity_scheme.hpp"
#include "tests/sim/process.hpp"

namespace sft::sim {
namespace {

constexpr Time kPollGroup = 50 * kMicro;

Content difference(const Content& a, const Content& b) {
    Content change{};
    for (std::size_t word = 0; word < kWords; ++word) {
        change[word] = a[word] ^ b[word];
    }
    return change;
}

}  // namespace

std::uint64_t SimProcess::stamp_of(Version version, std::uint32_t attempt) const {
    const std::uint64_t round = std::uint64_t{state().view} * 4096 + attempt;
    return (is_mutated(Mutation::forget_rounds) ? 1 : round + 1) << 32 | version.value();
}

// ---- a checkpoint ----

void SimProcess::replicate_to_group(Version version) {
    const JobState& now = state();
    Folding folding;
    folding.shares = targets_of(world_.scenario().shape, now, pe_);
    folding.version = version;
    folding.stamp = stamp_of(version, 0);
    folding.change = now.version == kNoVersion ? live_ : difference(live_, local().content);
    folding.then = [this, version](bool is_gone) {
        if (is_gone) {
            await_fault();
            return;
        }
        ParityOfPe& own = world_.parity_of_node(node_of(world_.scenario(), self_), pe_);
        own.fronts[version.value() % 2] = {version, Copy::checksum_of(live_)};
        work_done(Participant::Outcome::ok);
    };
    fold(folding, 0, 0);
}

void SimProcess::fold(const Folding& folding, std::size_t number, std::size_t word) {
    if (number == folding.shares.size()) {
        world_.later(self_, work_delay(), [then = folding.then] { then(false); });
        return;
    }
    world_.later(self_, work_delay(), [this, folding, number, word] {
        const Share& share = folding.shares[number];
        switch (look_at(share.holder)) {
            case Look::gone: folding.then(true); return;
            case Look::later:
                world_.later(self_, kPollGroup, [this, folding, number, word] { fold(folding, number, word); });
                return;
            case Look::there: break;
        }
        const NodeId node = node_of(world_.scenario(), share.holder);
        ParityOfPe& parity = world_.parity_of_node(node, PeId(share.part));
        const auto slot =
            static_cast<std::int32_t>(2 + 2 * share.part) + static_cast<std::int32_t>(folding.version.value() % 2);
        const Place place{kNoProc, pe_, slot, node};
        if (word == 0) {
            world_.tell(&Observer::copy_begun, place);
        }
        if (!parity.fold(folding.stamp, folding.is_anew, pe_, word, folding.change[word])) {
            world_.trace(self_, "adds to what is over");
            fail_job(share.holder);
            return;
        }
        if (word + 1 < kWords) {
            fold(folding, number, word + 1);
            return;
        }
        const Content& added = parity.slot_of(folding.version).added.at(pe_);
        world_.tell(&Observer::copy_done, place, folding.version, added);
        fold(folding, number + 1, 0);
    });
}

// What is kept on the own node can be reached whether its holder lives or not.
SimProcess::Look SimProcess::look_at(ProcId holder) {
    if (is_near(holder)) {
        return Look::there;
    }
    if (is_known_to_be_gone(holder, Memory::kept_shadows)) {
        return Look::gone;
    }
    return can_reach(holder) ? Look::there : Look::later;
}

// ---- a recovery ----

// A local copy that its process has left in the middle of following a commit: the process had the rest in its heap.
bool SimProcess::mend_left(PeId pe, Version version) {
    const NodeId here = node_of(world_.scenario(), self_);
    Copy& copy = world_.local_of_node(here, pe);
    const ParityOfPe::Front& front = world_.parity_of_node(here, pe).fronts[version.value() % 2];
    if (copy.is_good(version)) {
        return true;
    }
    if (front.version != version) {
        return false;
    }
    const Content& heap = world_.process(holder_in(state().protected_layout, pe)).live_;
    const bool is_in_copy = Copy::checksum_of(copy.content) == front.checksum;
    if (!is_in_copy && Copy::checksum_of(heap) != front.checksum) {
        return false;
    }
    const Place place{kNoProc, pe, -1, here};
    world_.tell(&Observer::copy_begun, place);
    copy.content = is_in_copy ? copy.content : heap;
    copy.seal(version);
    world_.tell(&Observer::copy_done, place, version, copy.content);
    return true;
}

void SimProcess::mend_neighbours(Version version) {
    for (const PeId pe : left_beside(world_.scenario().shape, state(), self_)) {
        if (!is_mutated(Mutation::leave_torn_copy)) {
            static_cast<void>(mend_left(pe, version));
        }
    }
}

void SimProcess::take_local(const Content& content, Version version) {
    const Place place = local_place();
    world_.tell(&Observer::copy_begun, place);
    local().content = content;
    local().seal(version);
    world_.tell(&Observer::copy_done, place, version, content);
    ParityOfPe& own = world_.parity_of_node(node_of(world_.scenario(), self_), pe_);
    own.fronts[version.value() % 2] = {version, Copy::checksum_of(content)};
}

// False: what is there does not fit together.
bool SimProcess::compute(Version version, Content& content) {
    const JobShape& shape = world_.scenario().shape;
    const std::vector<Share> sources = sources_of(shape, state(), pe_);
    const ParityGroup group = shape.groups->of(pe_);
    const auto n_lost = static_cast<std::int32_t>(group.members.size() - sources.size());
    if (n_lost > group.n_parity || sources.empty()) {
        return false;
    }
    bool is_any = false;
    for (const Share& share : sources) {
        const NodeId node = node_of(world_.scenario(), share.holder);
        const auto& added = world_.parity_of_node(node, PeId(share.part)).slot_of(version).added;
        for (const Share& other : sources) {
            const PeId pe(other.part);
            const Copy& copy = world_.local_of_node(node_of(world_.scenario(), other.holder), pe);
            const auto of_other = added.find(pe);
            const bool fits = of_other != added.end() && of_other->second == copy.content && copy.is_good(version);
            if (other.part != share.part && !fits) {
                return false;
            }
        }
        const auto own = added.find(pe_);
        if (own == added.end() || (is_any && own->second != content)) {
            return false;
        }
        content = own->second;
        is_any = true;
    }
    return is_any;
}

void SimProcess::bring_local(Version version, Brought then) {
    world_.later(self_, work_delay(), [this, version, then = std::move(then)] {
        const JobShape& shape = world_.scenario().shape;
        if (local().is_good(version) || mend_left(pe_, version)) {
            then(Participant::Outcome::ok);
            return;
        }
        const auto again = [&] {
            world_.later(self_, kPollGroup, [this, version, then] { bring_local(version, then); });
        };
        const ProcId before = holder_of_copy(shape, state(), pe_);
        std::vector<std::pair<ProcId, PeId>> needed;
        if (before != kNoProc && !is_near(before)) {
            needed.emplace_back(before, pe_);
        } else {
            for (const Share& share : sources_of(shape, state(), pe_)) {
                needed.emplace_back(share.holder, PeId(share.part));
            }
        }
        for (const auto& [holder, pe] : needed) {
            const Look look = look_at(holder);
            if (look == Look::gone) {
                then(Participant::Outcome::source_gone);
                return;
            }
            // One that is torn is mended by whoever takes it over, or by a neighbour.
            if (look == Look::later ||
                world_.local_of_node(node_of(world_.scenario(), holder), pe).version != version) {
                again();
                return;
            }
        }
        if (before != kNoProc && !is_near(before)) {
            take_local(world_.local_of_node(node_of(world_.scenario(), before), pe_).content, version);
            then(Participant::Outcome::ok);
            return;
        }
        Content content{};
        if (!compute(version, content)) {
            then(Participant::Outcome::corrupt);
            return;
        }
        take_local(content, version);
        then(Participant::Outcome::ok);
    });
}

void SimProcess::restore_from_group(Version version) {
    mend_neighbours(version);
    const bool was_here = local().is_good(version);
    bring_local(version, [this, was_here](Participant::Outcome outcome) {
        if (outcome == Participant::Outcome::ok) {
            live_ = local().content;
            world_.tell(&Observer::restored, self_, state().view,
                        !was_here        ? RestoredFrom::shadow
                        : is_substitute_ ? RestoredFrom::copy_of_the_dead
                                         : RestoredFrom::own_copy);
        }
        work_done(outcome);
    });
}

void SimProcess::protect_in_group() {
    const Version version = state().version;
    if (!is_mutated(Mutation::keep_uncommitted_parity)) {
        world_.parity_of_node(node_of(world_.scenario(), self_), pe_).drop_after(version);
    }
    Folding folding;
    folding.shares = missing_shares(world_.scenario().shape, state(), pe_);
    folding.version = version;
    folding.stamp = stamp_of(version, state().attempt);
    folding.is_anew = true;
    folding.change = local().content;
    folding.then = [this](bool is_gone) {
        work_done(is_gone ? Participant::Outcome::source_gone : Participant::Outcome::ok);
    };
    fold(folding, 0, 0);
}

// In shmem_init, before the program runs.
void SimProcess::prepare_in_group() {
    end_the_dead_here();
    mend_neighbours(state().version);
    const std::uint64_t index = state().index;
    bring_local(state().version, [this, index](Participant::Outcome outcome) {
        switch (outcome) {
            case Participant::Outcome::ok: join_as_substitute(); return;
            case Participant::Outcome::source_gone: await_another_value(index); return;
            case Participant::Outcome::corrupt: act(Participant::Do::give_up); return;
        }
    });
}

}  // namespace sft::sim
