// Settings of somebody else's library that takes them from the environment: in force while this object exists, except
// for those that the user has set.
//
// setenv would move the environment under the feet of other threads, and child processes of the program would inherit
// what only this library wants. So `environ` is pointed to a copy for the time being: other threads see one or the
// other, both whole. The copy is never given back, because such a thread may be reading it still; so this is for a few
// moments in the life of a process.
#pragma once

#include <span>

namespace sft {

struct EnvironmentDefault {
    const char* entry;  // "NAME=value", for ever
};

class EnvironmentDefaults {
public:
    explicit EnvironmentDefaults(std::span<const EnvironmentDefault> defaults) noexcept;
    ~EnvironmentDefaults();
    EnvironmentDefaults(const EnvironmentDefaults&) = delete;
    EnvironmentDefaults& operator=(const EnvironmentDefaults&) = delete;

private:
    char** own_ = nullptr;
    char** users_ = nullptr;
};

}  // namespace sft
