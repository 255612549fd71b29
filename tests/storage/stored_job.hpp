// A PE with its copies and a drain, in memory of one process, and a folder of its own.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "backup/store.hpp"
#include "storage/drain.hpp"
#include "storage/manifest.hpp"
#include "tests/backup/live_memory.hpp"
#include "tests/result.hpp"

namespace sft {

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
                       std::uint64_t job = 1)
        : live(kBlocks) {
        EXPECT_TRUE(good(keeper.create(BackupMode::double_copy, live.state, n_pes)));
        EXPECT_TRUE(good(owner.create(BackupMode::double_copy, live.state, n_pes)));
        const BackupStore::KeeperLocation location{::getpid(), process_start_time(::getpid()), keeper.fd()};
        Trouble trouble;
        EXPECT_EQ(owner.use_keeper(location, pe, live.state, trouble), Reach::opened) << trouble.what;
        EXPECT_TRUE(good(drain.open({.dir = dir,
                                     .keep = 2,
                                     .rate_bytes = rate,
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

}  // namespace sft
