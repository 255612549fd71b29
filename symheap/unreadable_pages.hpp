// Pages of a memory file that cannot be read any more, because the memory has an error that it could not correct.
//
// The system ends whoever touches such a page by SIGBUS, and the page stays in the file: whoever takes the memory over
// would meet the same. A read through the descriptor fails with EIO instead (Linux 5.16; a system before that takes the
// page out of the file by itself). The system has a new page for a place whose page was given back.
//
// Threads: any.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace sft {

// Gives such pages of that part of the file back: they read as zeros afterwards. How many these were. Reads all that
// exists there. read: for tests.
[[nodiscard]] std::size_t drop_unreadable(int fd, std::size_t offset, std::size_t bytes,
                                          ssize_t (*read)(int fd, void* to, std::size_t bytes, off_t from) = nullptr);

}  // namespace sft
