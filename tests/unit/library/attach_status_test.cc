// The library's status values and version, through its exported functions.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "userspace/base/version.h"
#include "userspace/library/rocattach.h"

namespace {

TEST(AttachStatusTest, ValuesAreThoseOfRocm) {
  EXPECT_EQ(ROCATTACH_STATUS_SUCCESS, 0);
  EXPECT_EQ(ROCATTACH_STATUS_ERROR, 1);
  EXPECT_EQ(ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT, 2);
  EXPECT_EQ(ROCATTACH_STATUS_ERROR_NOT_SUPPORTED, 3);
  EXPECT_EQ(ROCATTACH_STATUS_ERROR_PTRACE_ERROR, 4);
  EXPECT_EQ(ROCATTACH_STATUS_ERROR_PTRACE_OPERATION_NOT_PERMITTED, 5);
  EXPECT_EQ(ROCATTACH_STATUS_ERROR_PTRACE_PROCESS_NOT_FOUND, 6);
  EXPECT_EQ(ROCATTACH_STATUS_LAST, 7);
}

TEST(AttachStatusTest, EachHasANameAndAText) {
  std::set<std::string> names, texts;
  for (int i = 0; i < ROCATTACH_STATUS_LAST; ++i) {
    const char* name = rocattach_get_status_name(static_cast<rocattach_status_t>(i));
    const char* text = rocattach_get_status_string(static_cast<rocattach_status_t>(i));
    ASSERT_NE(name, nullptr) << i;
    ASSERT_NE(text, nullptr) << i;
    EXPECT_EQ(std::string(name).rfind("ROCATTACH_STATUS_", 0), 0u) << name;
    names.insert(name);
    texts.insert(text);
  }
  EXPECT_EQ(names.size(), 7u);
  EXPECT_EQ(texts.size(), 7u);
  EXPECT_STREQ(rocattach_get_status_name(ROCATTACH_STATUS_ERROR_PTRACE_ERROR),
               "ROCATTACH_STATUS_ERROR_PTRACE_ERROR");
}

TEST(AttachStatusTest, OtherNumbersHaveNone) {
  for (int number : {-1, 7, 8, 1 << 30, -(1 << 30)}) {
    EXPECT_EQ(rocattach_get_status_name(static_cast<rocattach_status_t>(number)),
              nullptr);
    EXPECT_EQ(rocattach_get_status_string(static_cast<rocattach_status_t>(number)),
              nullptr);
  }
}

TEST(AttachStatusTest, Version) {
  uint32_t major = 99, minor = 99, patch = 99;
  EXPECT_EQ(rocattach_get_version(&major, &minor, &patch), ROCATTACH_STATUS_SUCCESS);
  EXPECT_EQ(
      std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch),
      ROCATTACH_VERSION);
  EXPECT_EQ(rocattach_get_version(nullptr, nullptr, nullptr), ROCATTACH_STATUS_SUCCESS);
  uint32_t only = 99;
  EXPECT_EQ(rocattach_get_version(nullptr, &only, nullptr), ROCATTACH_STATUS_SUCCESS);
  EXPECT_EQ(only, minor);
  rocattach_version_triplet_t triplet = {99, 99, 99};
  EXPECT_EQ(rocattach_get_version_triplet(&triplet), ROCATTACH_STATUS_SUCCESS);
  EXPECT_EQ(triplet.major, major);
  EXPECT_EQ(triplet.minor, minor);
  EXPECT_EQ(triplet.patch, patch);
  EXPECT_EQ(rocattach_get_version_triplet(nullptr),
            ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT);
}

TEST(AttachStatusTest, WithoutASession) {
  EXPECT_EQ(rocattach_detach(0), ROCATTACH_STATUS_SUCCESS);
  EXPECT_EQ(rocattach_detach(1), ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(rocattach_detach_tree(1), ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(rocattach_detach(-1), ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(rocattach_attach(0), ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(rocattach_attach_tree(-3), ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT);
}

}  // namespace
