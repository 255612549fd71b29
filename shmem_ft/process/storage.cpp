#include "shmem_ft/process/storage.hpp"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <span>
#include <string>
#include <string_view>

#include "base/assert.hpp"
#include "base/build_info.hpp"
#include "base/clock.hpp"
#include "base/faults/fault_points.hpp"
#include "base/report.hpp"
#include "shmem_ft/ops/ask_first.hpp"
#include "shmem_ft/ops/job.hpp"

namespace sft {
namespace {

// What a job that goes on must have as it was, because it says where memory lies and what is in it.
constexpr const char* kKeptSettings[] = {"SHMEM_SYMMETRIC_SIZE", "SHMEM_FT_HEAP_BASE", "SHMEM_FT_STARTUP_RECORD",
                                         "SHMEM_FT_CHECK", "SHMEM_FT_GLOBALS"};

std::string value_of(std::string_view name, const Config& config) {
    const std::span<const SettingInfo> all = settings();
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const SettingInfo& setting) { return setting.name == name; });
    return found == all.end() ? "" : setting_value(*found, config);
}

// All PEs together: nobody writes, and who waits would wait for ever.
bool can_begin(std::span<const Drain::Progress> all) noexcept {
    const auto is_any = [&](Drain::Progress wanted) { return std::find(all.begin(), all.end(), wanted) != all.end(); };
    return !is_any(Drain::Progress::writes) && (!is_any(Drain::Progress::waits) || is_any(Drain::Progress::failed));
}

Version version_in(const std::string& path) {
    const std::string folder = without_last_slash(path);
    return version_of_folder(folder.substr(folder.rfind('/') + 1));
}

}  // namespace

Result<> Storage::read(const Config& config) {
    if (!config.store.empty() && config.backup.mode != BackupMode::double_copy) {
        return fails(
            "SHMEM_FT_STORE: files are written from the PEs' own copies: it needs "
            "SHMEM_FT_BACKUP_MODE=double, replica:K, xor:G or rs:K+M");
    }
    // All PEs have to mean the same version, and the newest one may become another one meanwhile.
    if (!config.load.empty() && version_in(config.load) == kNoVersion) {
        return fails(
            format("SHMEM_FT_LOAD=%s: no folder of a version (version-00000012, say): oshrun finds the newest one",
                   config.load.c_str()));
    }
    if (config.restart.empty()) {
        return {};
    }
    begins_with_ = version_in(config.restart);
    if (begins_with_ == kNoVersion) {
        return fails(
            format("SHMEM_FT_RESTART=%s: no folder of a version (version-00000012, say): oshrun --restart "
                   "finds the newest one",
                   config.restart.c_str()));
    }
    return config.backup.mode != BackupMode::none
               ? Result<>()
               : Result<>(fails("SHMEM_FT_RESTART: a job without checkpoints (SHMEM_FT_BACKUP_MODE=none) cannot go on "
                                "from one"));
}

Result<> Storage::open(const Options& options) {
    SFT_ASSERT(options.config != nullptr && options.memory != nullptr && options.n_pes > 0);
    o_ = options;
    if (!o_.is_first_life) {
        begins_with_ = kNoVersion;
    }
    if (begins_with_ != kNoVersion && !o_.may_checkpoint) {
        return fails("SHMEM_FT_RESTART: the program does not call shmem_checkpoint_all");
    }
    const Config& config = *o_.config;
    if (!config.load.empty() && o_.is_first) {
        const Locked lock(loads_);
        if (const Result<ArrayLoader*> there = loader(); !there) {
            return fails("SHMEM_FT_LOAD: " + there.error().line);
        }
    }
    if (config.store.empty() || !o_.may_checkpoint || !o_.is_first_life) {
        return {};
    }
    const std::string dir = without_last_slash(config.store);
    if (Result<> ready = o_.is_first ? drain_.prepare(dir, begins_with_) : Result<>(); !ready) {
        return fails("SHMEM_FT_STORE: " + ready.error().line);
    }
    pace_.begin(config.store_interval, now_ns());
    has_drain_ = true;
    return drain_
        .open({.dir = dir,
               .keep = config.store_keep,
               .rate_bytes = config.store_rate_bytes,
               .compression = config.store_compression,
               .me = [this] { return o_.me->get(); },
               .tells = config.debug,
               .live = &live(),
               .about = about()})
        .then([this]() -> Result<> {
            o_.protector->store().give_versions_to(drain_);
            return {};
        });
}

void Storage::close() noexcept { drain_.stop(); }

void Storage::tidy_up() noexcept {
    if (!has_drain_) {
        return;
    }
    if (const Result<> done = Drain::remove_incomplete(without_last_slash(o_.config->store)); !done) {
        say("warning: SHMEM_FT_STORE: %s", done.error().line.c_str());
    }
}

Manifest Storage::about() const {
    Manifest about;
    about.n_pes = o_.n_pes;
    char path[PATH_MAX] = {};
    const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path - 1);
    about.program_path.assign(path, length < 0 ? 0 : static_cast<std::size_t>(length));
    about.program = o_.program;
    about.job = o_.job;
    about.library = build_info().version;
    for (const char* name : kKeptSettings) {
        about.settings.emplace_back(name, value_of(name, *o_.config));
    }
    return about;
}

// ---- arrays ----

Result<ArrayLoader*> Storage::loader() {
    if (!loader_) {
        ArrayLoader loader;
        if (Result<> opened = loader.open(o_.config->load); !opened) {
            return fails(opened.error());
        }
        loader_ = std::move(loader);
    }
    return &*loader_;
}

