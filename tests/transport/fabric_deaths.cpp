// Deaths while connections are being set up: one process goes on, and meets one process after the other that is killed
// within the first moments of talking to it.
//
//   fabric_deaths FABRIC DEATHS [raw]
//
// FABRIC: ucx, ofi. "raw": without what the library puts in front of a fabric (net/session_fabric.hpp). Over UCX 1.13
// that ends the process that should go on: a connection's first messages were queued in UCX when the other side died.
//
// Those that die are started by exec: UCX has a thread, and a fork in which that holds one of UCX's locks leaves the
// child waiting for it for ever in ucp_init.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>
#include <string>

#include "tests/transport/fabric_test.hpp"
#include "transport/net/session_fabric.hpp"

namespace sft {
namespace {

constexpr int kAtOnce = 3;
constexpr std::int32_t kSelf = 0;

// Of one process that will die.
struct Place {
    std::atomic<int> state;  // 0: not open yet
    std::size_t address_bytes;
    std::byte address[kFabricAddressBytes];
};

struct Shared {
    std::size_t address_bytes;
    std::byte address[kFabricAddressBytes];
    std::atomic<std::uint64_t> n_heard;  // messages that have arrived at the one that goes on
};

class Counting final : public FabricReceiver {
public:
    void message(Bytes, Bytes) override { ++n_messages; }
    Place place(Bytes, std::size_t bytes) override {
        ++n_messages;
        std::vector<std::byte>& memory = places[++last];
        memory.resize(bytes);
        return {.address = memory.data(), .from = from, .ticket = last};
    }
    void arrived(std::uint64_t ticket, bool) override { places.erase(ticket); }
    void sent(std::uint64_t) override {}

