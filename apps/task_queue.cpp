// A queue of tasks that all PEs take from, in C++17 with classes: numerical integration that divides its intervals
// until they are good enough, so nobody knows beforehand how many tasks there will be, nor who does which.
//
// What makes it survive:
//
//  - Everything that has to go back lies in symmetric memory: the tasks, the counters of the queue and the sums on the
//    symmetric heap, how far they are in a global of a class without constructor. The classes that are used in the loop
//    hold pointers into that memory and nothing that a destructor would have to give back: a jump runs no destructors.
//  - Which PE does a task is a matter of luck, and differs after a rollback. What comes out does not: sums are made of
//    integers, in any order.
//  - A loop around an atomic ends after a death by the jump; with SHMEM_FT_ON_FAULT_RETURN it would spin for ever.
//  - Tasks come in rounds, and between two rounds, when no task is in anybody's hands, there is a checkpoint.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <shmem_ft.hpp>
#include <string>

#include "apps/app_support.h"

namespace {

struct Task {
    double begin;
    double end;
};

struct Options {
    std::int64_t intervals = 64;
    std::int64_t portion = 32;  // tasks between two checkpoints
    double tolerance = 1e-7;
    unsigned long pace_us = 0;
};

// Symmetric. Plain data: what a constructor of a global does would be done again in a substitute, before it has its
// memory.
struct Progress {
    long round;          // how often all PEs have agreed to go on
    std::int64_t done;   // tasks of the rounds before this one
    std::int64_t limit;  // where this round ends; done: there is nothing left to do
    std::uint64_t result[2];
};
Progress progress;

// The tasks lie on PE 0, one behind the other; a round is a portion of them. A view only: copies are alike.
class TaskQueue {
public:
    static constexpr std::int64_t kTasksMax = 1 << 16;
    enum Counter { taken, pushed, n_counters };

    TaskQueue(Task *tasks, std::int64_t *counters, std::int64_t portion)
        : tasks_(tasks), counters_(counters), portion_(portion) {}

    // On every PE, so that each knows how many there are; only those of PE 0 are taken.
    void fill(std::int64_t intervals, double begin, double end) {
        const double width = (end - begin) / static_cast<double>(intervals);
        for (std::int64_t i = 0; i < intervals; ++i) {
            tasks_[i] = {begin + width * static_cast<double>(i), begin + width * static_cast<double>(i + 1)};
        }
        counters_[taken] = 0;
        counters_[pushed] = intervals;
        progress.limit = std::min(intervals, portion_);
    }

    // False: all tasks of the round are taken.
    [[nodiscard]] bool take(Task &task) {
        const std::int64_t number = shmem_int64_atomic_fetch_inc(&counters_[taken], 0);
        if (number >= progress.limit) {
            return false;
        }
        shmem_getmem(&task, &tasks_[number], sizeof task, 0);
        return true;
    }

    // For a later round.
    void push(const Task &task) {
        const std::int64_t number = shmem_int64_atomic_fetch_inc(&counters_[pushed], 0);
        if (number >= kTasksMax) {
            app_fail("task_queue", "too many tasks for the queue: a higher --tolerance");
        }
        shmem_putmem(&tasks_[number], &task, sizeof task, 0);
    }

    // Collective, when nobody has a task: the next round begins.
    void turn() {
        shmem_barrier_all();  // all tasks have been pushed
        const std::int64_t n_tasks = shmem_int64_g(&counters_[pushed], 0);
        progress.done = progress.limit;
        progress.limit = std::min(n_tasks, progress.done + portion_);
        ++progress.round;
        if (shmem_my_pe() == 0) {
            counters_[taken] = progress.done;  // it has been counted further than there were tasks
        }
        shmem_barrier_all();  // nobody takes or pushes before that
    }

private:
    Task *tasks_;
    std::int64_t *counters_;
    std::int64_t portion_;
};

double function(double at) { return std::sin(1 / (at + 0.02)) * at; }

double simpson(double begin, double end) {
    return (function(begin) + 4 * function((begin + end) / 2) + function(end)) * (end - begin) / 6;
}

class Integrator {
public:
    // sums: on every PE, of what it has done: the integral in units of 2^-50, and the tasks.
    Integrator(TaskQueue queue, std::uint64_t *sums, const Options &options)
        : queue_(queue), sums_(sums), tolerance_(options.tolerance), pace_us_(options.pace_us) {}

