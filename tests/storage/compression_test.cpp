// Compressed files: what comes back is what was given, and what is damaged is found.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>
#include <vector>

#include "storage/compressor.hpp"
#include "tests/storage/stored_job.hpp"

namespace sft {
namespace {

constexpr auto kLz4 = StoreCompression::Kind::lz4;
constexpr auto kZstd = StoreCompression::Kind::zstd;

class Compressed : public testing::TestWithParam<StoreCompression> {};

std::vector<std::byte> repeating(std::size_t n, std::mt19937& random) {
    std::vector<std::byte> bytes(n);
    for (std::size_t i = 0; i < n; ++i) {
        bytes[i] = i % 61 == 0 ? static_cast<std::byte>(random()) : std::byte(i >> 6U);
    }
    return bytes;
}

TEST_P(Compressed, PiecesComeBack) {
    Compressor compressor(GetParam());
    std::mt19937 random(1);
    for (const std::size_t n : {std::size_t(40), std::size_t(4096), std::size_t(100'000), kPieceBytes}) {
        const std::vector<std::byte> plain = repeating(n, random);
        const std::span<const std::byte> packed = compressor.compress(plain);
        if (packed.empty()) {
            EXPECT_LT(n, 100U);
            continue;
        }
        EXPECT_LT(packed.size(), n);
        std::vector<std::byte> back(n);
        EXPECT_TRUE(decompress(packed, back));
        EXPECT_TRUE(back == plain) << n;
        EXPECT_FALSE(decompress(packed.first(packed.size() - 1), back)) << "a part is missing";
        back.resize(n + 1);
        EXPECT_FALSE(decompress(packed, back)) << "it becomes less than that";
        back.resize(n - 1);
        EXPECT_FALSE(decompress(packed, back)) << "it becomes more than that";
    }
}

TEST_P(Compressed, NoiseIsLeftAsItIs) {
    std::mt19937 random(2);
    std::vector<std::byte> noise(kBlockBytes);
    std::generate(noise.begin(), noise.end(), [&] { return static_cast<std::byte>(random()); });
    EXPECT_TRUE(Compressor(GetParam()).compress(noise).empty());
}

TEST_P(Compressed, VersionsComeBackWhileTheCopyBecomesTheNextOnes) {
    const Folder folder;
    StoredJob job(folder.path(), 1, PeId(0), 0, 1, GetParam());
    std::mt19937 random(3);
    for (std::uint32_t i = 1; i < 16; i += 2) {
        job.live.scribble(random, 200);
        if (i == 1) {
            job.live.punch(random);
        }
        job.checkpoint(Version(i), true);
        const Contents expected = contents(job.live);
        job.live.scribble(random, 200);
        job.checkpoint(Version(i + 1), false);  // what is not written yet is kept aside
        job.await_complete(Version(i));
        const std::string path = state_file(version_folder(folder.path(), Version(i)), PeId(0));
        EXPECT_TRUE(load(path, Version(i)) == expected) << i;
        const StoredHead head = *read_head(path);
        EXPECT_EQ(head.compression, static_cast<std::uint32_t>(GetParam().kind));
        EXPECT_LT(head.file_bytes, head.bytes);
    }
}

TEST_P(Compressed, EachFlipIsFound) {
    const Folder folder;
    StoredJob job(folder.path(), 1, PeId(0), 0, 1, GetParam());
    std::mt19937 random(4);
    job.live.scribble(random, 20);
    job.checkpoint(Version(1), true);
    job.await_complete(Version(1));
    const std::string path = state_file(version_folder(folder.path(), Version(1)), PeId(0));
    const std::size_t bytes = std::filesystem::file_size(path);
    const Contents expected = load(path, Version(1));
    int n_pieces = 0;
    for (int i = 0; i < 400; ++i) {
        // All bits of the first head of a piece, then any.
        const std::size_t offset =
            i < 128 ? kPageBytes + static_cast<std::size_t>(i / 8) : kPageBytes + random() % (bytes - kPageBytes);
        const int bit = i % 8;
        flip(path, offset, bit);
        StoredState state;
        const Result<> opened = state.open(path);
        n_pieces += !opened && opened.error().line.find("cannot be unpacked: the file is damaged") != std::string::npos;
        EXPECT_TRUE(!opened || !state.verify() || load(path, Version(1)) == expected) << offset << " " << bit;
        flip(path, offset, bit);
    }
    EXPECT_GT(n_pieces, 50);
    std::filesystem::resize_file(path, bytes - 1);
    StoredState state;
    const Result<> opened = state.open(path);
    ASSERT_FALSE(opened);
    EXPECT_NE(opened.error().line.find("instead of"), std::string::npos) << opened.error().line;
}

// Pieces of which nothing can be gained lie in the file as they are.
TEST_P(Compressed, NoiseInAVersionComesBack) {
    const Folder folder;
    StoredJob job(folder.path(), 1, PeId(0), 0, 1, GetParam());
    std::mt19937 random(5);
    for (std::size_t i = 0; i < 4 * kPieceBytes; ++i) {
        job.live.heap.address()[i] = static_cast<std::byte>(random());
    }
    job.checkpoint(Version(1), true);
    job.await_complete(Version(1));
    const std::string path = state_file(version_folder(folder.path(), Version(1)), PeId(0));
    EXPECT_GT(std::filesystem::file_size(path), 4 * kPieceBytes);
    EXPECT_TRUE(load(path, Version(1)) == contents(job.live));
}

TEST_P(Compressed, APieceThatCannotBeIsRefused) {
    const Folder folder;
    StoredJob job(folder.path(), 1, PeId(0), 0, 1, GetParam());
    std::mt19937 random(6);
    job.live.scribble(random, 20);
    job.checkpoint(Version(1), true);
    job.await_complete(Version(1));
    const std::string path = state_file(version_folder(folder.path(), Version(1)), PeId(0));
    const StoredHead head = *read_head(path);
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    PieceHead good_one;
    file.seekg(kPageBytes);
    file.read(reinterpret_cast<char*>(&good_one), sizeof good_one);
    const auto refused = [&](const PieceHead& piece) {
        file.seekp(kPageBytes);
        file.write(reinterpret_cast<const char*>(&piece), sizeof piece);
        file.flush();
        StoredState state;
        const Result<> opened = state.open(path);
        return !opened &&
               opened.error().line.ends_with("the piece at byte 4096 cannot be unpacked: the file is damaged");
    };
    const auto changed = [&](auto change) {
        PieceHead piece = good_one;
        change(piece);
        return piece;
    };
    ASSERT_FALSE(refused(good_one));
    EXPECT_TRUE(refused(changed([](PieceHead& piece) { piece.offset = 0; }))) << "it is the head's place";
    EXPECT_TRUE(refused(changed([&](PieceHead& piece) { piece.offset = head.bytes - 1; })))
        << "it ends behind the state";
    EXPECT_TRUE(refused(changed([](PieceHead& piece) { piece.offset = ~std::uint64_t{0}; })));
    EXPECT_TRUE(refused(changed([](PieceHead& piece) { piece.bytes = 0; })));
    EXPECT_TRUE(refused(changed([](PieceHead& piece) { piece.bytes = kPieceBytes + 1; })));
    EXPECT_TRUE(refused(changed([](PieceHead& piece) { piece.stored_bytes = piece.bytes + 1; })));
    EXPECT_TRUE(refused(changed([](PieceHead& piece) { piece.stored_bytes -= 1; })));
    EXPECT_TRUE(refused(changed([](PieceHead& piece) { piece.stored_bytes = 0; })));
}

INSTANTIATE_TEST_SUITE_P(All, Compressed,
                         testing::Values(StoreCompression{kLz4, 0}, StoreCompression{kZstd, 1},
                                         StoreCompression{kZstd, 5}));

}  // namespace
}  // namespace sft
