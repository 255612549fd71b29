// Two processes of two nodes with real mailboxes, in one process, without a network.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>

#include <memory>
#include <optional>

#include "base/clock.hpp"
#include "recovery/membership/scheme.hpp"
#include "tests/recovery/deaths.hpp"
#include "tests/recovery/nobody.hpp"
#include "tests/result.hpp"

namespace sft {

inline constexpr std::int32_t kTwo = 2;
inline constexpr std::int64_t kBeginNs = 1'000 * kNsPerSecond;

// One process, on a node of its own.
struct NodeSide {
    ControlSegment control;
    Mailbox mailbox;
    Nobody nobody;
    std::unique_ptr<Coordinator> coordinator;
};

class TwoNodesTest : public testing::Test {
protected:
    void open_sides() {
        const std::optional<MailToken> token = make_mail_token();
        ASSERT_TRUE(token);
        for (std::int32_t process = 0; process < kTwo; ++process) {
            NodeSide& side = sides_[process];
            const ProcId self(process);
            ASSERT_TRUE(good(side.control.create(kTwo, kTwo)));
            ASSERT_TRUE(good(side.mailbox.open(
                {.token = *token,
                 .self = self,
                 .bytes_max = kMessageBytesMax,
                 .remote = {.listen_on = {.family = AF_INET, .bytes = {127, 0, 0, 1}},
                            .is_remote = [self](ProcId other) { return other != self; },
                            .address_of = [this](ProcId other) { return sides_[other.value()].mailbox.address(); },
                            .introduced = [](ProcId, const Contact&) {}}})));
            side.coordinator = std::make_unique<Coordinator>(Coordinator::Options{
                .shape = {.n_pes = kTwo, .n_processes = kTwo, .nodes = &map_, .scheme = &one_partner()},
                .self = self,
                .mailbox = &side.mailbox,
                .actions = &side.nobody,
                .observer = &side.nobody});
        }
    }
    // What they have sent is on its way in the kernel, which takes a moment.
    void pump(std::int32_t first, std::int32_t last) {
        constexpr int kQuietMs = 20;
        for (;;) {
            pollfd entries[] = {{sides_[first].mailbox.fd(), POLLIN, 0}, {sides_[last].mailbox.fd(), POLLIN, 0}};
            if (poll(entries, 2, kQuietMs) <= 0) {
                return;
            }
            sides_[first].coordinator->pump();
            sides_[last].coordinator->pump();
        }
    }

    const NodeMap map_ = round_robin(kTwo, kTwo);
    NodeSide sides_[kTwo];
};

}  // namespace sft
