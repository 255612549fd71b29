#include "recovery/detection/node_guard.hpp"

#include <map>
#include <utility>

#include "base/assert.hpp"
#include "base/poll_timeout.hpp"

namespace sft {

NodeGuard::NodeGuard(const Options& options, std::int64_t now_ns)
    : coordinator_(options.coordinator),
      control_(options.control),
      heartbeat_(options.heartbeat),
      lease_(options.lease),
      is_on_(options.bound_ns > 0 && !options.coordinator->shape().is_one_node()),
      watch_({.shape = options.coordinator->shape(), .self = options.self, .bound_ns = options.bound_ns}),
      ticked_ns_(now_ns - watch_.period_ns()) {}

int NodeGuard::timeout_ms(std::int64_t now_ns) const noexcept {
    return is_on_ ? ms_until(ticked_ns_ + watch_.period_ns(), now_ns) : kNoTimeout;
}

// Who lives changes with deaths and with spares that join; both are rare.
void NodeGuard::learn(std::int64_t now_ns) {
    const Coordinator::Knowledge known = coordinator_->knowledge();
    SFT_ASSERT(known.state.index >= index_ && known.deaths.size() >= n_dead_);  // neither is taken back
    if (!has_learnt_ || known.state.index != index_ || known.deaths.size() != n_dead_) {
        watch_.update(known.state, known.deaths, now_ns);
        has_learnt_ = true;
        index_ = known.state.index;
        n_dead_ = known.deaths.size();
    }
}

void NodeGuard::listen(std::int64_t now_ns) {
    const std::vector<Coordinator::Heard> all = coordinator_->take_heard();
    for (const Coordinator::Heard& heard : all) {
        if (heard.has_mail) {
            watch_.heard(heard.from, now_ns, heard.asked_ns);
        } else {
            watch_.heard_datagram(heard.from, now_ns, heard.asked_ns);
        }
        watch_.testified(heard.from, heard.about, heard.testimony, now_ns);
    }
    lease_->renew(watch_.lease_ns());
}

std::vector<Death> NodeGuard::tick(std::int64_t now_ns) {
    if (!is_on_) {
        return {};
    }
    SFT_ASSERT(watch_.period_ns() > 0 && now_ns >= ticked_ns_);
    const bool is_time = now_ns - ticked_ns_ >= watch_.period_ns();
    if (is_time) {
        // An answer may have come while this process did not run.
        while (coordinator_->pump()) {
        }
        learn(now_ns);
    }
    listen(now_ns);
    if (!is_time) {
        return {};
    }
    ticked_ns_ = now_ns;
    heartbeat_->beat();
    const NodeWatch::Round round =
        watch_.tick(now_ns, [this](ProcId process) { return control_->slot(process).heartbeat.load(); });
    SFT_ASSERT_SLOW(
        std::none_of(round.lost.begin(), round.lost.end(), [](const Death& death) { return death.is_certain; }));
    std::map<NodeId, Testimony> testimonies;
    for (const NodeId node : watch_.neighbours()) {
        testimonies[node] = watch_.testimony_about(node, now_ns);
    }
    coordinator_->testify(std::move(testimonies));
    coordinator_->ping(round.ask, now_ns, round.about);
    coordinator_->remind();
    if (round.gives_way) {
        coordinator_->give_way();
    }
    return round.lost;
}

}  // namespace sft
