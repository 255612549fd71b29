// A process of a test.
#pragma once

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>

namespace sft {

class Child {
public:
    // Runs `body`, whose result is the exit status; _exit, so nothing of the parent is destroyed there.
    explicit Child(const std::function<int()>& body) {
        std::fflush(nullptr);
        pid_ = fork();
        if (pid_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that is killed leaves nothing running
            const int status = body();
            std::fflush(nullptr);
            _exit(testing::Test::HasFailure() ? 99 : status);
        }
    }
    ~Child() { end(SIGKILL); }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    int end(int signal = 0) {
        int status = -1;
        if (pid_ > 0) {
            if (signal != 0) {
                kill(pid_, signal);
            }
            waitpid(pid_, &status, 0);
            pid_ = -1;
        }
        return status;
    }
    [[nodiscard]] pid_t pid() const { return pid_; }

private:
    pid_t pid_;
};

}  // namespace sft
