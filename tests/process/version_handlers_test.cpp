// In which order the program is told of versions, and what happens when it refuses.
#include "shmem_ft/process/version_handlers.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sft {
namespace {

struct Part {
    char name;
    std::vector<std::string>* told;
    int answer = 0;
    VersionHandlers* registers_with = nullptr;
};

int note(int event, unsigned long long version, void* context) {
    const Part& part = *static_cast<Part*>(context);
    part.told->push_back(std::string(1, part.name) + std::to_string(event) + ":" + std::to_string(version));
    if (part.registers_with != nullptr) {
        EXPECT_TRUE(part.registers_with->add(note, context));
    }
    return part.answer;
}

class OfThreeParts : public testing::Test {
protected:
    void SetUp() override {
        for (Part& part : parts_) {
            ASSERT_TRUE(handlers_.add(note, &part));
        }
    }

    std::vector<std::string> told_;
    Part parts_[3] = {{'a', &told_}, {'b', &told_}, {'c', &told_}};
    VersionHandlers handlers_;
};

TEST(VersionHandlers, NobodyIsToldWithoutOne) {
    VersionHandlers none;
    EXPECT_TRUE(none.is_empty());
    EXPECT_FALSE(none.add(nullptr, nullptr));
    EXPECT_TRUE(none.is_empty());
    EXPECT_EQ(none.call(VersionEvent::after_checkpoint, Version(1)), 0);
}

TEST_F(OfThreeParts, WhatRestsOnAnotherIsSavedFirstAndRestoredLast) {
    EXPECT_FALSE(handlers_.is_empty());
    EXPECT_EQ(handlers_.call(VersionEvent::before_checkpoint, Version(7)), 0);
    EXPECT_EQ(handlers_.call(VersionEvent::after_checkpoint, Version(7)), 0);
    EXPECT_EQ(handlers_.call(VersionEvent::after_restore, Version(6)), 0);
    EXPECT_EQ(told_,
              (std::vector<std::string>{"c1:7", "b1:7", "a1:7", "a2:7", "b2:7", "c2:7", "a3:6", "b3:6", "c3:6"}));
}

TEST_F(OfThreeParts, NobodyIsToldAfterTheFirstRefusal) {
    parts_[1].answer = -5;
    EXPECT_EQ(handlers_.call(VersionEvent::before_checkpoint, Version(1)), -5);
    EXPECT_EQ(told_, (std::vector<std::string>{"c1:1", "b1:1"}));
}

TEST_F(OfThreeParts, AHandlerMayRegisterOneForTheNextTime) {
    parts_[0].registers_with = &handlers_;
    EXPECT_EQ(handlers_.call(VersionEvent::after_checkpoint, Version(1)), 0);
    EXPECT_EQ(told_.size(), 3U);
    parts_[0].registers_with = nullptr;
    EXPECT_EQ(handlers_.call(VersionEvent::after_checkpoint, Version(2)), 0);
    EXPECT_EQ(told_.back(), "a2:2");
    EXPECT_EQ(told_.size(), 7U);
}

}  // namespace
}  // namespace sft
