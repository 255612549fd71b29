// shmem-ft lab: a program under a campaign of faults. See docs/fault-lab.md.

#include <fmt/format.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <thread>

#include "base/docs.hpp"
#include "base/mutex.hpp"
#include "tools/common/fd.hpp"
#include "tools/common/text.hpp"
#include "tools/shmem-ft/commands.hpp"
#include "tools/shmem-ft/lab_causes.hpp"
#include "tools/shmem-ft/lab_draw.hpp"
#include "tools/shmem-ft/lab_report.hpp"
#include "tools/shmem-ft/refusal.hpp"

namespace sft::tools {
namespace {

namespace fs = std::filesystem;

constexpr int kExitCancelled = 130;

void print_now(const std::string& text) {
    fmt::print("{}", text);
    std::fflush(stdout);
}

std::string in_folder(std::string text, const std::string& folder) {
    const std::string_view mark = kLabFolder;
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + folder.size())) {
        text.replace(at, mark.size(), folder);
    }
    return text;
}

// A folder for the files of the runs; gone with this object.
class Scratch {
public:
    Scratch() {
        std::error_code ignored;
        std::string pattern = (fs::temp_directory_path(ignored) / "shmem-ft-lab.XXXXXX").string();
        if (mkdtemp(pattern.data()) != nullptr) {
            path_ = pattern;
        }
    }
    ~Scratch() {
        std::error_code ignored;
        if (!path_.empty()) {
            fs::remove_all(path_, ignored);
        }
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    [[nodiscard]] const fs::path& path() const noexcept { return path_; }

private:
    fs::path path_;
};

// Ctrl-C and the like become readable here, for all threads at once: nobody reads them.
Fd catch_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
        sigaddset(&signals, signal);
    }
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    return Fd(signalfd(-1, &signals, SFD_CLOEXEC));
}

class Lab {
public:
    explicit Lab(const LabOptions& options) : options_(options), cancel_(catch_signals()) {}

    int run() {
        if (scratch_.path().empty()) {
            return refuse(fmt::format("cannot make a folder for temporary files: {}", std::strerror(errno)));
        }
        FaultSchedule given;
        if (!options_.schedule_path.empty()) {
            if (const Result<> loaded = load_fault_schedule("", options_.schedule_path, given); !loaded) {
                const std::string& line = loaded.error().line;
                return refuse("--schedule: " + line.substr(line.find(": ") + 2));
            }
        }
        const Result<> prepared = measure().then([&] { return choose_runs(given); });
        if (!prepared) {
            return is_cancelled_ ? kExitCancelled : refuse(prepared.error().line);
        }
        carry_out();
        return report();
    }

private:
    // The error says nothing if is_cancelled_.
    [[nodiscard]] Result<> run_once(const std::string& name, const FaultSchedule& schedule, double timeout_s,
                                    RunRecord& record) {
        const fs::path folder = scratch_.path() / name;
        std::error_code problem;
        if (!fs::create_directory(folder, problem)) {
            return fails(fmt::format("cannot make {}: {}", folder.string(), problem.message()));
        }
        JobCommand job = options_.job;
        for (std::string& word : job.program) {
            word = in_folder(word, folder.string());
        }
        if (Result<> ran = run_job(job, schedule, folder, {timeout_s, cancel_.get()}, record); !ran) {
            return ran;
        }
        is_cancelled_ = is_cancelled_ || record.is_cancelled;
        return record.is_cancelled ? fails("") : Result<>();
    }

    // Their contents; a file that is not there has none, which is not the same as an empty one.
    [[nodiscard]] std::map<std::string, std::optional<std::string>> files_of(const std::string& run) const {
        std::map<std::string, std::optional<std::string>> contents;
        for (const std::string& name : options_.files) {
            std::ifstream file(in_folder(name, (scratch_.path() / run).string()), std::ios::binary);
            std::ostringstream text;
            text << file.rdbuf();
            contents[name] = file.is_open() ? std::optional(text.str()) : std::nullopt;
        }
        return contents;
    }

    // What is different; empty: nothing.
    [[nodiscard]] std::string compare_files(const std::string& run) const {
        for (const auto& [name, content] : files_of(run)) {
            const auto& expected = reference_files_.at(name);
            if (content == expected) {
                continue;
            }
            if (!content || !expected) {
                return fmt::format("the file {} is {}", name, content ? "there" : "not there");
            }
            const auto [at, ignored] =
                std::mismatch(content->begin(), content->end(), expected->begin(), expected->end());
            return fmt::format("the file {} differs from byte {} on ({} bytes instead of {})", name,
                               at - content->begin(), content->size(), expected->size());
        }
        return {};
    }

