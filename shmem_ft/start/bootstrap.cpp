#include "shmem_ft/start/bootstrap.hpp"

#include <fcntl.h>
#include <pmix.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "base/assert.hpp"
#include "base/checksum.hpp"
#include "base/faults/fault_points.hpp"
#include "base/instruments.hpp"
#include "base/private_data.hpp"
#include "base/report.hpp"

namespace sft {
namespace {

// Enough of a program's file to tell two builds apart without reading gigabytes of debug information.
constexpr std::size_t kFingerprintBytesMax = 64U << 20U;

bool get_number(const pmix_proc_t& process, const char* key, std::int32_t& number) {
    pmix_value_t* value = nullptr;
    if (PMIx_Get(&process, key, nullptr, 0, &value) != PMIX_SUCCESS) {
        return false;
    }
    const bool is_number = value->type == PMIX_UINT32 || value->type == PMIX_PROC_RANK;
    if (is_number) {
        number = static_cast<std::int32_t>(value->type == PMIX_UINT32 ? value->data.uint32 : value->data.rank);
    }
    PMIX_VALUE_RELEASE(value);
    return is_number;
}

bool get_text(const pmix_proc_t& process, const char* key, std::string& text) {
    pmix_value_t* value = nullptr;
    if (PMIx_Get(&process, key, nullptr, 0, &value) != PMIX_SUCCESS) {
        return false;
    }
    const bool is_text = value->type == PMIX_STRING && value->data.string != nullptr;
    text = is_text ? value->data.string : "";
    PMIX_VALUE_RELEASE(value);
    return is_text;
}

// Where a process publishes something: each initialisation of the library has keys of its own.
struct Key {
    char text[PMIX_MAX_KEYLEN + 1];
    Key(const char* what, int generation) { std::snprintf(text, sizeof text, "shmem-ft.%s.%d", what, generation); }
};

Result<> put_bytes(const Key& key, Bytes bytes) {
    const OthersLeaks leaks;
    pmix_value_t value;
    std::vector<std::byte> copy(bytes.begin(), bytes.end());
    pmix_byte_object_t object{reinterpret_cast<char*>(copy.data()), copy.size()};
    PMIX_VALUE_LOAD(&value, &object, PMIX_BYTE_OBJECT);
    const pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key.text, &value);
    PMIX_VALUE_DESTRUCT(&value);
    if (status != PMIX_SUCCESS || PMIx_Commit() != PMIX_SUCCESS) {
        return fails("cannot publish start-up data through PMIx");
    }
    return {};
}

// False: there is nothing, or something else than `take` can take.
template <class Take>
bool get_bytes(const char* name_space, ProcId process, const Key& key, Take take) {
    pmix_proc_t whose;
    PMIX_PROC_LOAD(&whose, name_space, static_cast<pmix_rank_t>(process.value()));
    pmix_value_t* value = nullptr;
    if (PMIx_Get(&whose, key.text, nullptr, 0, &value) != PMIX_SUCCESS) {
        return false;
    }
    const bool is_taken = value->type == PMIX_BYTE_OBJECT &&
                          take(Bytes(reinterpret_cast<const std::byte*>(value->data.bo.bytes), value->data.bo.size));
    PMIX_VALUE_RELEASE(value);
    return is_taken;
}

template <class Record>
bool get_record(const char* name_space, ProcId process, const Key& key, Record& record) {
    return get_bytes(name_space, process, key, [&](Bytes bytes) {
        if (bytes.size() == sizeof record) {
            std::memcpy(&record, bytes.data(), sizeof record);
        }
        return bytes.size() == sizeof record;
    });
}

bool fence_of(const char* name_space, bool collect) {
    pmix_proc_t everybody;
    PMIX_PROC_LOAD(&everybody, name_space, PMIX_RANK_WILDCARD);
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    const pmix_status_t status = PMIx_Fence(&everybody, 1, &info, 1);
    PMIX_INFO_DESTRUCT(&info);
    return status == PMIX_SUCCESS;
}

// Of a job that oshrun has started itself: how many processes; 0: another launcher has.
std::int32_t launched_by_oshrun() noexcept {
    const char* text = std::getenv("OSHRUN_LAUNCHED");
    return text == nullptr ? 0 : static_cast<std::int32_t>(std::strtol(text, nullptr, 10));
}

}  // namespace

SFT_LIBRARY_STATE std::atomic<bool> Bootstrap::is_launcher_needed_{false};

