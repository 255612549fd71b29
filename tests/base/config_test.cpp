#include "base/config.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/result.hpp"

namespace sft {
namespace {

// Every test starts without any of the variables, whatever the environment of the test run is.
class ConfigTest : public testing::Test {
protected:
    void SetUp() override {
        std::vector<std::string> names;
        for (char** entry = environ; *entry != nullptr; ++entry) {
            const std::string name(*entry, std::strcspn(*entry, "="));
            if (name.starts_with("SHMEM_") || name.starts_with("SMA_")) {
                names.push_back(name);
            }
        }
        for (const std::string& name : names) {
            unsetenv(name.c_str());
        }
    }
    void TearDown() override { SetUp(); }

    static void set(const char* name, const char* value) { setenv(name, value, 1); }

    Config config;
};

TEST_F(ConfigTest, EveryDefaultIsAccepted) {
    ASSERT_TRUE(good(load_config(config)));
    EXPECT_EQ(config.symmetric_size_bytes, 512U << 20);
    EXPECT_EQ(config.spares, 0U);
    EXPECT_EQ(config.scrub_seconds, 0U) << "off";
    EXPECT_EQ(config.scrub_rate_bytes, 64U << 20);
    EXPECT_EQ(config.backup.mode, BackupMode::double_copy);
    EXPECT_EQ(config.on_fault, FaultAction::jump);
    EXPECT_EQ(config.unreplaced, Unreplaced::abort);
    EXPECT_EQ(config.wait_timeout_seconds, 300U);
    EXPECT_EQ(config.heap_base_address % 4096, 0U);
    EXPECT_GT(config.heap_base_address, 0U);
    EXPECT_FALSE(config.debug);
    EXPECT_FALSE(config.info);
    EXPECT_FALSE(config.version);
    EXPECT_FALSE(config.events);
    EXPECT_EQ(config.job_socket, "");
    for (const SettingInfo& setting : settings()) {
        EXPECT_EQ(setting_origin(setting), nullptr) << setting.name;
        EXPECT_EQ(setting_value(setting, config), setting.default_value) << setting.name;
    }
}

TEST_F(ConfigTest, TheTwoMoreFaultActionsAreForProgramsOnly) {
    set("SHMEM_FT_ON_FAULT", "abort");
    ASSERT_TRUE(good(load_config(config)));
    EXPECT_EQ(config.on_fault, FaultAction::abort);
    set("SHMEM_FT_ON_FAULT", "throw");
    EXPECT_EQ(line_of(load_config(config)), "SHMEM_FT_ON_FAULT=throw: not one of jump, return, abort");
}

struct SizeCase {
    const char* text;
    std::uint64_t bytes;
};

TEST_F(ConfigTest, SizesOfTheSpecification) {
    const SizeCase cases[] = {
        {"0", 0},           {"0.0k", 0},        {"1", 1},
        {"20m", 20971520},  {"20M", 20971520},  {"3.1M", 3250586},
        {".5m", 524288},    {"0.5m", 524288},   {"20kk", 20480},
        {"20kM", 20480},    {"20k?", 20480},    {"1g", 1ULL << 30},
        {"2G", 2ULL << 30}, {"1t", 1ULL << 40}, {"1T", 1ULL << 40},
        {"1.5k", 1536},     {"1.0", 1},         {"1.", 1},
        {"1e3", 1000},      {"1e3k", 1024000},  {"4503599627370497", 4503599627370497},
    };
    for (const SizeCase& item : cases) {
        set("SHMEM_SYMMETRIC_SIZE", item.text);
        EXPECT_TRUE(good(load_config(config)));
        EXPECT_EQ(config.symmetric_size_bytes, item.bytes) << item.text;
    }
}

TEST_F(ConfigTest, BadSizes) {
    // The first ones lack a suffix, or have a digit behind it.
    for (const char* text :
         {"3.7", "0.1", "1e-3", "4G4", "20k0", "1k?5", "",         " ",    "-1",    "-1M",      "+1M",  "abc", "5x",
          "5 M", "M",   ".",    ".M",  "inf",  "nan",  "infinity", "1e30", "1e999", "9999999T", "0x10", "--5"}) {
        config.symmetric_size_bytes = 7;
        set("SHMEM_SYMMETRIC_SIZE", text);
        EXPECT_EQ(line_of(load_config(config)),
                  std::string("SHMEM_SYMMETRIC_SIZE=") + text +
                      ": not a number from 0 with a suffix k, M, G or T (powers of 1024), or a whole one without");
        EXPECT_EQ(config.symmetric_size_bytes, 7U) << "changed by a failed load";
    }
}

TEST_F(ConfigTest, TheDecimalPointIsAPointInEveryLocale) {
    set("SHMEM_SYMMETRIC_SIZE", "1.5k");
    setlocale(LC_ALL, "de_DE.UTF-8");
    EXPECT_TRUE(good(load_config(config)));
    setlocale(LC_ALL, "C");
    EXPECT_EQ(config.symmetric_size_bytes, 1536U);
}

TEST_F(ConfigTest, OldNamesWorkAndTheNewOnesWin) {
    set("SMA_SYMMETRIC_SIZE", "1k");
    set("SMA_DEBUG", "");
    ASSERT_TRUE(good(load_config(config)));
    EXPECT_EQ(config.symmetric_size_bytes, 1024U);
    EXPECT_TRUE(config.debug);
    EXPECT_STREQ(setting_origin(settings()[0]), "SMA_SYMMETRIC_SIZE");

    set("SHMEM_SYMMETRIC_SIZE", "2k");
    ASSERT_TRUE(good(load_config(config)));
    EXPECT_EQ(config.symmetric_size_bytes, 2048U);
    EXPECT_STREQ(setting_origin(settings()[0]), "SHMEM_SYMMETRIC_SIZE");
}

TEST_F(ConfigTest, ABadValueUnderAnOldNameIsNamedByIt) {
    set("SMA_SYMMETRIC_SIZE", "much");
    const std::string error_line = line_of(load_config(config));
    EXPECT_NE(error_line, "");
    EXPECT_TRUE(error_line.starts_with("SMA_SYMMETRIC_SIZE=much: not a number")) << error_line;
}

TEST_F(ConfigTest, AnyValueSetsTheVariablesOfTheSpecification) {
    set("SHMEM_VERSION", "");
    set("SHMEM_INFO", "0");
    set("SHMEM_DEBUG", "no");
    ASSERT_TRUE(good(load_config(config)));
    EXPECT_TRUE(config.version);
    EXPECT_TRUE(config.info);
    EXPECT_TRUE(config.debug);
}

TEST_F(ConfigTest, ZeroSwitchesAFlagOff) {
    set("SHMEM_FT_EVENTS", "1");
    ASSERT_TRUE(good(load_config(config)));
    EXPECT_TRUE(config.events);
    set("SHMEM_FT_EVENTS", "0");
    ASSERT_TRUE(good(load_config(config)));
    EXPECT_FALSE(config.events);
}

TEST_F(ConfigTest, BackupModes) {
    set("SHMEM_FT_BACKUP_MODE", "none");
    ASSERT_TRUE(good(load_config(config)));
    EXPECT_EQ(config.backup.mode, BackupMode::none);
    set("SHMEM_FT_BACKUP_MODE", "single");
    ASSERT_TRUE(good(load_config(config)));
    EXPECT_EQ(config.backup.mode, BackupMode::single_copy);
    set("SHMEM_FT_BACKUP_MODE", "replica:3");
    ASSERT_TRUE(good(load_config(config)));
    EXPECT_EQ(config.backup, (Backup{BackupMode::double_copy, 3}));
    set("SHMEM_FT_BACKUP_MODE", "xor:8");
    ASSERT_TRUE(good(load_config(config)));
    EXPECT_EQ(config.backup, (Backup{.data = 7, .parity = 1}));
    set("SHMEM_FT_BACKUP_MODE", "rs:10+2");
    ASSERT_TRUE(good(load_config(config)));
    EXPECT_EQ(config.backup, (Backup{.data = 10, .parity = 2}));
    set("SHMEM_FT_BACKUP_MODE", "replica:1");
    ASSERT_TRUE(good(load_config(config)));
    EXPECT_EQ(config.backup, Backup());
    for (const char* bad :
         {"replica:", "replica:0", "replica:9", "replica:-1", "replica:2x", "replica", "double:2", "xor", "xor:1",
          "xor:33", "rs:2", "rs:0+1", "rs:2+5", "rs:31+2", "rs:+1", "rs:2+1x", "xor:4+1"}) {
        set("SHMEM_FT_BACKUP_MODE", bad);
        EXPECT_FALSE(load_config(config)) << bad;
    }
}

struct BadCase {
    const char* name;
    const char* value;
    const char* line;
};

TEST_F(ConfigTest, BadValuesNameTheVariableAndWhatIsAccepted) {
    const BadCase cases[] = {
        {"SHMEM_FT_BACKUP_MODE", "tripple",
         "SHMEM_FT_BACKUP_MODE=tripple: not one of none, single, double, replica:K with K from 1 to 8, xor:G with G "
         "from 2 to 32, rs:K+M with M from 1 "
         "to 4 and K+M up to 32"},
        {"SHMEM_FT_BACKUP_MODE", "",
         "SHMEM_FT_BACKUP_MODE=: not one of none, single, double, replica:K with K from 1 to 8, xor:G with G from 2 to "
         "32, rs:K+M with M from 1 "
         "to 4 and K+M up to 32"},
        {"SHMEM_FT_SPARES", "-1", "SHMEM_FT_SPARES=-1: not a number from 0 to 4094"},
        {"SHMEM_FT_SPARES", "4095", "SHMEM_FT_SPARES=4095: not a number from 0 to 4094"},
        {"SHMEM_FT_SPARES", "1.5", "SHMEM_FT_SPARES=1.5: not a number from 0 to 4094"},
        {"SHMEM_FT_SPARES", "99999999999", "SHMEM_FT_SPARES=99999999999: not a number from 0 to 4094"},
        {"SHMEM_FT_EVENTS", "2", "SHMEM_FT_EVENTS=2: not 0 or 1"},
        {"SHMEM_FT_HEAP_BASE", "0x1001",
         "SHMEM_FT_HEAP_BASE=0x1001: not a hexadecimal address from 0x10000 to 0x7ffffffff000, a multiple of 0x1000"},
        {"SHMEM_FT_HEAP_BASE", "0x800000000000",
         "SHMEM_FT_HEAP_BASE=0x800000000000: not a hexadecimal address from 0x10000 to 0x7ffffffff000, a multiple of "
         "0x1000"},
        {"SHMEM_FT_SPARES", "a\nb", "SHMEM_FT_SPARES=a?b: not a number from 0 to 4094"},
    };
    for (const BadCase& item : cases) {
        set(item.name, item.value);
        EXPECT_EQ(line_of(load_config(config)), item.line);
        unsetenv(item.name);
    }
}

TEST_F(ConfigTest, LongBadValuesAreCutShort) {
    set("SHMEM_FT_SPARES", std::string(5000, '7').c_str());
    const std::string error_line = line_of(load_config(config));
    EXPECT_NE(error_line, "");
    EXPECT_LT(error_line.size(), 200U);
}

TEST_F(ConfigTest, HeapBase) {
    for (const char* text : {"0x300000000000", "300000000000", "0X300000000000"}) {
        set("SHMEM_FT_HEAP_BASE", text);
        ASSERT_TRUE(good(load_config(config)));
        EXPECT_EQ(config.heap_base_address, 0x300000000000U);
    }
}

TEST_F(ConfigTest, UnknownVariablesAreErrorsWithAHint) {
    set("SHMEM_FT_SPARE", "1");
    EXPECT_EQ(line_of(load_config(config)), "SHMEM_FT_SPARE: no such setting; did you mean SHMEM_FT_SPARES?");
    unsetenv("SHMEM_FT_SPARE");

    set("SHMEM_FT_BACKUPMODE", "double");
    EXPECT_EQ(line_of(load_config(config)), "SHMEM_FT_BACKUPMODE: no such setting; did you mean SHMEM_FT_BACKUP_MODE?");
    unsetenv("SHMEM_FT_BACKUPMODE");

    set("SHMEM_FT_XYZZYXYZZYXYZZY", "1");
    EXPECT_EQ(line_of(load_config(config)),
              "SHMEM_FT_XYZZYXYZZYXYZZY: no such setting; `shmem-ft config` lists them all");
}

TEST_F(ConfigTest, VariablesOfOthersAreLeftAlone) {
    set("SHMEM_FTP", "1");
    set("SHMEM_OTHER", "1");
    EXPECT_TRUE(good(load_config(config)));
}

TEST_F(ConfigTest, CompressionOfStoredFiles) {
    using Kind = StoreCompression::Kind;
    for (const auto& [text, expected] : {std::pair<const char*, StoreCompression>{"none", {Kind::none, 0}},
                                         {"lz4", {Kind::lz4, 0}},
                                         {"zstd", {Kind::zstd, 1}},
                                         {"zstd:2", {Kind::zstd, 2}},
                                         {"zstd:9", {Kind::zstd, 9}}}) {
        set("SHMEM_FT_STORE_COMPRESSION", text);
        ASSERT_TRUE(good(load_config(config)));
        EXPECT_EQ(config.store_compression, expected) << text;
    }
    for (const char* const text : {"", "gzip", "zstd:", "zstd:0", "zstd:10", "zstd:-1", "lz4:1", "zstd3"}) {
        set("SHMEM_FT_STORE_COMPRESSION", text);
        const Result<> loaded = load_config(config);
        ASSERT_FALSE(loaded) << text;
        EXPECT_EQ(loaded.error().line, std::string("SHMEM_FT_STORE_COMPRESSION=") + text +
                                           ": not one of none, lz4, zstd, zstd:N with N from 1 to 9");
    }
}

TEST_F(ConfigTest, Intervals) {
    using Kind = CheckpointInterval::Kind;
    const struct {
        const char* text;
        CheckpointInterval interval;
    } cases[] = {
        {"1", {Kind::calls, 1}},
        {"1000000000", {Kind::calls, 1'000'000'000}},
        {"auto", {Kind::automatic, 0}},
        {"250ms", {Kind::time, 250'000'000}},
        {"30s", {Kind::time, 30'000'000'000}},
        {"5m", {Kind::time, 300'000'000'000}},
        {"2h", {Kind::time, 7200'000'000'000}},
        {"10000d", {Kind::time, 864'000'000'000'000'000}},
    };
    for (const auto& item : cases) {
        set("SHMEM_FT_INTERVAL", item.text);
        EXPECT_TRUE(good(load_config(config)));
        EXPECT_EQ(config.interval, item.interval) << item.text;
    }
    for (const char* text : {"", "0", "0s", "-1", "-1s", "s", "30 s", "30sec", "1.5s", "10001d",
                             "99999999999999999999s", "Auto", "1000000001", "ms", "1e3"}) {
        set("SHMEM_FT_INTERVAL", text);
        EXPECT_EQ(line_of(load_config(config)),
                  std::string("SHMEM_FT_INTERVAL=") + text +
                      ": not auto, a number of calls from 1, or a duration such as 500ms, 30s, 5m, 2h");
    }
    unsetenv("SHMEM_FT_INTERVAL");
    set("SHMEM_FT_MTBF", "7d");
    EXPECT_TRUE(good(load_config(config)));
    EXPECT_EQ(config.mtbf_ns, 604'800'000'000'000);
    for (const char* text : {"7", "auto", "0h"}) {
        set("SHMEM_FT_MTBF", text);
        EXPECT_EQ(line_of(load_config(config)),
                  std::string("SHMEM_FT_MTBF=") + text + ": not a duration such as 30s, 5m, 2h, 7d");
    }
}

TEST_F(ConfigTest, ValuesArePrintedInTheFormInWhichTheyAreRead) {
    const char* values[] = {"3M",
                            "set",
                            "set",
                            "set",
                            "replica:2",
                            "racks.toml",
                            "30s",
                            "90m",
                            "/tmp/versions",
                            "1h",
                            "5",
                            "100M",
                            "64",
                            "zstd:7",
                            "/tmp/versions/version-00000012",
                            "/tmp/others",
                            "8M",
                            "0",
                            "abort",
                            "warn",
                            "handler",
                            "5",
                            "no",
                            "60",
                            "2M",
                            "0",
                            "4G",
                            "check",
                            "protect",
                            "500",
                            "8000",
                            "900",
                            "700",
                            "0",
                            "ofi",
                            "eth1",
                            "0",
                            "3",
                            "7",
                            "0x300000000000",
                            "1",
                            "1",
                            "kill pe 1 at replicated",
                            "f",
                            "v",
                            "name",
                            "1:2",
                            "8"};
    ASSERT_EQ(std::size(values), settings().size());
    std::size_t index = 0;
    for (const SettingInfo& setting : settings()) {
        ASSERT_TRUE(good(parse_setting(setting, values[index], config)));
        EXPECT_EQ(setting_value(setting, config), values[index]);
        ++index;
    }
}

}  // namespace
}  // namespace sft
