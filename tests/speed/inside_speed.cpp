// What the parts inside of one process cost, with Google Benchmark: copies and comparisons of blocks, checksums, the
// allocator, the look at what was written, parity, and where copies are kept.
//
//   inside_speed [--benchmark_filter=REGEX] [--benchmark_format=json] ...
//
// Where there is another way to do the same, it stands beside it: memcpy, and ISA-L with its own functions for the same
// shape.
#include <benchmark/benchmark.h>
#include <isa-l/erasure_code.h>
#include <isa-l/raid.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "backup/parity_code.hpp"
#include "base/checksum.hpp"
#include "base/pages.hpp"
#include "base/raw_memory.hpp"
#include "recovery/membership/parity_groups.hpp"
#include "recovery/membership/parity_scheme.hpp"
#include "recovery/membership/scheme.hpp"
#include "recovery/rules.hpp"
#include "symheap/heap.hpp"
#include "symheap/segment.hpp"
#include "symheap/written_pages.hpp"

namespace sft {
namespace {

constexpr std::size_t kMiB = 1 << 20;
// More than caches near a processor hold, so that memory is what is measured; blocks in a cache are the small sizes.
constexpr std::int64_t kSizes[] = {16 << 10, 1 << 20, 64 << 20};

void must(const Result<>& done) {
    if (!done) {
        std::fprintf(stderr, "inside_speed: %s\n", done.error().line.c_str());
        std::exit(EXIT_FAILURE);
    }
}

// Whole pages, filled with what does not compress.
class Memory {
public:
    explicit Memory(std::size_t bytes) : bytes_(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, bytes))) {
        std::mt19937_64 random(bytes);
        for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
            const std::uint64_t word = random();
            std::memcpy(bytes_.get() + at, &word, sizeof word);
        }
    }
    [[nodiscard]] std::byte* get() const { return bytes_.get(); }

private:
    struct Free {
        void operator()(std::byte* bytes) const { std::free(bytes); }
    };
    std::unique_ptr<std::byte, Free> bytes_;
};

