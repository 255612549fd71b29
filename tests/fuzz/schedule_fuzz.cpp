// The language of fault schedules under arbitrary bytes: it never fails in any other way than by its one-line error,
// and what it accepts is printed in a form that it reads back as the same.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/faults/fault_schedule.hpp"

namespace {

void require(bool holds) {
    if (!holds) {
        std::abort();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    using namespace sft;
    const std::string text(reinterpret_cast<const char*>(data), bytes);
    FaultSchedule schedule;
    if (const Result<> parsed = parse_fault_schedule(text, schedule); !parsed) {
        const std::string& error = parsed.error().line;
        require(schedule.empty() && !error.empty() && error.size() < 500);
        require(error.find('\n') == std::string::npos && error.find('\0') == std::string::npos);
        return 0;
    }
    FaultSchedule again;
    require(parse_fault_schedule(to_string(schedule), again).has_value() && again == schedule);
    for (const FaultEntry& entry : schedule) {
        for (const std::int32_t process : {0, 1, 5}) {
            // Only defined behaviour counts here: what is due has tests of its own.
            static_cast<void>(is_due(entry, {entry.point, ProcId(process), PeId(process), 0, 4, 6, entry.visit, 1}));
            static_cast<void>(is_due(entry, {entry.point, ProcId(process), kNoPe, 0, 0, 0, entry.visit, 1}));
        }
    }
    return 0;
}
