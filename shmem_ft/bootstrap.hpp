// How the processes of a job find each other: PMIx, and nothing else.
//
// Process 0 creates the control segment and publishes where it is; everything else is exchanged through the segment,
// so start-up moves O(1) data per process besides the fences. Whatever must be alike in all processes is in the card
// of process 0, and every process compares it with its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>

#include "shmem_ft/base/ids.hpp"

namespace sft {

// Published by process 0. Fixed layout, compared field by field.
struct BootCard {
    std::uint32_t layout = 3;
    std::int32_t pid = 0;
    std::int32_t control_fd = -1;
    std::uint32_t spares = 0;
    std::uint64_t heap_base = 0;
    std::uint64_t heap_bytes = 0;
    std::uint64_t globals_begin = 0;
    std::uint64_t globals_bytes = 0;
    std::uint64_t program_fingerprint = 0;
    std::uint32_t backup_mode = 0;
    std::uint32_t check_mode = 0;
    std::uint32_t is_crowded = 0;  // process 0 decides: more PEs than processors
    std::uint32_t reserved = 0;
    std::uint64_t mail_name = 0;  // MailToken
    std::uint64_t mail_secret = 0;
    char libc_version[32] = {};
    char program[160] = {};
};
static_assert(std::is_trivially_copyable_v<BootCard>);

class Bootstrap {
public:
    // Connects to the PMIx server of the launcher.
    [[nodiscard]] bool connect(std::string& error);
    // What self() will be, known before connect().
    [[nodiscard]] static std::int32_t rank_by_environment() noexcept;
    // Instead of connect(): this process comes to a job that runs, as one more.
    void come_late(ProcId self, std::int32_t n_processes) noexcept;
    // As often as connect() succeeded, at the end of the process.
    static void disconnect() noexcept;

    [[nodiscard]] ProcId self() const noexcept { return self_; }
    [[nodiscard]] std::int32_t n_processes() const noexcept { return n_processes_; }
    [[nodiscard]] std::int32_t n_processes_on_node() const noexcept { return n_processes_on_node_; }

    // Collective: process 0's card becomes `card` everywhere. `generation` counts the initialisations of the library.
    [[nodiscard]] bool share_card(BootCard& card, int generation, std::string& error);
    // Collective. False: a process of the job has ended.
    [[nodiscard]] bool fence() noexcept;
    // Calls `lost` (on a thread of PMIx) when the launcher is gone.
    void watch_launcher(void (*lost)()) noexcept;

private:
    ProcId self_ = kNoProc;
    std::int32_t n_processes_ = 0;
    std::int32_t n_processes_on_node_ = 0;
    char name_space_[256] = {};
};

// Identifies the running executable's file by its contents.
[[nodiscard]] std::uint64_t program_fingerprint() noexcept;

}  // namespace sft