Result<> Bootstrap::connect(JobChannel& oshrun, std::uint32_t pretend_nodes) {
    fault_point(FaultPoint::init_begin);
    if (const std::int32_t launched = launched_by_oshrun(); launched > 0 && oshrun.is_connected()) {
        oshrun_ = &oshrun;
        self_ = ProcId(rank_by_environment());
        n_processes_ = launched;
        fault_point(FaultPoint::init_connected);
        return {};
    }
    const OthersLeaks leaks;
    pmix_proc_t self;
    const pmix_status_t status = PMIx_Init(&self, nullptr, 0);
    // Without a launcher PMIx is usable but has no server: a job of this one process.
    if (status != PMIX_SUCCESS && status != PMIX_ERR_UNREACH) {
        return fails(format("cannot reach the launcher's PMIx server (%s): start the program with oshrun",
                            PMIx_Error_string(status)));
    }
    std::snprintf(name_space_, sizeof name_space_, "%s", self.nspace);
    self_ = ProcId(static_cast<std::int32_t>(self.rank));
    pretend_nodes_ = pretend_nodes;
    pmix_proc_t job;
    PMIX_PROC_LOAD(&job, self.nspace, PMIX_RANK_WILDCARD);
    std::int32_t n_on_node = 0;
    if (!get_number(job, PMIX_JOB_SIZE, n_processes_) || !get_number(job, PMIX_LOCAL_SIZE, n_on_node)) {
        // Started without a launcher: a job of this one process.
        n_processes_ = n_on_node = 1;
        self_ = ProcId(0);
    }
    is_one_node_ = n_on_node == n_processes_;
    if (pretend_nodes != 0 && !is_one_node_) {
        return fails("SHMEM_FT_PRETEND_NODES is for jobs on one node, and this one is on several");
    }
    if (pretend_nodes != 0) {
        is_one_node_ = pretend_nodes == 1 || n_processes_ == 1;
        node_leader_ = ProcId(self_.value() % static_cast<std::int32_t>(pretend_nodes));
    } else if (!is_one_node_) {
        std::int32_t lowest = 0;
        if (!get_number(job, PMIX_LOCALLDR, lowest)) {
            return fails("the launcher does not tell which processes share a node (PMIX_LOCALLDR)");
        }
        node_leader_ = ProcId(lowest);
    }
    fault_point(FaultPoint::init_connected);
    return {};
}

bool Bootstrap::is_slurm_step() const noexcept { return std::strncmp(name_space_, "slurm.pmix.", 11) == 0; }

void Bootstrap::join_existing(ProcId self, std::int32_t n_processes, bool is_one_node) noexcept {
    SFT_ASSERT(self.value() >= 0 && n_processes > 0);
    self_ = self;
    n_processes_ = n_processes;
    is_one_node_ = is_one_node;
}

Result<> Bootstrap::find_nodes(std::vector<NodeId>& nodes) const {
    SFT_ASSERT(n_processes_ > 0 && self_.value() >= 0);
    nodes.clear();
    std::unordered_map<std::string, NodeId> numbers;
    for (std::int32_t process = 0; process < n_processes_; ++process) {
        if (is_one_node_ || pretend_nodes_ != 0) {
            nodes.emplace_back(is_one_node_ ? 0 : process % static_cast<std::int32_t>(pretend_nodes_));
            continue;
        }
        pmix_proc_t whose;
        PMIX_PROC_LOAD(&whose, name_space_, static_cast<pmix_rank_t>(process));
        std::string name;
        if (!get_text(whose, PMIX_HOSTNAME, name)) {
            return fails(format("the launcher does not tell on which node process %d runs (PMIX_HOSTNAME)", process));
        }
        const auto next = NodeId(static_cast<std::int32_t>(numbers.size()));
        nodes.push_back(numbers.emplace(name, next).first->second);
    }
    SFT_ASSERT(nodes.size() == static_cast<std::size_t>(n_processes_));
    SFT_ASSERT(nodes.front() == NodeId(0));  // in the order of their lowest processes
    return {};
}

std::int32_t Bootstrap::rank_by_environment() noexcept {
    const char* text = std::getenv("PMIX_RANK");
    return text == nullptr ? 0 : static_cast<std::int32_t>(std::strtol(text, nullptr, 10));
}

void Bootstrap::disconnect() noexcept {
    forget_launcher();
    if (launched_by_oshrun() == 0) {
        PMIx_Finalize(nullptr, 0);
    }
}

// What rank 0 shares, all have afterwards.
Result<> Bootstrap::meet(std::span<std::byte> shared) noexcept {
    SFT_ASSERT(oshrun_ != nullptr && shared.size() < sizeof JobEvent::text);
    JobEvent event;
    event.kind = JobEventKind::meeting;
    if (self_ == ProcId(0) && !shared.empty()) {
        std::memcpy(event.text, shared.data(), shared.size());
    }
    if (!oshrun_->exchange(event)) {
        return fails("oshrun is gone");
    }
    if (event.code != 0) {
        return fails("process 0 ended inside shmem_init");
    }
    if (!shared.empty()) {
        std::memcpy(shared.data(), event.text, shared.size());
    }
    return {};
}