    void do_round() {
        Task task{};
        while (queue_.take(task)) {
            integrate(task);
            app_leave_if_asked();
        }
        queue_.turn();
    }

private:
    void integrate(const Task &task) {
        const double middle = (task.begin + task.end) / 2;
        const double halves = simpson(task.begin, middle) + simpson(middle, task.end);
        if (std::abs(halves - simpson(task.begin, task.end)) > tolerance_ * (task.end - task.begin)) {
            queue_.push({task.begin, middle});
            queue_.push({middle, task.end});
        } else {
            sums_[0] += static_cast<std::uint64_t>(std::llround(std::ldexp(halves, 50)));
        }
        ++sums_[1];
        const timespec pause = {0, static_cast<long>(pace_us_) * 1000};
        nanosleep(&pause, nullptr);
    }

    TaskQueue queue_;
    std::uint64_t *sums_;
    double tolerance_;
    unsigned long pace_us_;
};

bool read_options(int argc, char **argv, Options &options) {
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string name = argv[i];
        if (name == "--intervals") {
            options.intervals = std::strtol(argv[i + 1], nullptr, 10);
        } else if (name == "--portion") {
            options.portion = std::strtol(argv[i + 1], nullptr, 10);
        } else if (name == "--tolerance") {
            options.tolerance = std::strtod(argv[i + 1], nullptr);
        } else if (name == "--pace-us") {
            options.pace_us = std::strtoul(argv[i + 1], nullptr, 10);
        } else {
            return false;
        }
    }
    return argc % 2 == 1 && options.intervals > 0 && options.intervals <= TaskQueue::kTasksMax && options.portion > 0 &&
           options.tolerance > 0 && options.pace_us < 1000000;
}

}  // namespace

int main(int argc, char **argv) {
    app_install_exit_signals();
    const shmem_ft::Job job;
    Options options;
    if (!read_options(argc, argv, options)) {
        app_stop_on_error("task_queue",
                          "usage: task_queue [--intervals N] [--portion N] [--tolerance X] [--pace-us N]");
    }
    // Owners are made in front of the rollback point, so that no jump passes them by.
    const shmem_ft::SymmetricArray<Task> tasks(static_cast<std::size_t>(TaskQueue::kTasksMax));
    const shmem_ft::SymmetricArray<std::int64_t> counters(TaskQueue::n_counters);
    const shmem_ft::SymmetricArray<std::uint64_t> sums(2);
    if (!tasks || !counters || !sums) {
        app_fail("task_queue", "no symmetric memory");
    }
    TaskQueue queue(tasks.data(), counters.data(), options.portion);
    Integrator integrator(queue, sums.data(), options);

    shmem_ft_on_fault(SHMEM_FT_ON_FAULT_JUMP, nullptr, nullptr);
    if (shmem_ft_algo_init() != 0) {
        std::memset(sums.data(), 0, sums.size() * sizeof sums[0]);
        queue.fill(options.intervals, 0, 1);
    }
    if (SHMEM_FT_ROLLBACK_POINT()) {
        app_recover();
    }
    shmem_checkpoint_all();  // what was set up is safe, and a substitute joins here
    while (progress.done < progress.limit) {
        integrator.do_round();
        shmem_checkpoint_all();
    }
    shmem_uint64_sum_reduce(SHMEM_TEAM_WORLD, progress.result, sums.data(), 2);
    shmem_checkpoint_all();  // what is printed is safe, too
    if (job.my_pe() == 0) {
        std::printf("result task_queue %.12f by %llu tasks in %ld rounds\n",
                    std::ldexp(static_cast<double>(static_cast<std::int64_t>(progress.result[0])), -50),
                    static_cast<unsigned long long>(progress.result[1]), progress.round);
    }
    return 0;
}
