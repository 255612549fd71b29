// oshrun's end of the line to one process, which the test plays.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "tests/result.hpp"
#include "tools/oshrun/job_socket.hpp"

namespace sft {

class Guardian {
public:
    Guardian() { EXPECT_TRUE(good(socket_.open_as("shmem-ft-test-" + std::to_string(::getpid())))); }
    void connect(JobChannel& channel) {
        ASSERT_TRUE(good(channel.connect(socket_.name())));
        line_ = socket_.accept();
        ASSERT_TRUE(line_);
    }
    void hang_up() { line_.reset(); }
    // The next that it has been told, without waiting; kind 0 and an empty text: nothing.
    [[nodiscard]] JobEvent told() const {
        JobEvent event;
        static_cast<void>(tools::JobSocket::receive(*line_, event));
        return event;
    }
    // For further lines.
    [[nodiscard]] tools::JobSocket& socket() { return socket_; }

private:
    tools::JobSocket socket_;
    std::optional<tools::JobSocket::Peer> line_;
};

}  // namespace sft
