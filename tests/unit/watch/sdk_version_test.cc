#include "userspace/watch/discovery/sdk_version.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/temporary_directory.h"
#include "userspace/watch/discovery/library_scanner.h"

namespace rocattach {
namespace {

class SdkVersionTest : public testing::Test {
 protected:
  // Links as in a package: librocprofiler-sdk.so -> .so.1 -> the file.
  absl::Status Check(const std::string& file) {
    const testing_support::TemporaryDirectory root;
    const std::string lib = root.path() + "/opt/lib/";
    std::filesystem::create_directories(lib);
    std::ofstream(lib + file) << "x";
    std::error_code exists;
    std::filesystem::create_symlink(file, lib + "librocprofiler-sdk.so.1", exists);
    std::filesystem::create_symlink("librocprofiler-sdk.so.1",
                                    lib + "librocprofiler-sdk.so");
    return CheckSdkCanBeAdded(root.path(), "/opt/lib/librocprofiler-sdk.so");
  }
};

TEST_F(SdkVersionTest, TheFilesNameHasTheVersion) {
  const absl::Status old = Check("librocprofiler-sdk.so.1.0.0");
  EXPECT_TRUE(absl::IsFailedPrecondition(old));
  EXPECT_NE(old.message().find("1.0.0"), std::string::npos) << old;
  EXPECT_NE(old.message().find("1.3"), std::string::npos) << old;
  EXPECT_FALSE(Check("librocprofiler-sdk.so.1.2.9").ok());
  EXPECT_FALSE(Check("librocprofiler-sdk.so.0.6.0").ok());
  EXPECT_TRUE(Check("librocprofiler-sdk.so.1.3.0").ok());
  EXPECT_TRUE(Check("librocprofiler-sdk.so.1.10.0").ok());
  EXPECT_TRUE(Check("librocprofiler-sdk.so.2.0").ok());
}

TEST_F(SdkVersionTest, ANameWithoutAVersionSaysNothing) {
  EXPECT_TRUE(Check("librocprofiler-sdk.so.1").ok());
  EXPECT_TRUE(Check("librocprofiler-sdk.so.1.x.0").ok());
  EXPECT_TRUE(Check("other.so").ok());
  EXPECT_TRUE(CheckSdkCanBeAdded("/none", "/none/librocprofiler-sdk.so").ok());
  EXPECT_TRUE(CheckSdkOfProcessCanBeAdded(getpid()).ok()) << "it has no runtime";
}

TEST(LibraryPathTest, ItsDirectoriesInOrder) {
  ASSERT_EQ(setenv("LD_LIBRARY_PATH", "/b::/a", 1), 0);
  EXPECT_EQ(LibraryPathDirectories(), (std::vector<std::string>{"/b", "/a"}));
  EXPECT_EQ(LibraryPathPlaces().front(), "/b/libhsa-runtime64*.so*");
  ASSERT_EQ(unsetenv("LD_LIBRARY_PATH"), 0);
  EXPECT_TRUE(LibraryPathDirectories().empty());
}

}  // namespace
}  // namespace rocattach
