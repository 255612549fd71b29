// EXPECT_TRUE(good(result)) shows the line of an error; line_of(result) is what a user reads.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/result.hpp"

namespace sft {

template <class T>
::testing::AssertionResult good(const Result<T>& result) {
    return result ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << result.error().line;
}
// Empty: all is well.
template <class T>
std::string line_of(const Result<T>& result) {
    return result ? std::string() : result.error().line;
}

}  // namespace sft
