#include "backup/far_image.hpp"
#include "transport/net/network.hpp"

namespace sft {
namespace {

class NetworkWire final : public StoreWire {
public:
    NetworkWire(Network& network, ProcId process) noexcept : network_(network), process_(process) {}

    void write(std::size_t offset, const void* source, std::size_t bytes) override {
        network_.write_store(process_, offset, source, bytes);
    }
    void read(std::size_t offset, void* dest, std::size_t bytes) override {
        network_.read_store(process_, offset, dest, bytes);
    }
    void fold(std::size_t offset, std::uint64_t build, bool is_anew, const void* source, std::size_t bytes) override {
        network_.fold_store(process_, offset, build, is_anew, source, bytes);
    }
    bool flush() override { return network_.flush_store(process_); }

    [[nodiscard]] std::size_t piece_bytes() const noexcept override { return network_.store_piece_bytes(); }
    void drain_to(std::size_t bytes) override { network_.drain_store(process_, bytes); }

private:
    Network& network_;
    ProcId process_;
};

}  // namespace

std::unique_ptr<StoreWire> make_network_wire(Network& network, ProcId process) {
    return std::make_unique<NetworkWire>(network, process);
}

}  // namespace sft
