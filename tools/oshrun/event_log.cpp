#include "tools/oshrun/event_log.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/clock.hpp"
#include "tools/oshrun/exec_pe.hpp"
#include "tools/oshrun/joining.hpp"

namespace sft::tools {
namespace {

using Json = nlohmann::ordered_json;

const char* kind_name(JobEventKind kind) {
    switch (kind) {
        case JobEventKind::hello: return "hello";
        case JobEventKind::initialized: return "initialized";
        case JobEventKind::pe_taken: return "pe_taken";
        case JobEventKind::failure_seen: return "failure_seen";
        case JobEventKind::span: return "span";
        case JobEventKind::finalized: return "finalized";
        case JobEventKind::exiting: return "exiting";
        case JobEventKind::global_exit: return "global_exit";
        case JobEventKind::unrecoverable: return "unrecoverable";
        case JobEventKind::agreed_lost: return "agreed_lost";
        case JobEventKind::spare_wanted: return "spare_wanted";
        default: break;
    }
    if (kind == kEventJoin) {
        return "join";
    }
    return kind == kEventLaunched ? "launched" : kind == kEventExecFailed ? "exec_failed" : "unknown";
}

Json record(const char* name) { return Json{{"event", name}, {"t_ns", now_ns()}}; }

struct Whose {
    int rank = -1;
    int pid = -1;
    int pe = -1;
};
Json record_of(const char* name, Whose process, const std::string& host) {
    Json json = record(name);
    json["rank"] = process.rank;
    json["pid"] = process.pid;
    json["host"] = host;
    json["pe"] = process.pe;
    return json;
}

void add_reason(Json& json, FailureReason reason) {
    json["exit_code"] = exit_code_of(reason);
    json["signal"] = reason.kind == FailureKind::signal ? reason.code : 0;
    json["reason"] = describe_end(reason);
}

// Text of a program may be in any encoding; JSON is UTF-8.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace

void EventLog::write_line(const std::string& json) {
    // A full disk must not end the job; the file is then shorter than it should be, which is told in the end.
    std::size_t done = 0;
    while (done < json.size()) {
        const ssize_t written = ::write(file_.get(), json.data() + done, json.size() - done);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            lost_ = written < 0 ? errno : ENOSPC;
            return;
        }
        done += static_cast<std::size_t>(written);
    }
}

void EventLog::start(const JobShape& shape, const std::vector<std::string>& command) {
    if (!file_) {
        return;
    }
    Json json = record("start");
    json["pes"] = shape.pes;
    json["spares"] = shape.spares;
    json["program"] = shape.program;
    json["guardian_pid"] = getpid();
    json["command"] = command;
    write_line(dump(json));
}

void EventLog::event(const JobEvent& event, const std::string& host) {
    if (!file_) {
        return;
    }
    Json json = record_of(kind_name(event.kind), {event.rank, event.pid, event.pe}, host);
    json["code"] = event.code;
    json["begin_ns"] = event.begin_ns;
    json["end_ns"] = event.end_ns;
    json["value"] = event.value;
    json["text"] = std::string(event.text, strnlen(event.text, sizeof event.text));
    write_line(dump(json));
}

void EventLog::process_ended(int rank, int pid, int pe, FailureReason reason, const std::string& host) {
    if (!file_) {
        return;
    }
    Json json = record_of("ended", {rank, pid, pe}, host);
    add_reason(json, reason);
    write_line(dump(json));
}

void EventLog::host_lost(const std::string& host, const std::string& why) {
    if (!file_) {
        return;
    }
    Json json = record("host_lost");
    json["host"] = host;
    json["reason"] = why;
    write_line(dump(json));
}

void EventLog::spare_joined(int rank, const std::string& host, const char* way, std::int64_t took_ns) {
    if (!file_) {
        return;
    }
    Json json = record("spare_joined");
    json["rank"] = rank;
    json["host"] = host;
    json["way"] = way;
    json["took_ns"] = took_ns;
    write_line(dump(json));
}

void EventLog::end(const Outcome& outcome, const JobLedger& ledger) {
    if (!file_) {
        return;
    }
    Json json = record("end");
    json["exit_code"] = outcome.exit_code;
    json["line"] = outcome.line;
    Json processes = Json::array();
    int rank = 0;
    for (const JobLedger::Process& process : ledger.processes()) {
        Json item = {{"rank", rank++}, {"pid", process.pid}, {"pe", process.pe}, {"finalized", process.is_finalized}};
        if (process.end) {
            add_reason(item, *process.end);
        }
        processes.push_back(item);
    }
    json["processes"] = processes;
    write_line(dump(json));
}

}  // namespace sft::tools