bool Bootstrap::fence(Collect collect) noexcept {
    return n_processes_ == 1 ||
           (oshrun_ != nullptr ? meet({}).has_value() : fence_of(name_space_, collect == Collect::yes));
}

Result<> Bootstrap::share_cards(JobCard& card, SegmentCard& segment, int generation) {
    SFT_ASSERT(generation >= 0 && n_processes_ > 0);
    if (n_processes_ == 1) {
        return {};
    }
    if (oshrun_ != nullptr) {
        struct Cards {
            JobCard card;
            SegmentCard segment;
        } cards{card, segment};
        // With room for the zero that report() puts at its end.
        static_assert(std::is_trivially_copyable_v<Cards> && sizeof cards < sizeof JobEvent::text);
        if (Result<> done = meet(std::as_writable_bytes(std::span(&cards, 1))); !done) {
            return done;
        }
        card = cards.card;
        segment = cards.segment;
        return {};
    }
    const Key card_key("card", generation);
    const Key segment_key("segment", generation);
    Result<> put;
    if (self_ == ProcId(0)) {
        put = put_bytes(card_key, std::as_bytes(std::span(&card, 1)));
    }
    if (put && self_ == node_leader_) {
        put = put_bytes(segment_key, std::as_bytes(std::span(&segment, 1)));
    }
    if (!put) {
        return put;
    }
    if (!fence_of(name_space_, true)) {
        return fails("a process of the job ended inside shmem_init");
    }
    if (!get_record(name_space_, ProcId(0), card_key, card)) {
        return fails("process 0 ended inside shmem_init, or runs another version of this library");
    }
    if (!get_record(name_space_, node_leader_, segment_key, segment)) {
        return fails(format("process %d ended inside shmem_init", node_leader_.value()));
    }
    return {};
}

Result<> Bootstrap::publish_contact(const Contact& contact, int generation) {
    return put_bytes(Key("contact", generation), contact.bytes());
}

Result<> Bootstrap::read_contact_of(ProcId process, int generation, Contact& contact) const {
    const bool is_there = get_bytes(name_space_, process, Key("contact", generation), [&](Bytes bytes) {
        const std::optional<Contact> read = read_contact(bytes);
        if (read) {
            contact = *read;
        }
        return read.has_value();
    });
    if (!is_there) {
        return fails(format("process %d ended inside shmem_init", process.value()));
    }
    return {};
}

void Bootstrap::watch_launcher(void (*lost)()) noexcept {
    if (oshrun_ != nullptr) {
        return;  // the end of the line to it is the news
    }
    static_assert(sizeof(void*) == sizeof(lost));
    pmix_status_t code = PMIX_ERR_LOST_CONNECTION;
    pmix_info_t info;
    void* object = reinterpret_cast<void*>(lost);
    PMIX_INFO_LOAD(&info, PMIX_EVENT_RETURN_OBJECT, object, PMIX_POINTER);
    const auto handler = [](std::size_t, pmix_status_t, const pmix_proc_t*, pmix_info_t infos[], std::size_t n_infos,
                            pmix_info_t*, std::size_t, pmix_event_notification_cbfunc_fn_t done, void* done_data) {
        for (std::size_t i = 0; i < n_infos; ++i) {
            if (PMIX_CHECK_KEY(&infos[i], PMIX_EVENT_RETURN_OBJECT) && is_launcher_needed_.load()) {
                reinterpret_cast<void (*)()>(infos[i].value.data.ptr)();
            }
        }
        if (done != nullptr) {
            done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, done_data);
        }
    };
    is_launcher_needed_.store(true);
    PMIx_Register_event_handler(&code, 1, &info, 1, handler, nullptr, nullptr);
}

std::uint64_t program_fingerprint() noexcept {
    const int fd = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat info {};
    if (fd < 0) {
        return 0;
    }
    std::uint64_t fingerprint = 0;
    if (::fstat(fd, &info) == 0 && info.st_size > 0) {
        const std::size_t bytes = std::min(static_cast<std::size_t>(info.st_size), kFingerprintBytesMax);
        void* file = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (file != MAP_FAILED) {
            fingerprint = checksum(file, bytes) ^ static_cast<std::uint64_t>(info.st_size);
            ::munmap(file, bytes);
        }
    }
    ::close(fd);
    return fingerprint;
}

}  // namespace sft
