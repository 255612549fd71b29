// How fast are the steps of an image, against a plain copy of the same bytes in the same run?
//
//   image_speed [MIB]
//
// One JSON object a line: the median of the repeats in ms, and how many such times a memcpy takes. Source and image
// are memory files, as the heap and a shadow are; "private" is the memory of a local copy. Not run as a test, because
// times on a shared machine prove nothing.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "backup/image.hpp"
#include "symheap/segment.hpp"

namespace sft {
namespace {

constexpr int kRepeats = 9;

double median_ms(const std::function<void()>& prepare, const std::function<void()>& step) {
    std::vector<double> samples;
    for (int i = 0; i < kRepeats; ++i) {
        prepare();
        const auto begin = std::chrono::steady_clock::now();
        step();
        samples.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    }
    std::sort(samples.begin(), samples.end());
    return samples[kRepeats / 2];
}

void report(const char* what, double ms, double copy_ms) {
    std::printf("{\"what\": \"%s\", \"median_ms\": %.3f, \"copies\": %.2f}\n", what, ms, ms / copy_ms);
}

struct Bench {
    Segment heap;
    Segment shared;
    Window local;
    LiveState live;
    std::uint32_t version = 0;
    int fill = 1;

    Result<> set_up(std::size_t bytes) {
        live.heap.bytes = bytes;
        const std::size_t room = Image::bytes_for(live);
        Result<> made = heap.create("speed-heap", bytes)
                            .then([this] { return heap.map_at(nullptr); })
                            .then([&] { return shared.create("speed-image", room); })
                            .then([this] { return shared.map_at(nullptr); })
                            .then([&] { return local.reserve(room); });
        if (!made) {
            return made;
        }
        ::mprotect(local.address(), room, PROT_READ | PROT_WRITE);
        ::madvise(local.address(), room, MADV_HUGEPAGE);
        live.heap.begin = reinterpret_cast<std::uintptr_t>(heap.address());
        live.heap_fd = heap.fd();
        change();
        return {};
    }
    void change() { std::memset(heap.address(), ++fill, heap.bytes()); }
    [[nodiscard]] Version next() { return Version(++version); }

    void measure(const char* kind, std::byte* memory, double copy_ms) {
        Image image(memory, live);
        const std::string name(kind);
        const auto nothing = [] {};
        const auto store = [&] { image.store(next(), live); };
        const auto load = [&] { static_cast<void>(image.load(Version(version), live)); };
        store();
        report((name + " store, all changed").c_str(), median_ms([&] { change(); }, store), copy_ms);
        report((name + " store, nothing changed").c_str(), median_ms(nothing, store), copy_ms);
        report((name + " load, all changed").c_str(), median_ms([&] { change(); }, load), copy_ms);
        report((name + " load, nothing changed").c_str(), median_ms(nothing, load), copy_ms);
        report((name + " verify").c_str(),
               median_ms(nothing, [&] { static_cast<void>(image.verify(Version(version))); }), copy_ms);
    }
};

int run(std::size_t mib) {
    Bench bench;
    const std::size_t bytes = mib << 20;
    if (const Result<> made = bench.set_up(bytes); !made) {
        std::fprintf(stderr, "image_speed: error: %s\n", made.error().line.c_str());
        return 1;
    }
    for (const auto& [kind, memory] :
         {std::pair{"shared", bench.shared.address()}, std::pair{"private", bench.local.address()}}) {
        std::memset(memory, 0, bytes);
        const double copy_ms = median_ms([&] { bench.change(); },
                                         [&, to = memory] {
                                             std::memcpy(to, bench.heap.address(), bytes);
                                             __asm__ volatile("" : : "r"(to) : "memory");
                                         });
        std::memset(memory, 0, bytes);
        report((std::string(kind) + " memcpy").c_str(), copy_ms, copy_ms);
        bench.measure(kind, memory, copy_ms);
    }
    return 0;
}

}  // namespace
}  // namespace sft

int main(int argc, char** argv) { return sft::run(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 64); }
