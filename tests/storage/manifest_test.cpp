// Manifests, and the checks of what they speak of.
#include "storage/manifest.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "storage/stored_state.hpp"
#include "tests/damaged_text.hpp"
#include "tests/storage/stored_job.hpp"

namespace sft {
namespace {

std::string text_of_file(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

void write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

Manifest example() {
    Manifest manifest = about(3);
    manifest.version = Version(42);
    manifest.stored = 1'795'783'433;
    manifest.image_sums = {1, 0xffffffffffffffff, 3};
    manifest.arrays = {{"a[\"1\"].x", 24, {{PeId(2), 0x200001021080, 1000, 7}}},
                       {"u", 8, {{PeId(0), 0x1000, 0, 500}, {PeId(2), 0x1000, 500, 499}}}};
    return manifest;
}

TEST(Manifest, ComesBack) {
    const Folder folder;
    ASSERT_TRUE(good(write_manifest(folder.path(), example())));
    const auto read = read_manifest(folder.path());
    ASSERT_TRUE(read) << read.error().line;
    EXPECT_EQ(*read, example());
}

TEST(Manifest, NamesTheKeyThatIsWrong) {
    const Folder folder;
    const std::string path = folder.path() + "/manifest.toml";
    ASSERT_TRUE(good(write_manifest(folder.path(), example())));
    const std::string good_text = text_of_file(path);
    const auto error_of = [&](const std::string& from, const std::string& to) {
        std::string text = good_text;
        const std::size_t at = text.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        write(path, text.replace(at, from.size(), to));
        const auto read = read_manifest(folder.path());
        return read ? "nothing" : read.error().line.substr(folder.path().size() + 1);
    };
    EXPECT_EQ(error_of("layout = 4", "layout = 3"), "manifest.toml: layout 3: this library reads layout 4");
    EXPECT_EQ(error_of("version = 42", "version = 0"), "manifest.toml: version: must not be 0");
    EXPECT_EQ(error_of("version = 42", "version = -1"), "manifest.toml:3: version: out of range");
    EXPECT_EQ(error_of("pes = 3", "pes = \"3\""), "manifest.toml:4: pes: of another type than it should be");
    EXPECT_EQ(error_of("pes = 3", "pes = 4"), "manifest.toml: pe-00003: missing");
    EXPECT_EQ(error_of("library", "librarz"), "manifest.toml: library: missing");
    EXPECT_EQ(error_of("ffffffffffffffff", "fffffffffffffffg"), "manifest.toml:30: pe-00001: not a hexadecimal number");
    EXPECT_EQ(error_of("[0, 0, 500,", "[3, 0, 500,"),
              "manifest.toml:24: u: not a PE, its first element, how many, and an address");
    EXPECT_EQ(error_of("[0, 0, 500,", "[0, 0, 0,"),
              "manifest.toml:24: u: not a PE, its first element, how many, and an address");
    EXPECT_EQ(error_of("element_bytes = 8", "element_bytes = 0"),
              "manifest.toml:21: u: not an array with element_bytes and pieces");
    EXPECT_EQ(error_of("[checksums]", "[checksum]"), "manifest.toml: checksums: missing");
    EXPECT_NE(error_of("[settings]", "[settings"), "nothing");
}

// Whatever stands in it: a manifest or a line, and never the end of the process.
TEST(Manifest, TakesAnyBytes) {
    const Folder folder;
    const std::string path = folder.path() + "/manifest.toml";
    ASSERT_TRUE(good(write_manifest(folder.path(), example())));
    const std::string good_text = text_of_file(path);
    std::mt19937 random(7);
    int refused = 0;
    for (int i = 0; i < 3000; ++i) {
        const std::string text = damaged(good_text, random);
        write(path, text);
        const auto read = read_manifest(folder.path());
        refused += read ? 0 : 1;
        EXPECT_TRUE(read || read.error().line.starts_with(path)) << text;
    }
    EXPECT_GT(refused, 1000);
}

TEST(StoredVersions, AreFoundInOrder) {
    const Folder folder;
    EXPECT_TRUE(stored_versions(folder.path() + "/none")->empty());
    for (const std::uint32_t number : {12U, 3U, 100'000'000U}) {
        const std::string path = version_folder(folder.path(), Version(number));
        std::filesystem::create_directories(path);
        if (number != 12) {
            Manifest manifest = example();
            manifest.version = Version(number);
            ASSERT_TRUE(good(write_manifest(path, manifest)));
        }
    }
    std::filesystem::create_directories(folder.path() + "/version-x");
    std::filesystem::create_directories(folder.path() + "/else");
    const auto versions = stored_versions(folder.path());
    ASSERT_TRUE(versions && versions->size() == 3);
    EXPECT_EQ((*versions)[0].version, Version(3));
    EXPECT_FALSE((*versions)[1].is_complete);
    EXPECT_EQ(newest_complete(folder.path())->version, Version(100'000'000));
    ASSERT_TRUE(good(remove_version((*versions)[2].folder)));
    EXPECT_EQ(newest_complete(folder.path())->version, Version(3));
    EXPECT_TRUE(good(remove_version((*versions)[2].folder)));  // gone is gone
}

class Verify : public testing::Test {
protected:
    Verify() : job(folder.path()) {
        std::mt19937 random(8);
        job.live.scribble(random, 200);
        job.checkpoint(Version(5), true);
        job.await_complete(Version(5));
        version = version_folder(folder.path(), Version(5));
        path = state_file(version, PeId(0));
    }
    [[nodiscard]] std::string verified() const {
        const auto manifest = read_manifest(version);
        const auto done = manifest ? verify_version(version, *manifest, true) : Result<>(fails(manifest.error()));
        return done ? "" : done.error().line.substr(std::min(done.error().line.size(), path.size()));
    }
    void flip(std::size_t offset) const { sft::flip(path, offset); }

    const Folder folder;
    StoredJob job;
    std::string version;
    std::string path;
};

TEST_F(Verify, FindsEachDamage) {
    EXPECT_EQ(verified(), "");
    const StoredHead head = *read_head(path);
    flip(head.globals.offset + 5);
    EXPECT_EQ(verified(), ": block 0 of the globals does not fit its checksum");
    flip(head.globals.offset + 5);
    flip(head.library.offset + 999);
    EXPECT_EQ(verified(), ": block 0 of the library's state does not fit its checksum");
    flip(head.library.offset + 999);
    flip(head.table + 3);
    EXPECT_EQ(verified(), ": its table of checksums is damaged");
    flip(head.table + 3);
    flip(20);
    EXPECT_EQ(verified(), ": its head does not fit its checksum: the file is damaged");
    flip(20);
    flip(0);
    EXPECT_EQ(verified(), ": is no stored state of a PE");
    flip(0);
    std::filesystem::resize_file(path, head.bytes - 1);
    EXPECT_NE(verified().find("instead of"), std::string::npos);
    std::filesystem::resize_file(path, 100);
    EXPECT_EQ(verified(), ": is no stored state of a PE");
    std::filesystem::remove(path);
    EXPECT_EQ(verified(), ": cannot be opened: No such file or directory");
}

}  // namespace
}  // namespace sft