    // Twice without faults: what differs between the two would be taken for wrong answers.
    [[nodiscard]] Result<> measure() {
        constexpr double kPatienceS = 600;
        RunRecord again;
        const double timeout_s = options_.timeout_s > 0 ? options_.timeout_s : kPatienceS;
        Result<> ran =
            run_once("reference", {}, timeout_s, calm_).then([&] { return run_once("again", {}, timeout_s, again); });
        if (!ran) {
            return ran;
        }
        for (const RunRecord* record : {&calm_, &again}) {
            if (record->is_hang || record->exit_code != 0) {
                const std::string end = record->is_hang ? "hangs" : fmt::format("ends with {}", record->exit_code);
                const std::string said = record->errors.substr(0, record->errors.find('\n'));
                return fails(fmt::format("{} {} without any fault: {}", options_.job.program.front(), end, said));
            }
        }
        reference_files_ = files_of("reference");
        if (const std::string difference = compare_files("again"); !difference.empty()) {
            return fails(fmt::format("without any fault, {} in one of two runs", difference));
        }
        reference_.lines = lines_of(calm_.output, options_.ignored);
        reference_.seconds = calm_.seconds;
        for (const TimeSpan& commit : calm_.commits) {
            reference_.last_version = std::max(reference_.last_version, commit.version);
        }
        std::set<std::string> differing;
        const std::set<std::string> lines = lines_of(again.output, options_.ignored);
        std::set_symmetric_difference(lines.begin(), lines.end(), reference_.lines.begin(), reference_.lines.end(),
                                      std::inserter(differing, differing.end()));
        if (!differing.empty()) {
            return fails(
                fmt::format("without any fault, '{}' is printed in one run and not in another: --ignore such lines",
                            differing.begin()->substr(0, 120)));
        }
        timeout_s_ = options_.timeout_s > 0 ? options_.timeout_s : 20 + 10 * calm_.seconds;
        std::set<FaultPoint> points;
        for (const ProcessRecord& process : calm_.processes) {
            for (const auto& [point, count] : process.visits) {
                points.insert(point);
            }
        }
        if (points.empty()) {
            return fails(
                fmt::format("{} comes to no fault point: is it linked with shmem-ft?", options_.job.program.front()));
        }
        print_now(fmt::format("lab: without faults: {:.2f} s, {} different lines, {} checkpoints, {} points visited\n",
                              calm_.seconds, reference_.lines.size(), reference_.last_version, points.size()));
        return {};
    }

    [[nodiscard]] Result<> choose_runs(const FaultSchedule& given) {
        if (!options_.schedule_path.empty()) {
            runs_.push_back({1, std::nullopt, given, {}, {}});
            return {};
        }
        return probe().then([this] { return plan(); });
    }

    [[nodiscard]] Verdict judged(const RunRecord& record, const FaultSchedule& schedule, const std::string& run) const {
        const Verdict verdict =
            judge(record, {reference_, options_.ignored, schedule, options_.job.spares, options_.job.pes});
        const std::string difference = record.exit_code == 0 && !record.is_hang ? compare_files(run) : "";
        return difference.empty() || !verdict.why.empty() ? verdict : Verdict{RunClass::wrong_answer, difference};
    }

    // One kill in the middle shows the points of a recovery. It is judged like any other run.
    [[nodiscard]] Result<> probe() {
        terrain_ = {options_.job.pes, options_.job.spares, calm_.processes, {}, std::nullopt};
        const auto trigger = choose_trigger(calm_.processes, options_.job.pes);
        if (!trigger || options_.job.spares == 0) {
            return {};
        }
        LabRun run{0, std::nullopt, {*trigger}, {}, {}};
        if (Result<> ran = run_once("run-0", run.schedule, timeout_s_, run.record); !ran) {
            return ran;
        }
        run.verdict = judged(run.record, run.schedule, "run-0");
        terrain_.probe = run.record.processes;
        terrain_.trigger = trigger;
        finish(std::move(run));
        return {};
    }

    [[nodiscard]] Result<> plan() {
        if (options_.is_sweep) {
            for (FaultSchedule& schedule : sweep_schedules(terrain_)) {
                const int number = static_cast<int>(runs_.size()) + 1;
                runs_.push_back({number, std::nullopt, std::move(schedule), {}, {}});
            }
            print_now(fmt::format("lab: sweep of {} runs\n", runs_.size()));
            return {};
        }
        print_now(fmt::format("lab: {} runs, seeds {} to {}\n", options_.runs, options_.seed,
                              options_.seed + static_cast<std::uint64_t>(options_.runs) - 1));
        for (int i = 0; i < options_.runs; ++i) {
            const std::uint64_t seed = options_.seed + static_cast<std::uint64_t>(i);
            runs_.push_back({i + 1, seed, draw_schedule(seed, terrain_), {}, {}});
        }
        return runs_.empty() ? fails("nothing to run") : Result<>();
    }

