// The ways between two nodes, here of one process: each has a control segment, a mailbox and a network of its own. What
// goes through the launcher (who is where, who is reached) is in the cluster tests.
#include "shmem_ft/start/node_links.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "tests/result.hpp"

namespace sft {
namespace {

constexpr std::int64_t kPatienceNs = 60'000'000'000;

// A file that goes with the test.
class TextFile {
public:
    explicit TextFile(const char* text) {
        std::FILE* const file = ::fdopen(::mkstemp(name_.data()), "w");
        EXPECT_NE(file, nullptr);
        std::fputs(text, file);
        std::fclose(file);
    }
    ~TextFile() { ::unlink(name_.data()); }
    TextFile(const TextFile&) = delete;
    TextFile& operator=(const TextFile&) = delete;
    [[nodiscard]] std::string name() const { return name_.data(); }

private:
    std::array<char, 32> name_{"/tmp/shmem-ft-test-XXXXXX"};
};

// The process with that number, alone on the node with that number, in a job of two.
struct Side {
    explicit Side(std::int32_t number) : self(number) {
        EXPECT_TRUE(good(load_config(config)));
        config.pretend_nodes = 2;
        bootstrap.join_existing(self, 2, false);
        EXPECT_TRUE(good(control.create(2, 2)));
        control.header().node = number;
        control.header().n_nodes = 2;
    }
    ~Side() { links.close(); }
    [[nodiscard]] Result<> open(std::uint64_t name) {
        JobCard first;
        first.mail_name = name;
        first.mail_secret = 17;
        NodeLinks::Own own;
        own.heap = {0x10'0000'0000, 1U << 20};
        own.gate = &gate;
        own.message_bytes_max = 64;
        return links.open(first, own);
    }

    ProcId self;
    Config config;
    Bootstrap bootstrap;
    ControlSegment control;
    FaultGate gate;
    Mailbox mailbox;
    NodeLinks links{{.config = &config, .bootstrap = &bootstrap, .control = &control, .mailbox = &mailbox}};
};

class NodeLinksTest : public ::testing::Test {
protected:
    void open() {
        const std::optional<MailToken> token = make_mail_token();
        ASSERT_TRUE(token);
        for (Side& side : sides) {
            ASSERT_TRUE(good(side.open(token->name)));
        }
    }
    // As the lowest process of each node does it.
    void exchange_contacts() {
        for (Side& side : sides) {
            for (Side& other : sides) {
                side.control.set_contact(other.self, other.links.own_contact());
            }
        }
    }
    // Whether a word gets from one to the other.
    void send(Side& from, Side& to) {
        const std::byte word[] = {std::byte{42}};
        from.mailbox.send(to.self, word);
        bool is_there = false;
        const std::int64_t end_ns = now_ns() + kPatienceNs;
        while (!is_there && now_ns() < end_ns) {
            from.mailbox.flush();
            from.mailbox.pump([](ProcId, std::span<const std::byte>) {});
            to.mailbox.pump([&](ProcId sender, std::span<const std::byte> message) {
                is_there = sender == from.self && message.size() == 1 && message.front() == word[0];
            });
            ::sched_yield();
        }
        EXPECT_TRUE(is_there);
    }

