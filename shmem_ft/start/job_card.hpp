// What must be alike in all processes of a job, and how a user is told what is not.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/address_range.hpp"
#include "base/config.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"

namespace sft {

// Published by process 0. Fixed layout, compared field by field.
struct JobCard {
    std::uint32_t layout = 9;
    std::uint32_t spares = 0;
    std::uint64_t heap_base = 0;
    std::uint64_t heap_bytes = 0;
    std::uint64_t globals_begin = 0;
    std::uint64_t globals_bytes = 0;
    std::uint64_t program_fingerprint = 0;
    std::uint32_t backup_mode = 0;
    std::uint32_t check_mode = 0;
    std::uint32_t is_crowded = 0;  // process 0 decides: more PEs on a node than it has processors
    std::uint32_t port_guard = 0;
    std::uint64_t partners = 0;  // and what there is of parity
    std::uint64_t tracks = 0;    // writes to other PEs are noted
    std::uint64_t guards = 0;    // heaps have words of their guard
    std::uint64_t topology = 0;  // Topology::fingerprint; 0: none
    std::uint64_t interval_kind = 0;
    std::uint64_t interval_amount = 0;
    std::uint64_t storing = 0;    // checksum of the settings of stored versions
    std::uint64_t mail_name = 0;  // MailToken
    std::uint64_t mail_secret = 0;
    char libc_version[32] = {};
    char program[160] = {};
};
static_assert(std::is_trivially_copyable_v<JobCard> && sizeof(JobCard) == 328);
static_assert(std::has_unique_object_representations_v<JobCard>, "no byte goes out that nobody has set");

// That of this process; what process 0 alone chooses is not in there yet.
[[nodiscard]] JobCard own_card(const Config& config, AddressRange heap, AddressRange globals, std::uint64_t topology);
// The first difference to that of process 0 which keeps this process from taking part.
[[nodiscard]] Result<> compare_cards(const JobCard& mine, const JobCard& first, ProcId self);
// What the numbers of processes and spares allow.
[[nodiscard]] Result<> check_sizes(const Config& config, std::int32_t n_processes);

}  // namespace sft