    void carry_out() {
        std::atomic<std::size_t> next{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < options_.jobs; ++i) {
            threads.emplace_back([&] {
                for (std::size_t k = next++; k < runs_.size() && !is_cancelled_; k = next++) {
                    LabRun run = std::move(runs_[k]);
                    const std::string name = fmt::format("run-{}", run.number);
                    if (const Result<> ran = run_once(name, run.schedule, timeout_s_, run.record); !ran) {
                        if (!is_cancelled_) {
                            const Locked lock(mutex_);
                            failed_to_run_ = ran.error().line;
                        }
                        return;
                    }
                    run.verdict = judged(run.record, run.schedule, name);
                    finish(std::move(run));
                }
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
    }

    void finish(LabRun run) {
        const Locked lock(mutex_);
        print_now(in_folder(describe(run, options_), "."));  // the command can be typed as it is
        const fs::path folder = scratch_.path() / fmt::format("run-{}", run.number);
        std::error_code problem;
        if (is_failure(run, options_) && !options_.keep_path.empty()) {
            const fs::path kept = fs::path(options_.keep_path) / folder.filename();
            fs::create_directories(kept, problem);
            fs::copy(folder, kept, fs::copy_options::overwrite_existing | fs::copy_options::recursive, problem);
            print_now(problem ? fmt::format("    cannot keep its files: {}\n", problem.message())
                              : fmt::format("    its files: {}\n", kept.string()));
        }
        fs::remove_all(folder, problem);
        run.record.output.clear();  // judged; a long campaign would fill the memory with it
        done_.push_back(std::move(run));
    }

    int report() {
        const Locked lock(mutex_);  // nobody else is there any more
        std::sort(done_.begin(), done_.end(), [](const LabRun& a, const LabRun& b) { return a.number < b.number; });
        print_now(summary(done_));
        if (std::any_of(done_.begin(), done_.end(),
                        [](const LabRun& run) { return run.verdict.run_class == RunClass::wrong_answer; })) {
            print_causes();
        }
        if (!options_.json_path.empty()) {
            if (const Result<> written = write_json(done_, reference_, options_); !written) {
                return refuse(written.error().line);
            }
        }
        if (!failed_to_run_.empty()) {
            return refuse(failed_to_run_);
        }
        if (is_cancelled_) {
            return kExitCancelled;
        }
        const auto failures =
            std::count_if(done_.begin(), done_.end(), [&](const LabRun& run) { return is_failure(run, options_); });
        if (failures != 0) {
            print_line(fmt::format("shmem-ft: error: {} of {} runs failed", failures, done_.size()));
            return kExitFailed;
        }
        return EXIT_SUCCESS;
    }

    // Once more without faults, and with checks, which name saved words that lead out of symmetric memory.
    void print_causes() {
        RunRecord checked;
        setenv("SHMEM_FT_CHECK", "warn", 1);  // no thread of this program runs any more
        static_cast<void>(run_once("checked", {}, timeout_s_, checked));
        std::string text = "\nlikely causes of wrong answers:\n";
        for (const std::string& cause : likely_causes(options_.job.program.front(), checked.errors)) {
            text += fmt::format("  - {}\n", cause);
        }
        print_now(text);
    }

    const LabOptions& options_;
    Fd cancel_;
    Scratch scratch_;
    RunRecord calm_;
    Reference reference_;
    std::map<std::string, std::optional<std::string>> reference_files_;
    Terrain terrain_;
    double timeout_s_ = 0;
    std::atomic<bool> is_cancelled_{false};
    std::vector<LabRun> runs_;  // to be done

    Mutex mutex_{MutexRank::tool};  // also of the standard output
    std::vector<LabRun> done_ SFT_GUARDED_BY(mutex_);
    std::string failed_to_run_ SFT_GUARDED_BY(mutex_);
};

}  // namespace

int run_lab(const std::vector<std::string>& words) {
    LabOptions options;
    if (const Result<> parsed = parse_lab_options(words, options); !parsed) {
        return refuse(parsed.error().line);
    }
    if (options.wants_help) {
        fmt::print("{}", with_doc_paths(lab_help_text()));
        return EXIT_SUCCESS;
    }
    return Lab(options).run();
}

}  // namespace sft::tools
