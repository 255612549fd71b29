// How the pumps write to a descriptor that may be anything: a terminal, a pipe that nobody reads, a full disk.
#pragma once

#include <atomic>
#include <string>

namespace sft::tools {

// All of them, however long that takes; bytes is empty afterwards. When nobody reads any more they are thrown away and
// not missed by anybody; when they cannot be written for another reason, lost becomes its error number.
void write_out(int sink, std::string& bytes, std::atomic<int>& lost);

}  // namespace sft::tools
