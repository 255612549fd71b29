#include "shmem_ft/bootstrap.hpp"

#include <fcntl.h>
#include <pmix.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "shmem_ft/base/fault_points.hpp"
#include "shmem_ft/base/report.hpp"

namespace sft {
namespace {

// Enough of a program's file to tell two builds apart without reading gigabytes of debug information.
constexpr std::size_t kFingerprintBytesMax = 64U << 20U;

bool get_number(const pmix_proc_t& process, const char* key, std::int32_t& number) {
    pmix_value_t* value = nullptr;
    if (PMIx_Get(&process, key, nullptr, 0, &value) != PMIX_SUCCESS) {
        return false;
    }
    const bool is_number = value->type == PMIX_UINT32;
    number = is_number ? static_cast<std::int32_t>(value->data.uint32) : 0;
    PMIX_VALUE_RELEASE(value);
    return is_number;
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

void card_key(int generation, char (&key)[PMIX_MAX_KEYLEN + 1]) {
    std::snprintf(key, sizeof key, "shmem-ft.card.%d", generation);
}

}  // namespace

bool Bootstrap::connect(std::string& error) {
    fault_point(FaultPoint::init_begin);
    pmix_proc_t self;
    const pmix_status_t status = PMIx_Init(&self, nullptr, 0);
    // Without a launcher PMIx is usable but has no server: a job of this one process.
    if (status != PMIX_SUCCESS && status != PMIX_ERR_UNREACH) {
        error = format("cannot reach the launcher's PMIx server (%s): start the program with oshrun",
                       PMIx_Error_string(status));
        return false;
    }
    std::snprintf(name_space_, sizeof name_space_, "%s", self.nspace);
    self_ = ProcId(static_cast<std::int32_t>(self.rank));
    pmix_proc_t job;
    PMIX_PROC_LOAD(&job, self.nspace, PMIX_RANK_WILDCARD);
    if (!get_number(job, PMIX_JOB_SIZE, n_processes_) || !get_number(job, PMIX_LOCAL_SIZE, n_processes_on_node_)) {
        // Started without a launcher: a job of this one process.
        n_processes_ = n_processes_on_node_ = 1;
        self_ = ProcId(0);
    }
    fault_point(FaultPoint::init_connected);
    return true;
}

void Bootstrap::come_late(ProcId self, std::int32_t n_processes) noexcept {
    self_ = self;
    n_processes_ = n_processes_on_node_ = n_processes;
}

std::int32_t Bootstrap::rank_by_environment() noexcept {
    const char* text = std::getenv("PMIX_RANK");
    return text == nullptr ? 0 : static_cast<std::int32_t>(std::strtol(text, nullptr, 10));
}

void Bootstrap::disconnect() noexcept { PMIx_Finalize(nullptr, 0); }

bool Bootstrap::fence() noexcept { return n_processes_ == 1 || fence_of(name_space_, false); }

bool Bootstrap::share_card(BootCard& card, int generation, std::string& error) {
    if (n_processes_ == 1) {
        return true;
    }
    char key[PMIX_MAX_KEYLEN + 1];
    card_key(generation, key);
    if (self_ == ProcId(0)) {
        pmix_value_t value;
        pmix_byte_object_t bytes{reinterpret_cast<char*>(&card), sizeof card};
        PMIX_VALUE_LOAD(&value, &bytes, PMIX_BYTE_OBJECT);
        const pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key, &value);
        PMIX_VALUE_DESTRUCT(&value);
        if (status != PMIX_SUCCESS || PMIx_Commit() != PMIX_SUCCESS) {
            error = "cannot publish start-up data through PMIx";
            return false;
        }
    }
    if (!fence_of(name_space_, true)) {
        error = "a process of the job ended inside shmem_init";
        return false;
    }
    pmix_proc_t first;
    PMIX_PROC_LOAD(&first, name_space_, 0);
    pmix_value_t* value = nullptr;
    if (PMIx_Get(&first, key, nullptr, 0, &value) != PMIX_SUCCESS) {
        error = "process 0 ended inside shmem_init";
        return false;
    }
    const bool fits = value->type == PMIX_BYTE_OBJECT && value->data.bo.size == sizeof card;
    if (fits) {
        std::memcpy(&card, value->data.bo.bytes, sizeof card);
    } else {
        error = "process 0 runs another version of this library";
    }
    PMIX_VALUE_RELEASE(value);
    return fits;
}

void Bootstrap::watch_launcher(void (*lost)()) noexcept {
    static_assert(sizeof(void*) == sizeof(lost));
    pmix_status_t code = PMIX_ERR_LOST_CONNECTION;
    pmix_info_t info;
    void* object = reinterpret_cast<void*>(lost);
    PMIX_INFO_LOAD(&info, PMIX_EVENT_RETURN_OBJECT, object, PMIX_POINTER);
    const auto handler = [](std::size_t, pmix_status_t, const pmix_proc_t*, pmix_info_t infos[], std::size_t n_infos,
                            pmix_info_t*, std::size_t, pmix_event_notification_cbfunc_fn_t done, void* done_data) {
        for (std::size_t i = 0; i < n_infos; ++i) {
            if (PMIX_CHECK_KEY(&infos[i], PMIX_EVENT_RETURN_OBJECT)) {
                reinterpret_cast<void (*)()>(infos[i].value.data.ptr)();
            }
        }
        if (done != nullptr) {
            done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, done_data);
        }
    };
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
            fingerprint = XXH3_64bits(file, bytes) ^ static_cast<std::uint64_t>(info.st_size);
            ::munmap(file, bytes);
        }
    }
    ::close(fd);
    return fingerprint;
}

}  // namespace sft
