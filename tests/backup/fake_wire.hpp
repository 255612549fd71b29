// A keeper's store on "another node", for tests: what is written or read is under way until it is flushed, and is
// carried out in any order. It can die after a number of operations, with what is under way half done.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "backup/far_image.hpp"

namespace sft {

class FakeWire final : public StoreWire {
public:
    explicit FakeWire(std::size_t bytes, std::uint32_t seed = 1) : memory(bytes), random_(seed) {}

    void write(std::size_t offset, const void* source, std::size_t bytes) override {
        pending_.push_back({offset, static_cast<const std::byte*>(source), nullptr, bytes});
        bytes_written += bytes;
        ++operations;
    }
    void read(std::size_t offset, void* dest, std::size_t bytes) override {
        pending_.push_back({offset, nullptr, static_cast<std::byte*>(dest), bytes});
        ++operations;
    }
    bool flush() override {
        carry_out(0);
        return is_alive();
    }
    [[nodiscard]] std::size_t piece_bytes() const noexcept override { return std::size_t{56} << 10; }
    void drain_to(std::size_t bytes) override { carry_out(bytes / 2); }

    [[nodiscard]] bool is_alive() const noexcept { return lives_for > 0; }

    std::vector<std::byte> memory;
    std::size_t bytes_written = 0;
    std::size_t operations = 0;
    // Dies instead of carrying out the operation after so many.
    std::size_t lives_for = std::numeric_limits<std::size_t>::max();

private:
    struct Operation {
        std::size_t offset;
        const std::byte* source;
        std::byte* dest;
        std::size_t bytes;
    };

    void carry_out(std::size_t bytes_left) {
        std::shuffle(pending_.begin(), pending_.end(), random_);
        const auto under_way = [&] {
            std::size_t sum = 0;
            for (const Operation& operation : pending_) {
                sum += operation.bytes;
            }
            return sum;
        };
        std::size_t sum = under_way();
        while (!pending_.empty() && sum > bytes_left && is_alive()) {
            const Operation operation = pending_.back();
            pending_.pop_back();
            sum -= operation.bytes;
            --lives_for;
            // The one in which it dies is half done.
            move(operation, is_alive() ? operation.bytes : random_() % (operation.bytes + 1));
        }
        if (!is_alive()) {
            pending_.clear();
        }
    }
    void move(const Operation& operation, std::size_t bytes) {
        if (bytes == 0) {
            return;
        }
        if (operation.source != nullptr) {
            std::memcpy(memory.data() + operation.offset, operation.source, bytes);
        } else {
            std::memcpy(operation.dest, memory.data() + operation.offset, bytes);
        }
    }

    std::vector<Operation> pending_;
    std::mt19937 random_;
};

}  // namespace sft
