#include "tools/oshrun/stderr_filter.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace sft::tools {
namespace {

const std::string kNoise =
    "[vm:06903] PMIX ERROR: BAD-PARAM in file ../../../src/event/pmix_event_notification.c at line 1033\n";

const std::string kLateGroup =
    "[node0:00004] plm:rsh: Warning: setpgid(10,10) failed in parent with errno=Permission denied(13)\n";

std::string filtered(const std::string& text, std::size_t chunk = std::string::npos) {
    StderrFilter filter;
    std::string out;
    for (std::size_t i = 0; i < text.size(); i += std::min(chunk, text.size() - i)) {
        filter.feed(std::string_view(text).substr(i, chunk), out);
    }
    filter.flush(out);
    return out;
}

TEST(StderrFilter, TheKnownLinesGo) {
    EXPECT_EQ(filtered(kLateGroup), "");
    EXPECT_EQ(filtered("a" + kLateGroup + kNoise + "b" + kLateGroup, 7), "ab");
    EXPECT_EQ(filtered(kNoise), "");
    EXPECT_EQ(filtered("a\n" + kNoise + "b\n"), "a\nb\n");
    EXPECT_EQ(filtered(kNoise + kNoise + "[" + kNoise), "[");
    EXPECT_EQ(filtered("half a line" + kNoise + " and the rest\n"), "half a line and the rest\n");
    EXPECT_EQ(filtered("[node-1.example.org:7] PMIX ERROR: BAD-PARAM in file pmix_event_notification.c at line 1\n"),
              "");
}

TEST(StderrFilter, SimilarLinesStay) {
    for (const char* line : {
             "[vm:06903] PMIX ERROR: BAD-PARAM in file pmix_other.c at line 1033\n",
             "[vm:06903] PMIX ERROR: NOT-FOUND in file pmix_event_notification.c at line 1033\n",
             "[vm:abc] PMIX ERROR: BAD-PARAM in file pmix_event_notification.c at line 1033\n",
             "[vm 1:06903] PMIX ERROR: BAD-PARAM in file pmix_event_notification.c at line 1033\n",
             "[vm:06903] PMIX ERROR: BAD-PARAM in file pmix_event_notification.c at line 1033 and more\n",
             "[vm:06903] PMIX ERROR: BAD-PARAM in file  at line 1033\n",
             "[vm:4] plm:rsh: Warning: setpgid(10,10) failed in parent with errno=No such process(3)\n",
             "[vm:4] plm:rsh: Warning: setpgid(,10) failed in parent with errno=Permission denied(13)\n",
             "[vm:4] plm:rsh: Warning: setpgid(10,10) failed in parent with errno=Permission denied(13) and more\n",
             "[\1:4] PMIX ERROR: BAD-PARAM in file pmix_event_notification.c at line 1033\n",
             "[:4] PMIX ERROR: BAD-PARAM in file pmix_event_notification.c at line 1033\n",
             "[ 50%] [====>   ]\r",
             "[[[vm:1] PMIX\n",
             "[]:[a:]\n",
         }) {
        EXPECT_EQ(filtered(line), line);
        EXPECT_EQ(filtered(line, 1), line);
    }
}

TEST(StderrFilter, NothingElseIsHeldBack) {
    StderrFilter filter;
    std::string out;
    filter.feed("Password: [ 30%", out);
    EXPECT_EQ(out, "Password: [ 30%");
    EXPECT_FALSE(filter.is_holding());
    filter.feed("[host", out);
    EXPECT_TRUE(filter.is_holding());
    filter.flush(out);
    EXPECT_EQ(out, "Password: [ 30%[host");
}

TEST(StderrFilter, ALongLineIsNotHeldForEver) {
    StderrFilter filter;
    std::string out;
    const std::string host(5000, 'h');
    filter.feed("[" + host, out);
    EXPECT_EQ(out, "[" + host);
}

// Any bytes, in any portions: only whole known lines are missing.
TEST(StderrFilter, AnyBytesInAnyPortions) {
    std::mt19937 random(7);
    for (int round = 0; round < 300; ++round) {
        std::string input;
        std::string expected;
        for (int part = 0; part < 20; ++part) {
            if (random() % 3 == 0) {
                input += random() % 2 == 0 ? kNoise : kLateGroup;
                continue;
            }
            std::string bytes;
            for (auto length = random() % 30; length > 0; --length) {
                // Letters of the line are likely, so that many false starts occur; others come too.
                bytes += random() % 4 == 0 ? static_cast<char>(random() % 256) : kNoise[random() % 8];
            }
            bytes += '\n';
            input += bytes;
            expected += bytes;
        }
        EXPECT_EQ(filtered(input, 1 + random() % 50), expected) << "round " << round;
    }
}

}  // namespace
}  // namespace sft::tools
