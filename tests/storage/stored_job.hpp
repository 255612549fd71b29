// A PE with its copies and a drain, in memory of one process, and a folder of its own.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "backup/store.hpp"
#include "storage/drain.hpp"
#include "storage/manifest.hpp"
#include "storage/stored_state.hpp"
#include "tests/backup/live_memory.hpp"
#include "tests/result.hpp"

namespace sft {

inline void flip(const std::string& path, std::size_t offset, int bit = 0) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(offset));
    const char byte = static_cast<char>(file.get() ^ (1 << bit));
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
}

class Folder {
public:
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "stored-XXXXXX").string();
        EXPECT_NE(::mkdtemp(name.data()), nullptr);
        path_ = name;
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    [[nodiscard]] const std::string& path() const { return path_; }

private:
    std::string path_;
};

inline Manifest about(std::int32_t n_pes, std::uint64_t job = 1) {
    Manifest about;
    about.n_pes = n_pes;
    about.program_path = "/a \"program\"";
    about.program = 0x1234;
    about.job = job;
    about.library = "0.1.0";
    about.settings = {{"SHMEM_FT_CHECK", "off"}, {"SHMEM_SYMMETRIC_SIZE", "512M"}};
    return about;
}

// PE `pe` of `n_pes`, the copies of which this process keeps.
struct StoredJob {
    static constexpr std::size_t kBlocks = 300;

    explicit StoredJob(const std::string& dir, std::int32_t n_pes = 1, PeId pe = PeId(0), std::uint64_t rate = 0,
                       std::uint64_t job = 1, const StoreCompression& compression = {})
        : live(kBlocks) {
        EXPECT_TRUE(good(keeper.create(BackupMode::double_copy, live.state, n_pes)));
        EXPECT_TRUE(good(owner.create(BackupMode::double_copy, live.state, n_pes)));
        const BackupStore::KeeperLocation location{::getpid(), process_start_time(::getpid()), keeper.fd()};
        Trouble trouble;
        EXPECT_EQ(owner.use_keeper(location, pe, live.state, trouble), Reach::opened) << trouble.what;
        EXPECT_TRUE(good(drain.open({.dir = dir,
                                     .keep = 2,
                                     .rate_bytes = rate,
                                     .compression = compression,
                                     .me = [pe] { return pe; },
                                     .live = &live.state,
                                     .about = about(n_pes, job)})));
        owner.give_versions_to(drain);
    }
    ~StoredJob() { drain.stop(); }

    // stores: it is to go to a file.
    void checkpoint(Version version, bool stores) {
        if (stores) {
            drain.want(version);
        }
        owner.replicate(version, live.state);
        owner.update_local_copy(version, live.state);
    }
    void await_written() const {
        while (drain.is_writing()) {
            std::this_thread::yield();
        }
    }
    void await_complete(Version version) const {
        while (drain.last_complete() < version) {
            std::this_thread::yield();
        }
    }

    LiveMemory live;
    BackupStore keeper;
    BackupStore owner;
    Drain drain;
};

// What a program would find.
struct Contents {
    std::vector<std::byte> heap;
    std::vector<std::byte> globals;
    std::vector<std::byte> library;
    friend bool operator==(const Contents&, const Contents&) = default;
};

inline Contents contents(const LiveMemory& live) {
    Contents all{live.heap_bytes(), live.globals_bytes(), {}};
    for (std::size_t i = 0; i < all.globals.size(); ++i) {
        all.globals[i] = live.is_saved(i) ? all.globals[i] : std::byte(0);
    }
    all.library.resize(live.library.size());
    std::transform(live.library.begin(), live.library.end(), all.library.begin(),
                   [](auto value) { return static_cast<std::byte>(value); });
    return all;
}

inline Contents load(const std::string& path, Version version) {
    StoredState state;
    EXPECT_TRUE(good(state.open(path)));
    EXPECT_TRUE(good(state.verify()));
    LiveMemory reader(StoredJob::kBlocks);
    EXPECT_TRUE(state.image(reader.state).load(version, reader.state).intact());
    return contents(reader);
}

}  // namespace sft
