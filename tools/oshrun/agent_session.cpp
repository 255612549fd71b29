#include "tools/oshrun/agent_session.hpp"

namespace sft::tools {

void Session::drop_taken(std::uint64_t taken) {
    while (!kept_.empty() && n_sent_ - kept_.size() < taken) {
        bytes_kept_ -= kept_.front().payload.size();
        kept_.pop_front();
    }
}

void Session::resume(FrameStream stream, std::uint64_t taken) {
    stream_ = std::move(stream);
    is_broken_ = false;
    drop_taken(taken);
    std::uint64_t number = n_sent_ - kept_.size();
    for (const Kept& item : kept_) {
        stream_.send(item.kind, item.payload, ++number);
    }
}

std::optional<Frame> Session::next() {
    while (auto frame = stream_.next()) {
        if (frame->kind == FrameKind::alive) {
            const auto beat = fixed_part<AliveFrame>(*frame);
            if (!beat || beat->taken > n_sent_) {
                is_broken_ = true;
                return std::nullopt;
            }
            drop_taken(beat->taken);
            return frame;
        }
        if (frame->number > n_taken_ + 1) {
            is_broken_ = true;  // something is missing
            return std::nullopt;
        }
        if (frame->number == n_taken_ + 1) {
            ++n_taken_;
            return frame;
        }
    }
    return std::nullopt;
}

void Session::send(FrameKind kind, std::string_view payload) {
    kept_.push_back({kind, std::string(payload)});
    bytes_kept_ += payload.size();
    stream_.send(kind, payload, ++n_sent_);
}

}  // namespace sft::tools
