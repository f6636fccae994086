#include "userspace/telemetry/rocm_version.h"

#include <gtest/gtest.h>

namespace rocattach {
namespace {

TEST(RocmVersion, IsReadFromTheNameOfTheFile) {
  EXPECT_EQ(RocmVersionOf("/opt/rocm/lib/libhsa-runtime64.so.1.15.60403"), "6.4.3");
  EXPECT_EQ(RocmVersionOf("/opt/rocm-7.0.1/lib/libhsa-runtime64.so.1.18.70002"),
            "7.0.2");
  EXPECT_EQ(RocmVersionOf("/w/libhsa-runtime64.so.1.18.100001 (deleted)"), "10.0.1");
}

TEST(RocmVersion, IsReadFromAFolderOtherwise) {
  EXPECT_EQ(RocmVersionOf("/opt/rocm-5.7.1/lib/libhsa-runtime64.so.1"), "5.7.1");
  EXPECT_EQ(RocmVersionOf("/opt/rocm-6.0/lib/libhsa-runtime64.so.1.12.0"), "6.0");
}

TEST(RocmVersion, IsEmptyIfNeitherHasIt) {
  for (const char* path :
       {"", "/", "/usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1.0.0",
        "/torch/lib/libhsa-runtime64.so", "/opt/rocm-x/lib/libhsa-runtime64.so.1",
        "/opt/rocm-1.2.3.4/a", "/opt/rocm-1./a", "/opt/rocm--1.2/a", "/a/b.00001",
        "/a/b.1234567", "/opt/rocm-9999.1/x"}) {
    EXPECT_EQ(RocmVersionOf(path), "") << path;
  }
}

}  // namespace
}  // namespace rocattach