    ProcId from = kNoProc;
    std::uint64_t n_messages = 0;
    std::uint64_t last = 0;
    std::map<std::uint64_t, std::vector<std::byte>> places;
};

std::unique_ptr<Fabric> opened(const std::string& name, bool is_raw, std::int32_t self, std::int32_t n_slots,
                               FabricReceiver& receiver) {
    std::unique_ptr<Fabric> fabric = fabric_called(name);
    if (!is_raw) {
        fabric = std::make_unique<SessionFabric>(std::move(fabric));
    }
    const Result<> opened = fabric->open({.self = ProcId(self),
                                          .n_slots = n_slots,
                                          .receiver = &receiver,
                                          .interface = "lo",
                                          .address = "127.0.0.1",
                                          .is_signed = std::getenv("SFT_TEST_SIGNED") != nullptr,
                                          .secret = 7});
    if (!opened) {
        die("%s", opened.error().line.c_str());
    }
    return fabric;
}

std::vector<std::byte>& payload_of(int turn) {
    static std::vector<std::byte> small(100);
    static std::vector<std::byte> middle(20'000);
    static std::vector<std::byte> large(600'000);
    return turn % 3 == 0 ? small : turn % 3 == 1 ? middle : large;
}

void talk(Fabric& fabric, std::int32_t from, std::int32_t to, int turn) {
    const TestHead head{.from = from, .number = 0, .bytes = 0};
    static_cast<void>(fabric.send(ProcId(to), bytes_of(head), payload_of(turn), 1));
}

class Campaign {
public:
    // memory_fd: what is shared, of somebody who will be killed; -1: of the one that goes on, which makes it.
    Campaign(std::string name, int n_deaths, bool is_raw, int memory_fd = -1)
        : name_(std::move(name)), n_deaths_(n_deaths), is_raw_(is_raw), n_slots_(n_deaths + 1), memory_fd_(memory_fd) {
        const std::size_t bytes = sizeof(Shared) + sizeof(Place) * static_cast<std::size_t>(n_slots_);
        if (memory_fd_ < 0) {
            memory_fd_ = ::memfd_create("fabric_deaths", 0);
            if (::ftruncate(memory_fd_, static_cast<off_t>(bytes)) != 0) {
                die("no memory for %zu bytes", bytes);
            }
        }
        void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd_, 0);
        if (memory == MAP_FAILED) {
            die("cannot map %zu bytes", bytes);
        }
        shared_ = static_cast<Shared*>(memory);
        places_ = reinterpret_cast<Place*>(shared_ + 1);
    }

    int run() {
        fabric_ = opened(name_, is_raw_, kSelf, n_slots_, receiver_);
        shared_->address_bytes = fabric_->address().size();
        std::memcpy(shared_->address, fabric_->address().data(), shared_->address_bytes);
        int n_dead = 0;
        for (std::int32_t next = 1; n_dead < n_deaths_;) {
            while (next < n_slots_ && living_.size() < kAtOnce) {
                begin(next++);
            }
            n_dead += turn();
        }
        std::printf("%s: %d deaths during connection set-up, %llu messages of the dead have arrived\n", name_.c_str(),
                    n_dead, static_cast<unsigned long long>(receiver_.n_messages));
        return receiver_.n_messages == 0 ? 1 : 0;  // then nothing has been set up
    }

    // A process that will be killed.
    int live(std::int32_t process) {
        Counting receiver;
        receiver.from = ProcId(kSelf);
        const std::unique_ptr<Fabric> fabric = opened(name_, is_raw_, process, n_slots_, receiver);
        Place& place = places_[process];
        place.address_bytes = fabric->address().size();
        std::memcpy(place.address, fabric->address().data(), place.address_bytes);
        fabric->introduce(ProcId(kSelf), Bytes(shared_->address, shared_->address_bytes));
        place.state = 1;
        for (int i = 0;; ++i) {
            if (i < 30 && process % 4 != 0) {
                talk(*fabric, process, kSelf, i + process);
            }
            fabric->progress();
            if (i > 30) {
                ::sched_yield();
            }
        }
        return 0;
    }

private:
    struct Living {
        std::int32_t process;
        std::unique_ptr<Child> child;
        bool is_introduced = false;
        bool is_dead = false;
        int turns_left = 0;     // until its death
        int turns_unknown = 0;  // from its death to retire_peer()
        int n_sent = 0;
    };

    void begin(std::int32_t process) {
        Living living{.process = process, .child = nullptr};
        living.turns_left = std::uniform_int_distribution<int>(0, 400)(random_);
        living.turns_unknown = std::uniform_int_distribution<int>(0, 3)(random_) == 0
                                   ? 0
                                   : std::uniform_int_distribution<int>(0, 3000)(random_);
        std::array<std::string, 6> words = {"fabric_deaths",
                                            name_,
                                            std::to_string(n_deaths_),
                                            is_raw_ ? "raw" : "session",
                                            std::to_string(memory_fd_),
                                            std::to_string(process)};
        std::array<char*, 7> arguments{};
        std::transform(words.begin(), words.end(), arguments.begin(), [](std::string& word) { return word.data(); });
        living.child = std::make_unique<Child>([&arguments] { return ::execv("/proc/self/exe", arguments.data()); });
        living_.push_back(std::move(living));
    }

    // Of the one that goes on. How many have died and are forgotten.
    int turn() {
        int n_over = 0;
        bool is_any_open = false;
        for (Living& living : living_) {
            if (!living.is_introduced) {
                Place& place = places_[living.process];
                if (place.state == 0) {
                    continue;
                }
                living.is_introduced = true;
                fabric_->introduce(ProcId(living.process), Bytes(place.address, place.address_bytes));
            }
            is_any_open = true;
            if (living.n_sent < 30 && living.process % 5 != 0) {
                receiver_.from = ProcId(living.process);
                talk(*fabric_, kSelf, living.process, living.process + living.n_sent++);
            }
            // Where the others hardly run beside this process, all could be dead before anything has been set up.
            const bool must_be_heard = living.process == n_deaths_ - 1 && receiver_.n_messages == 0;
            if (!living.is_dead && !must_be_heard && living.turns_left-- <= 0) {
                living.child->end(SIGKILL);
                living.is_dead = true;
            } else if (living.is_dead && living.turns_unknown-- <= 0) {
                fabric_->retire_peer(ProcId(living.process));
                living.process = -1;
                ++n_over;
            }
        }
        std::erase_if(living_, [](const Living& living) { return living.process < 0; });
        fabric_->progress();
        if (!is_any_open) {
            ::sched_yield();
        }
        return n_over;
    }

    std::string name_;
    int n_deaths_;
    bool is_raw_;
    std::int32_t n_slots_;
    int memory_fd_;
    Shared* shared_ = nullptr;
    Place* places_ = nullptr;
    std::mt19937 random_{20};
    Counting receiver_;
    std::unique_ptr<Fabric> fabric_;
    std::deque<Living> living_;
};

}  // namespace
}  // namespace sft

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: fabric_deaths FABRIC DEATHS [raw]\n");
        return 2;
    }
    const bool is_raw = argc > 3 && std::strcmp(argv[3], "raw") == 0;
    if (argc > 5) {
        return sft::Campaign(argv[1], std::atoi(argv[2]), is_raw, std::atoi(argv[4])).live(std::atoi(argv[5]));
    }
    return sft::Campaign(argv[1], std::atoi(argv[2]), is_raw).run();
}