    std::array<Side, 2> sides{Side(0), Side(1)};
};

TEST_F(NodeLinksTest, BothFindEachOtherByTheirContacts) {
    open();
    exchange_contacts();
    for (Side& side : sides) {
        const ProcId other(1 - side.self.value());
        ASSERT_TRUE(good(side.links.read_nodes()));
        side.links.admit_nodes();
        EXPECT_FALSE(side.links.is_remote(side.self));
        EXPECT_TRUE(side.links.is_remote(other));
        ASSERT_NE(side.links.nodes(), nullptr);
        EXPECT_EQ(side.links.nodes()->node_of(other), NodeId(other.value()));
        EXPECT_EQ(side.links.areas(), nullptr);
        EXPECT_NE(side.links.network(), nullptr);
        EXPECT_EQ(side.links.name_of(NodeId(1)), "pretended node 1");
        EXPECT_EQ(side.links.name_of(NodeId(7)), "node 7");
    }
    send(sides[0], sides[1]);
    send(sides[1], sides[0]);
}

TEST_F(NodeLinksTest, ContactSaysHowTheProcessIsReached) {
    open();
    const Contact contact = sides[1].links.own_contact();
    EXPECT_EQ(contact.node, 1);
    EXPECT_STREQ(contact.node_name, "pretended node 1");
    EXPECT_EQ(to_string(contact.mail), to_string(sides[1].mailbox.address()));
    EXPECT_NE(contact.mail.port, 0);
    EXPECT_GT(contact.fabric_bytes, 0U);
    EXPECT_EQ(sides[1].links.network()->describe().rfind(std::string(contact.fabric_name) + " ", 0), 0U)
        << contact.fabric_name;
}

TEST_F(NodeLinksTest, WhoHasPublishedNoContactIsNamed) {
    open();
    sides[0].control.set_contact(ProcId(0), sides[0].links.own_contact());
    EXPECT_EQ(line_of(sides[0].links.read_nodes()), "process 1 of the job ended inside shmem_init");
}

// Behind the processes that a job begins with: who has a slot on this node is not remote; who has not may be.
TEST_F(NodeLinksTest, ThoseThatJoinAreRemoteUnlessTheyHaveASlotHere) {
    open();
    exchange_contacts();
    Side& side = sides[0];
    ASSERT_TRUE(good(side.links.read_nodes()));
    EXPECT_TRUE(side.links.is_remote(ProcId(2)));
    side.control.slot(ProcId(2)).state.store(ProcessState::ready);
    EXPECT_FALSE(side.links.is_remote(ProcId(2)));
    EXPECT_FALSE(side.links.is_remote(ProcId(side.control.n_slots())));
}

// ---- what is wrong with where it is run ----

TEST_F(NodeLinksTest, InterfaceThatIsNotThere) {
    sides[0].config.interface = "nosuch0";
    const std::string line = line_of(sides[0].open(1));
    EXPECT_NE(line.find("nosuch0"), std::string::npos) << line;
    EXPECT_EQ(sides[0].links.network(), nullptr);
}

TEST_F(NodeLinksTest, FileOfTheTopologySaysWhichNodesAreLostTogether) {
    const TextFile file(
        "apart = \"rack\"\n[[rack]]\nname = \"a\"\nhosts = [\"n1\"]\n[[rack]]\nname = \"b\"\nhosts = [\"n2\"]\n");
    open();
    for (Side& side : sides) {
        EXPECT_EQ(side.links.topology_fingerprint(), 0U);
        side.config.topology = file.name();
        ASSERT_TRUE(good(side.links.read_topology()));
        for (Side& other : sides) {
            Contact contact = other.links.own_contact();
            std::snprintf(contact.node_name, sizeof contact.node_name, "n%d", other.self.value() + 1);
            side.control.set_contact(other.self, contact);
        }
        ASSERT_TRUE(good(side.links.read_nodes()));
        ASSERT_NE(side.links.areas(), nullptr);
        EXPECT_NE(side.links.areas()->area_of(NodeId(0)), side.links.areas()->area_of(NodeId(1)));
        EXPECT_EQ(side.links.name_of(NodeId(1)), "n2");
    }
    EXPECT_EQ(sides[0].links.topology_fingerprint(), sides[1].links.topology_fingerprint());
    EXPECT_NE(sides[0].links.topology_fingerprint(), 0U);
}

TEST_F(NodeLinksTest, FileOfTheTopologyThatIsNotThere) {
    sides[0].config.topology = "/nosuch/file.toml";
    const std::string line = line_of(sides[0].links.read_topology());
    EXPECT_EQ(line.rfind("SHMEM_FT_TOPOLOGY: /nosuch/file.toml", 0), 0U) << line;
}

// ---- a connection that is lost while everybody lives ----

TEST_F(NodeLinksTest, WhoIsLostIsToldOnceWheneverTheListenerComes) {
    open();
    exchange_contacts();
    std::vector<std::string> lines;
    sides[0].links.note_lost(ProcId(1));  // nobody listens yet
    sides[0].links.tell_of_lost([&](const std::string& line) { lines.push_back(line); });
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_EQ(lines[0].rfind("process 0 has no data connection to process 1 on pretended node 1 any more", 0), 0U)
        << lines[0];
    sides[0].links.note_lost(ProcId(1));
    EXPECT_EQ(lines.size(), 2U);
}

// The network's thread and the one that starts, at the same moment: one of them tells, and not both.
TEST(NodeLinks, WhoIsLostWhileTheListenerComesIsToldOnce) {
    Side side(0);
    for (int round = 0; round < 2000; ++round) {
        NodeLinks links(
            {.config = &side.config, .bootstrap = &side.bootstrap, .control = &side.control, .mailbox = &side.mailbox});
        std::atomic<int> n_told{0};
        std::atomic<int> n_ready{0};
        const auto meet = [&n_ready] {
            ++n_ready;
            while (n_ready != 2) {
            }
        };
        std::thread network([&] {
            meet();
            links.note_lost(ProcId(1));
        });
        meet();
        links.tell_of_lost([&](const std::string&) { ++n_told; });
        network.join();
        ASSERT_EQ(n_told, 1) << "round " << round;
    }
}

}  // namespace
}  // namespace sft
