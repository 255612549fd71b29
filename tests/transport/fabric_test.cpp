// Fabrics between real processes that are well: order, sizes, sleeping, and how fabrics are found.
#include "tests/transport/fabric_test.hpp"

#include <sys/wait.h>

#include <cstdio>

#include "tests/result.hpp"

namespace sft {
namespace {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FabricTest);
INSTANTIATE_TEST_SUITE_P(Built, FabricTest, FabricTest::all(), FabricTest::name_of);

TEST_P(FabricTest, MessagesOfAllSizesKeepTheirOrder) {
    constexpr std::size_t kSizes[] = {0,     1,       63,    64,      1000,    7936, 7937, 8192, 0, 20'000,
                                      65536, 300'000, 65537, 1 << 20, 4 << 20, 8,    8,    2000, 5, 262'144};
    constexpr std::size_t kRounds = 10;
    start(0, 2, [&](Node& node) {
        for (std::size_t round = 0; round < kRounds; ++round) {
            for (const std::size_t bytes : kSizes) {
                EXPECT_NE(node.send(1, bytes), Fabric::Sent::gone);
            }
        }
        return node.finish(2);
    });
    start(1, 2, [&](Node& node) {
        EXPECT_TRUE(node.until([&] { return node.recorder.n_heads == kRounds * std::size(kSizes); }));
        EXPECT_TRUE(node.until([&] { return node.recorder.places.empty(); }));
        EXPECT_GE(node.recorder.n_whole, kRounds * 4);  // none of these is eager anywhere
        EXPECT_EQ(node.recorder.n_cut, 0U);
        return node.finish(2);
    });
    expect_all_end_well();
}

TEST_P(FabricTest, EverybodyTalksToEverybody) {
    constexpr std::int32_t kProcesses = 6;
    constexpr std::size_t kMessages = 60;
    for (std::int32_t self = 0; self < kProcesses; ++self) {
        start(self, kProcesses, [self](Node& node) {
            for (std::size_t i = 0; i < kMessages; ++i) {
                for (std::int32_t to = 0; to < kProcesses; ++to) {
                    if (to != self) {
                        EXPECT_NE(node.send(to, i % 20 == 19 ? 300'000 : i * 50), Fabric::Sent::gone);
                    }
                }
                node.fabric->progress();
            }
            EXPECT_TRUE(node.until([&] { return node.recorder.n_heads == kMessages * (kProcesses - 1); }));
            return node.finish(kProcesses);
        });
    }
    expect_all_end_well();
}

TEST_P(FabricTest, LargeMessagesInBothDirectionsAtOnce) {
    constexpr std::size_t kMessages = 20;
    for (std::int32_t self = 0; self < 2; ++self) {
        start(self, 2, [self](Node& node) {
            for (std::size_t i = 0; i < kMessages; ++i) {
                EXPECT_NE(node.send(1 - self, (1 << 20) + i), Fabric::Sent::gone);
            }
            EXPECT_TRUE(node.until([&] { return node.recorder.n_whole == kMessages; }));
            return node.finish(2);
        });
    }
    expect_all_end_well();
}

TEST_P(FabricTest, NothingIsAskedForWhatTheReceiverRefuses) {
    constexpr std::size_t kMessages = 30;
    start(0, 2, [&](Node& node) {
        for (std::size_t i = 0; i < kMessages; ++i) {
            EXPECT_NE(node.send(1, i % 3 == 0 ? 10 : 1 << 20), Fabric::Sent::gone);
        }
        EXPECT_TRUE(node.until([&] { return node.recorder.pending.empty(); }));
        return node.finish(2);
    });
    start(1, 2, [&](Node& node) {
        node.recorder.refuses = true;
        EXPECT_TRUE(node.until([&] { return node.recorder.n_heads == kMessages; }));
        EXPECT_EQ(node.recorder.n_whole, 0U);
        return node.finish(2);
    });
    expect_all_end_well();
}

// Both ends sleep after every message, so each one is a chance to miss it.
TEST_P(FabricTest, NoWakeUpIsLost) {
    constexpr std::uint32_t kRounds = 3000;
    for (std::int32_t self = 0; self < 2; ++self) {
        start(self, 2, [self](Node& node) {
            for (std::uint32_t round = 0; round < kRounds; ++round) {
                const std::size_t bytes = round % 50 == 49 ? 300'000 : round % 100;
                if (self == 0) {
                    EXPECT_NE(node.send(1, bytes), Fabric::Sent::gone);
                }
                if (!node.until([&] { return node.recorder.n_heads == round + 1 && node.recorder.places.empty(); })) {
                    ADD_FAILURE() << "process " << self << " has slept through message " << round;
                    return 1;
                }
                if (self == 1) {
                    EXPECT_NE(node.send(0, bytes), Fabric::Sent::gone);
                }
            }
            return node.finish(2);
        });
    }
    expect_all_end_well();
}

// After one look, whatever that has found: a thread that has had its share of turns goes to sleep like this.
TEST_P(FabricTest, WhoHasNotTakenAllInIsWoken) {
    constexpr std::size_t kMessages = 400;
    start(0, 2, [&](Node& node) {
        for (std::size_t i = 0; i < kMessages; ++i) {
            EXPECT_NE(node.send(1, 7000), Fabric::Sent::gone);
        }
        return node.finish(2);
    });
    start(1, 2, [&](Node& node) {
        while (node.recorder.n_heads != kMessages) {
            node.fabric->progress();
            pollfd entry{.fd = node.fabric->fd(), .events = POLLIN, .revents = 0};
            if (node.recorder.n_heads != kMessages && node.fabric->arm() && ::poll(&entry, 1, 10'000) == 0) {
                ADD_FAILURE() << "asleep behind message " << node.recorder.n_heads;
                return 1;
            }
        }
        return node.finish(2);
    });
    expect_all_end_well();
}

TEST_P(FabricTest, AnswersFromInsideOfTheReceiver) {
    constexpr std::uint32_t kRounds = 500;
    for (std::int32_t self = 0; self < 2; ++self) {
        start(self, 2, [self](Node& node) {
            node.recorder.on_message = [&](const TestHead& head) {
                if (head.number + 1 < kRounds) {
                    EXPECT_NE(node.send(1 - self, head.number % 1000), Fabric::Sent::gone);
                }
            };
            if (self == 0) {
                EXPECT_NE(node.send(1, 0), Fabric::Sent::gone);
            }
            const std::uint32_t expected = self == 0 ? kRounds - 1 : kRounds;
            EXPECT_TRUE(node.until([&] { return node.recorder.n_heads == expected; }));
            return node.finish(2);
        });
    }
    expect_all_end_well();
}

TEST_P(FabricTest, AChildAfterForkDisturbsNobody) {
    start(0, 2, [&](Node& node) {
        for (int round = 0; round < 20; ++round) {
            EXPECT_NE(node.send(1, 100), Fabric::Sent::gone);
            EXPECT_NE(node.send(1, 400'000), Fabric::Sent::gone);
            const pid_t child = fork();
            if (child == 0) {
                node.fabric->close();
                node.fabric.reset();
                std::exit(0);
            }
            int status = -1;
            waitpid(child, &status, 0);
            EXPECT_EQ(status, 0);
            EXPECT_TRUE(node.until([&] { return node.recorder.n_heads == static_cast<std::size_t>(round) + 1; }));
        }
        return node.finish(2);
    });
    start(1, 2, [&](Node& node) {
        for (std::size_t round = 0; round < 20; ++round) {
            EXPECT_TRUE(node.until([&] { return node.recorder.n_whole == round + 1; }));
            EXPECT_NE(node.send(0, 8), Fabric::Sent::gone);
        }
        return node.finish(2);
    });
    expect_all_end_well();
}

// A bit for each signal with a handler. glibc has some of its own behind these when there are threads.
std::uint32_t caught_signals() {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/self/status", "re"), &std::fclose);
    char line[256];
    while (std::fgets(line, sizeof line, file.get()) != nullptr) {
        if (std::strncmp(line, "SigCgt:", 7) == 0) {
            return static_cast<std::uint32_t>(std::strtoull(line + 7, nullptr, 16));
        }
    }
    return 0;
}

TEST_P(FabricTest, TheProgramKeepsItsSignalsAndItsEnvironment) {
    children.push_back(std::make_unique<Child>([&] {
        const std::uint32_t before = caught_signals();
        char** const environment = environ;
        Node node(GetParam(), *board, 0, 1);
        EXPECT_EQ(caught_signals(), before);
        EXPECT_EQ(environ, environment);
        return 0;
    }));
    expect_all_end_well();
}

TEST_P(FabricTest, SaysWhatItUses) {
    start(0, 1, [&](Node& node) {
        const std::string text = node.fabric->describe();
        EXPECT_EQ(text.find(GetParam() + " ("), 0U) << text;
        EXPECT_NE(text.find("lo"), std::string::npos) << text;
        EXPECT_LE(node.fabric->address().size(), kFabricAddressBytes);
        return 0;
    });
    expect_all_end_well();
}

TEST_P(FabricTest, AnInterfaceThatDoesNotExistIsNamed) {
    children.push_back(std::make_unique<Child>([&] {
        const std::unique_ptr<Fabric> fabric = fabric_called(GetParam());
        Recorder recorder;
        const std::string error_line = line_of(fabric->open(
            {.self = ProcId(0), .n_slots = 2, .receiver = &recorder, .interface = "nowhere7", .address = ""}));
        EXPECT_NE(error_line, "");
        EXPECT_NE(error_line.find("nowhere7"), std::string::npos) << error_line;
        EXPECT_EQ(error_line.find('\n'), std::string::npos) << error_line;
        return 0;
    }));
    expect_all_end_well();
}

TEST(Fabrics, AnUnknownNameIsRefused) {
    const std::string error_line = line_of(make_fabric("carrier-pigeon"));
    EXPECT_NE(error_line.find("'carrier-pigeon'"), std::string::npos) << error_line;
}

}  // namespace
}  // namespace sft