bool Storage::load_array(const char* name, void* to, const ArrayShape& shape) noexcept {
    const Locked lock(loads_);
    if (o_.config->load.empty()) {
        say("warning: shmem_ft_load_array(\"%s\"): SHMEM_FT_LOAD names no stored version", name);
        return false;
    }
    const Result<ArrayLoader*> there = loader();
    const Result<> done =
        there ? (*there)->load(name, shape.element_bytes, shape.first, shape.count, static_cast<std::byte*>(to))
              : Result<>(fails(there.error()));
    if (!done) {
        say("warning: shmem_ft_load_array(\"%s\"): %s", name, done.error().line.c_str());
    }
    return done.has_value();
}

std::size_t Storage::stored_elements(const char* name) noexcept {
    const Locked lock(loads_);
    if (o_.config->load.empty()) {
        return 0;
    }
    const Result<ArrayLoader*> there = loader();
    if (!there) {  // 0 would have this PE begin, and others go on
        job::fail(format("PE %d: SHMEM_FT_LOAD: %s", o_.me->value(), there.error().line.c_str()).c_str());
    }
    const StoredArray* const array = (*there)->find(name);
    return array == nullptr ? 0 : array->elements();
}

// ---- a job that goes on ----

Result<> Storage::check(const Manifest& manifest) const {
    const Manifest own = about();
    const std::string what = o_.config->restart + " was stored by ";
    if (manifest.version != begins_with_) {
        return fails(format("%s has the manifest of version %u", o_.config->restart.c_str(), manifest.version.value()));
    }
    if (manifest.n_pes != own.n_pes) {
        return fails(what + format("%d PEs, and this job has %d: start it with -n %d", manifest.n_pes, own.n_pes,
                                   manifest.n_pes));
    }
    if (manifest.program != own.program) {
        return fails(what + format("another program than %s (%s): it must be the same file", own.program_path.c_str(),
                                   manifest.program_path.c_str()));
    }
    if (manifest.library != own.library) {
        return fails(
            what + format("version %s of this library, and this is %s", manifest.library.c_str(), own.library.c_str()));
    }
    for (const auto& [name, value] : manifest.settings) {
        if (value_of(name, *o_.config) != value) {
            return fails(what + format("a job with %s=%s, and this one has %s: set it as it was", name.c_str(),
                                       value.c_str(), value_of(name, *o_.config).c_str()));
        }
    }
    return {};
}

Result<> Storage::check(const StoredHead& head, const Manifest& manifest, PeId pe) const {
    const std::string path = state_file(o_.config->restart, pe);
    const AddressRange globals = live().globals;
    if (head.globals.address != globals.begin || head.globals.bytes != globals.bytes) {
        return fails(path +
                     ": the globals of the program are at another place here: start it with oshrun, or link it with "
                     "-no-pie (oshcc does)");
    }
    if (!is_of(head, manifest, pe)) {
        return fails(path + ": is not the file that the manifest speaks of");
    }
    return is_laid_out_as(head, live()) ? Result<>() : Result<>(fails(path + ": is of another build of this library"));
}

Result<> Storage::load_front(PeId pe) {
    SFT_ASSERT(begins_with_ != kNoVersion && !state_);
    const Result<Manifest> manifest = read_manifest(o_.config->restart);
    if (!manifest) {
        return fails(manifest.error());
    }
    state_.emplace();
    if (Result<> opened =
            check(*manifest).then([&] { return state_->open(state_file(o_.config->restart, pe)); }).then([&] {
                return check(state_->head(), *manifest, pe);
            });
        !opened) {
        return opened;
    }
    Image image = state_->image(live());
    const Findings findings = image.load_front(begins_with_, live(), o_.memory->front_bytes());
    return findings.intact() ? Result<>()
                             : Result<>(fails(state_file(o_.config->restart, pe) + ": " + text_of(findings, image)));
}

Result<> Storage::load() {
    SFT_ASSERT(state_.has_value());
    fault_point(FaultPoint::stored_load);
    Image image = state_->image(live());
    const Findings findings = image.load(begins_with_, live());
    if (!findings.intact()) {
        return fails(
            format("%s, PE %u: %s", o_.config->restart.c_str(), state_->head().pe, text_of(findings, image).c_str()));
    }
    state_.reset();
    return {};
}

// ---- versions that go to files ----

// Who is waited for may be a substitute, which has come too late to write that version.
void Storage::resume() noexcept {
    if (drain_.progress() == Drain::Progress::waits) {
        drain_.give_up();
    }
    drain_.forget_arrays();
    pace_.resume();
}

void Storage::choose(Version version) noexcept {
    {
        const Locked lock(loads_);
        if (loader_) {
            loader_->close();  // the program goes on to other things
        }
    }
    drain_.want(kNoVersion);  // what was wanted may not have been committed, and has the number of this one
    if (!drain_.is_open()) {
        return;
    }
    drain_.note_arrays();
    if (!pace_.asks(version)) {
        return;
    }
    const Drain::Progress own = drain_.progress();
    const auto answer = ask_first<StorePace::Answer>(
        *o_.engine, own, {.asked = FaultPoint::store_asked, .told = FaultPoint::store_told},
        [&](std::span<const Drain::Progress> all) { return pace_.decide(can_begin(all), now_ns()); });
    const bool is_due = answer && answer->is_due != 0;
    if (own == Drain::Progress::waits) {
        is_due ? drain_.give_up() : drain_.go_on();
    }
    if (answer) {
        pace_.hear(*answer, now_ns());
    }
    if (is_due) {
        drain_.want(version, o_.config->store_nodes == 0 ? std::vector<PeId>() : o_.pes_before(o_.config->store_nodes));
    }
}

}  // namespace sft
