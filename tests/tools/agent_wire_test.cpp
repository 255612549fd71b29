// Frames between the guardian and agents: whole ones arrive whole however they are cut, and what is not of the protocol
// ends the connection before it is believed or stored.

#include "tools/oshrun/agent_wire.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace sft::tools {
namespace {

struct Pair {
    explicit Pair(std::size_t payload_max = kFramePayloadMax) {
        int ends[2] = {-1, -1};
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        raw = Fd(ends[0]);
        stream = FrameStream(Fd(ends[1]), payload_max);
    }
    void write(const void* bytes, std::size_t count) const {
        ASSERT_EQ(::write(raw.get(), bytes, count), static_cast<ssize_t>(count));
    }
    void write(const FrameHeader& header) const { write(&header, sizeof header); }

    Fd raw;
    FrameStream stream;
};

std::string bytes_of(FrameKind kind, const std::string& payload) {
    Pair pair;
    pair.stream.send(kind, payload);
    EXPECT_FALSE(pair.stream.has_to_send());
    std::string bytes(sizeof(FrameHeader) + payload.size(), '\0');
    EXPECT_EQ(recv(pair.raw.get(), bytes.data(), bytes.size(), MSG_WAITALL), static_cast<ssize_t>(bytes.size()));
    return bytes;
}

TEST(AgentWire, FramesThatArriveInPieces) {
    Pair pair;
    const std::string bytes = bytes_of(FrameKind::input, "hello") + bytes_of(FrameKind::alive, "");
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        pair.write(&bytes[i], 1);
        ASSERT_EQ(pair.stream.receive(), FrameStream::State::open);
        const auto frame = pair.stream.next();
        if (i + 1 == sizeof(FrameHeader) + 5) {
            ASSERT_TRUE(frame);
            EXPECT_EQ(frame->kind, FrameKind::input);
            EXPECT_EQ(frame->payload, "hello");
        } else if (i + 1 == bytes.size()) {
            ASSERT_TRUE(frame);
            EXPECT_EQ(frame->kind, FrameKind::alive);
        } else {
            EXPECT_FALSE(frame) << i;
        }
    }
}

TEST(AgentWire, WhatCameBeforeTheEndIsHeard) {
    Pair pair;
    const std::string bytes = bytes_of(FrameKind::end, "");
    pair.write(bytes.data(), bytes.size());
    pair.raw.reset();
    EXPECT_EQ(pair.stream.receive(), FrameStream::State::closed);
    EXPECT_TRUE(pair.stream.next());
    EXPECT_FALSE(pair.stream.next());
    EXPECT_FALSE(pair.stream.is_broken());
}

TEST(AgentWire, StrangersAreRefused) {
    FrameHeader foreign_magic;
    foreign_magic.magic = 0x20544547;  // an HTTP request
    FrameHeader other_version;
    other_version.version = 99;
    FrameHeader too_long;
    too_long.bytes = static_cast<std::uint32_t>(sizeof(HelloFrame)) + 1;
    for (const FrameHeader& header : {foreign_magic, other_version, too_long}) {
        Pair pair(sizeof(HelloFrame));
        pair.write(header);
        EXPECT_EQ(pair.stream.receive(), FrameStream::State::open);
        EXPECT_FALSE(pair.stream.next());
        EXPECT_TRUE(pair.stream.is_broken());
    }
}

TEST(AgentWire, ALongerFrameIsBelievedFromAMember) {
    Pair pair(sizeof(HelloFrame));
    pair.stream.believe();
    const std::string bytes = bytes_of(FrameKind::start, std::string(1000, 'x'));
    pair.write(bytes.data(), bytes.size());
    EXPECT_EQ(pair.stream.receive(), FrameStream::State::open);
    ASSERT_TRUE(pair.stream.next());
}

TEST(AgentWire, PartsHaveTheirLength) {
    const Frame frame{FrameKind::ended, std::string(sizeof(EndedFrame), '\1')};
    EXPECT_TRUE(fixed_part<EndedFrame>(frame));
    EXPECT_FALSE(fixed_part<SignalFrame>(frame));
    EXPECT_FALSE(fixed_part<CountFrame>(frame));
    EXPECT_TRUE(fixed_part<CountFrame>(frame, true));
    EXPECT_FALSE(fixed_part<CountFrame>({FrameKind::output, "abc"}, true));
}

TEST(AgentWire, AStreamWithoutEndTakesEverything) {
    FrameStream stream;
    stream.send(FrameKind::alive);
    EXPECT_FALSE(stream.has_to_send());
    EXPECT_EQ(stream.receive(), FrameStream::State::closed);
}

TEST(AgentWire, Secrets) {
    SecretHalf a{};
    SecretHalf b{};
    EXPECT_TRUE(are_equal(a, b));
    b[15] = 1;
    EXPECT_FALSE(are_equal(a, b));
}

TEST(AgentWire, Addresses) {
    GuardianAddress guardian{"fe80::1", 4711, {}, {}, "node0"};
    guardian.agent_secret[3] = 0xab;
    guardian.guardian_secret[15] = 0x0c;
    const std::string text = to_text(guardian);
    EXPECT_EQ(parse_guardian_address(text), guardian);
    const std::string wrong_texts[] = {"", text + ",x", text.substr(0, text.rfind(',')),
                                       "10.0.0.1,0" + text.substr(text.find(',', 10)), "a,1,zz,zz,h"};
    for (const std::string& wrong : wrong_texts) {
        EXPECT_EQ(parse_guardian_address(wrong), std::nullopt) << wrong;
    }
}

}  // namespace
}  // namespace sft::tools
