// An image in the memory of a process of another node, as the one who reads and writes it sees it: bytes at offsets.
//
// StoreWire is what that needs of the network, and FarImage makes reads of it that are under way ahead of their use.
//
// Fault model: the process at the other end may die, and bytes may arrive with flipped bits. Death shows as gone(),
// which stays; what was read until then is good. Flipped bits are the business of the checksums (image.hpp).
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "backup/image.hpp"
#include "base/assert.hpp"
#include "base/ids.hpp"

namespace sft {

class Network;

// The store of one process. Everything is under way until flush(); what is written arrives in any order.
class StoreWire {
public:
    virtual ~StoreWire() = default;

    // The source must not change before flush().
    virtual void write(std::size_t offset, const void* source, std::size_t bytes) = 0;
    virtual void read(std::size_t offset, void* dest, std::size_t bytes) = 0;
    // Adds to what is there (ParityPlace::fold). Only where parity is kept.
    virtual void fold(std::size_t offset, std::uint64_t build, bool is_anew, const void* source, std::size_t bytes);
    // All of it has been carried out; false: the process is dead.
    [[nodiscard]] virtual bool flush() = 0;
    // Accesses of so many bytes are fastest.
    [[nodiscard]] virtual std::size_t piece_bytes() const noexcept = 0;
    // If more than so many bytes are under way, waits until fewer are, or the process is dead.
    virtual void drain_to(std::size_t bytes) = 0;
};

[[nodiscard]] std::unique_ptr<StoreWire> make_network_wire(Network& network, ProcId process);

class FarImage {
public:
    // `begin`: the offset of the image in the store.
    FarImage(StoreWire& wire, std::size_t begin) noexcept
        : wire_(wire), begin_(begin), piece_bytes_(wire.piece_bytes()) {
        SFT_ASSERT(piece_bytes_ > 0);  // else nothing is asked for, for ever
    }
    ~FarImage() { expect({}); }
    FarImage(const FarImage&) = delete;
    FarImage& operator=(const FarImage&) = delete;

    // The bytes are good until the next read; null: the process is gone.
    [[nodiscard]] const std::byte* read(std::size_t offset, std::size_t bytes);
    // These, in rising order, will be read in this order, some left out perhaps: they are asked for before they are
    // needed.
    void expect(std::vector<ByteExtent> extents);

    // The source must not change before flush().
    void write(std::size_t offset, const void* source, std::size_t bytes);
    [[nodiscard]] bool flush();
    // Keeps the bytes under way within bounds.
    void make_room() { wire_.drain_to(kWindowBytes); }
    [[nodiscard]] bool gone() const noexcept { return gone_; }

    [[nodiscard]] std::size_t piece_bytes() const noexcept { return piece_bytes_; }

private:
    static constexpr std::size_t kWindowBytes = std::size_t{8} << 20;
    static constexpr std::size_t kBatchBytes = std::size_t{2} << 20;
    static_assert(2 * kBatchBytes <= kWindowBytes, "one batch is used while the next one is under way");

    // Extents that have been asked for together.
    struct Batch {
        std::size_t first = 0;  // numbers in expected_
        std::size_t end = 0;
        std::vector<std::byte> memory;
    };
    void ask_for(Batch& batch, std::size_t first);
    // Brings the next batch to the front.
    [[nodiscard]] bool next_batch();

    StoreWire& wire_;
    std::size_t begin_;
    std::size_t piece_bytes_;
    bool gone_ = false;
    std::vector<std::byte> single_;  // what was read without being expected
    std::vector<ByteExtent> expected_;
    std::vector<ByteExtent> written_;  // since they were asked for
    Batch front_;                      // has arrived
    Batch back_;                       // under way
    std::size_t at_ = 0;               // the next extent of front_
    std::size_t at_byte_ = 0;          // where it lies in its memory
};

}  // namespace sft