void tell_bytes(benchmark::State& state, std::size_t bytes) {
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

// ---- copies ----

void copy(benchmark::State& state, void (*copy_bytes)(std::byte* to, const std::byte* from, std::size_t bytes)) {
    const auto bytes = static_cast<std::size_t>(state.range(0));
    const Memory from(bytes);
    const Memory to(bytes);
    for (auto _ : state) {
        copy_bytes(to.get(), from.get(), bytes);
        benchmark::ClobberMemory();
    }
    tell_bytes(state, bytes);
}
void by_memcpy(std::byte* to, const std::byte* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
void as_blocks(std::byte* to, const std::byte* from, std::size_t bytes) { raw_copy(to, from, bytes); }

void comparison(benchmark::State& state) {
    const auto bytes = static_cast<std::size_t>(state.range(0));
    const Memory one(bytes);
    const Memory other(bytes);
    std::memcpy(other.get(), one.get(), bytes);
    for (auto _ : state) {
        benchmark::DoNotOptimize(raw_equal(one.get(), other.get(), bytes));
    }
    tell_bytes(state, bytes);
}

// Page by page, as blocks of copies have them.
void checksum_of_pages(benchmark::State& state) {
    const auto bytes = static_cast<std::size_t>(state.range(0));
    const Memory from(bytes);
    for (auto _ : state) {
        std::uint64_t sum = 0;
        for (std::size_t at = 0; at < bytes; at += kPageBytes) {
            sum += checksum(from.get() + at, kPageBytes);
        }
        benchmark::DoNotOptimize(sum);
    }
    tell_bytes(state, bytes);
}

// ---- parity ----

// A unit of a PE's changes, and parity has to follow. range(0): parities (1: exclusive or), range(1): bytes that the
// units come from, one after the other.
struct Units {
    static constexpr int kMembers = 4;

    explicit Units(const benchmark::State& state)
        : n_parity(static_cast<int>(state.range(0))),
          n_units(static_cast<std::size_t>(state.range(1)) / kUnitBytes),
          code(kMembers, n_parity),
          now(n_units * kUnitBytes),
          before(n_units * kUnitBytes),
          parity(n_units * kUnitBytes * static_cast<std::size_t>(n_parity)),
          change(kUnitBytes) {
        for (int i = 0; i < n_parity; ++i) {
            factors.push_back(code.coefficient(0, kType, i));
        }
    }
    [[nodiscard]] std::byte* parity_of(std::size_t unit, int number) const {
        return parity.get() +
               (unit * static_cast<std::size_t>(n_parity) + static_cast<std::size_t>(number)) * kUnitBytes;
    }

    static constexpr std::int32_t kType = 1;  // in which member 0 has a unit, with one or two parities
    int n_parity;
    std::size_t n_units;
    ParityCode code;
    Memory now;
    Memory before;
    Memory parity;
    Memory change;
    std::vector<std::uint8_t> factors;
};

void parity_follows(benchmark::State& state) {
    const Units units(state);
    const Memory product(kUnitBytes);
    std::size_t unit = 0;
    for (auto _ : state) {
        benchmark::DoNotOptimize(difference(units.change.get(), units.now.get() + unit * kUnitBytes,
                                            units.before.get() + unit * kUnitBytes, kUnitBytes));
        for (int i = 0; i < units.n_parity; ++i) {
            const std::byte* share = units.change.get();
            if (const std::uint8_t factor = units.factors[static_cast<std::size_t>(i)]; factor != 1) {
                multiply(product.get(), factor, share, kUnitBytes);
                share = product.get();
            }
            add_bytes(units.parity_of(unit, i), share, kUnitBytes);
        }
        unit = (unit + 1) % units.n_units;
    }
    tell_bytes(state, kUnitBytes);
}

// The same by ISA-L's own functions: xor_gen() of both contents and the parity, or the change by xor_gen() and
// ec_encode_data_update() for all parities at once.
void parity_follows_in_isal(benchmark::State& state) {
    constexpr int kTableBytes = 32;
    const Units units(state);
    std::vector<unsigned char> tables(units.factors.size() * kTableBytes);
    std::vector<std::uint8_t> factors = units.factors;
    ::ec_init_tables(1, units.n_parity, factors.data(), tables.data());
    std::vector<unsigned char*> parities(units.factors.size());
    const Memory out(kUnitBytes);
    std::size_t unit = 0;
    for (auto _ : state) {
        std::byte* const now = units.now.get() + unit * kUnitBytes;
        std::byte* const before = units.before.get() + unit * kUnitBytes;
        if (units.n_parity == 1) {
            void* rows[] = {now, before, units.parity_of(unit, 0), units.parity_of(unit, 0)};
            benchmark::DoNotOptimize(::xor_gen(4, kUnitBytes, rows));
        } else {
            void* rows[] = {now, before, units.change.get()};
            benchmark::DoNotOptimize(::xor_gen(3, kUnitBytes, rows));
            for (int i = 0; i < units.n_parity; ++i) {
                parities[static_cast<std::size_t>(i)] = reinterpret_cast<unsigned char*>(units.parity_of(unit, i));
            }
            ::ec_encode_data_update(kUnitBytes, 1, units.n_parity, 0, tables.data(),
                                    reinterpret_cast<unsigned char*>(units.change.get()), parities.data());
        }
        unit = (unit + 1) % units.n_units;
    }
    tell_bytes(state, kUnitBytes);
}

// ---- memory ----

void allocate_and_free(benchmark::State& state) {
    constexpr std::size_t kHeapBytes = 256 * kMiB;
    Segment segment;
    must(segment.create("bench-heap", kHeapBytes).then([&] { return segment.map_at(nullptr); }));
    Heap heap;
    heap.create({reinterpret_cast<std::uintptr_t>(segment.address()), kHeapBytes}, segment.fd());
    std::vector<void*> blocks(1000);
    std::mt19937 random(1);
    for (auto _ : state) {
        void*& block = blocks[random() % blocks.size()];
        if (block != nullptr) {
            heap.free(block);
        }
        block = heap.allocate(static_cast<std::size_t>(state.range(0)) / 2 +
                              random() % static_cast<std::size_t>(state.range(0)));
        benchmark::DoNotOptimize(block);
    }
}

// 256 MiB of which one page in range(0) is written between two looks; 0: none.
void look_at_what_was_written(benchmark::State& state) {
    constexpr std::size_t kBytes = 256 * kMiB;
    Segment segment;
    must(segment.create("bench-pages", kBytes).then([&] { return segment.map_at(nullptr); }));
    std::memset(segment.address(), 1, kBytes);
    WrittenPages pages;
    const WrittenPages::Memory memory{{reinterpret_cast<std::uintptr_t>(segment.address()), kBytes}, segment.fd(), 0};
    if (!pages.open().then([&] { return pages.watch(memory); })) {
        state.SkipWithError("this system does not tell");
        return;
    }
    const auto step = static_cast<std::size_t>(state.range(0)) * kPageBytes;
    std::size_t found = 0;
    const auto visit = [&](std::size_t begin, std::size_t end, bool) { found += end - begin; };
    must(pages.look(memory, visit));
    for (auto _ : state) {
        state.PauseTiming();
        for (std::size_t at = 0; step != 0 && at < kBytes; at += step) {
            segment.address()[at] = std::byte(2);
        }
        state.ResumeTiming();
        must(pages.look(memory, visit));
    }
    benchmark::DoNotOptimize(found);
}

// ---- who keeps what ----

// range(0) PEs, 64 on a node: the shares of each of them.
void place(benchmark::State& state, const Backup& backup) {
    constexpr std::int32_t kOnNode = 64;
    const auto n_pes = static_cast<std::int32_t>(state.range(0));
    std::vector<NodeId> of;
    for (std::int32_t pe = 0; pe < n_pes; ++pe) {
        of.emplace_back(pe / kOnNode);
    }
    const NodeMap nodes(std::move(of));
    for (auto _ : state) {
        JobShape shape{.n_pes = n_pes, .n_processes = n_pes, .nodes = &nodes, .memory = &node_memory()};
        const std::optional<ParityGroups> groups = groups_for(shape, backup);
        shape.groups = groups ? &*groups : nullptr;
        shape.scheme = &scheme_of(shape, backup);
        const JobState job;
        const std::unique_ptr<const Shares> shares = shape.scheme->place(shape, job, {});
        std::size_t n = 0;
        for (std::int32_t pe = 0; pe < n_pes; ++pe) {
            n += shares->of(PeId(pe)).size();
        }
        benchmark::DoNotOptimize(n);
    }
    state.SetItemsProcessed(state.iterations() * n_pes);
}

void register_all() {
    for (const std::int64_t bytes : kSizes) {
        benchmark::RegisterBenchmark("memcpy", copy, by_memcpy)->Arg(bytes);
        benchmark::RegisterBenchmark("copy", copy, as_blocks)->Arg(bytes);
        benchmark::RegisterBenchmark("compare", comparison)->Arg(bytes);
        benchmark::RegisterBenchmark("checksum", checksum_of_pages)->Arg(bytes);
    }
    for (const std::int64_t bytes : {std::int64_t{16} << 10, std::int64_t{64} << 20}) {
        for (const std::int64_t n_parity : {1, 2}) {
            benchmark::RegisterBenchmark("parity", parity_follows)->Args({n_parity, bytes});
            benchmark::RegisterBenchmark("parity, ISA-L", parity_follows_in_isal)->Args({n_parity, bytes});
        }
    }
    for (const std::int64_t bytes : {64, 4096, 1 << 16}) {
        benchmark::RegisterBenchmark("allocate and free", allocate_and_free)->Arg(bytes);
    }
    for (const std::int64_t one_in : {0, 100, 1}) {
        benchmark::RegisterBenchmark("look at 256 MiB", look_at_what_was_written)->Arg(one_in);
    }
    const std::pair<const char*, Backup> schemes[] = {{"place double", Backup{}},
                                                      {"place replica:3", Backup{.partners = 3}},
                                                      {"place xor:8", Backup{.data = 7, .parity = 1}},
                                                      {"place rs:6+2", Backup{.data = 6, .parity = 2}}};
    for (const auto& [name, backup] : schemes) {
        benchmark::RegisterBenchmark(name, place, backup)->Arg(1000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);
    }
}

}  // namespace
}  // namespace sft

int main(int argc, char** argv) {
    sft::find_raw_memory();
    sft::register_all();
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
        return EXIT_FAILURE;
    }
    benchmark::RunSpecifiedBenchmarks();
    return EXIT_SUCCESS;
}
