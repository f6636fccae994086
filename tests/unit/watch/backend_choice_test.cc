#include "userspace/watch/windows/backend_choice.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/temporary_directory.h"

namespace rocattach {
namespace {

// The text of a literal without its final NUL: each entry ends with a NUL of its own.
template <size_t N>
std::string WithNuls(const char (&text)[N]) {
  return std::string(text, N - 1);
}

class BackendChoiceTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(
        std::filesystem::path(root_.path() + path).parent_path());
    std::ofstream(root_.path() + path) << text;
  }
  const testing_support::TemporaryDirectory root_;
};

TEST_F(BackendChoiceTest, TheMappedRegisterIsFound) {
  EXPECT_EQ(MappedRegister("7f0 r-xp 0 08:01 5   /opt/rocm/lib/libhsa-runtime64.so.1\n"
                           "7f1 r--p 0 08:01 6   "
                           "/opt/rocm/lib/librocprofiler-register.so.0.5.0\n"),
            "/opt/rocm/lib/librocprofiler-register.so.0.5.0");
  EXPECT_EQ(
      MappedRegister("7f0 r-xp 0 08:01 5 /x/librocprofiler-register.so.d/libc.so\n"
                     "7f0 rw-p 0 00:00 0 [heap]\n"),
      "");
}

TEST_F(BackendChoiceTest, TheSdkIsLookedForAsTheLinkerDoes) {
  const std::string mapped = "/opt/rocm/lib/librocprofiler-register.so.0";
  const auto environment = WithNuls("A=b\0LD_LIBRARY_PATH=/none:/mine\0C=");
  EXPECT_EQ(FindSdk(root_.path(), mapped, environment), "");
  Write("/opt/rocm/lib/librocprofiler-sdk.so.1", "");
  EXPECT_EQ(FindSdk(root_.path(), mapped, environment), "") << "nothing leads there";
  Write("/etc/ld.so.cache", WithNuls("glibc-ld.so.cache1.1\0librocprofiler-sdk.so.1\0"
                                     "/opt/rocm/lib/librocprofiler-sdk.so.1\0"));
  EXPECT_EQ(FindSdk(root_.path(), mapped, environment),
            "/opt/rocm/lib/librocprofiler-sdk.so.1");
  Write("/mine/librocprofiler-sdk.so", "");
  EXPECT_EQ(FindSdk(root_.path(), mapped, environment), "/mine/librocprofiler-sdk.so");
}

TEST_F(BackendChoiceTest, OnlyNodesWithSimdsAreGpus) {
  const std::string topology = "/sys/class/kfd/kfd/topology";
  EXPECT_FALSE(HasGpuTopology(root_.path(), topology));
  Write(topology + "/nodes/0/properties", "cpu_cores_count 2\nsimd_count 0\n");
  EXPECT_FALSE(HasGpuTopology(root_.path(), topology));
  Write(topology + "/nodes/1/properties", "cpu_cores_count 0\nsimd_count 416\n");
  EXPECT_TRUE(HasGpuTopology(root_.path(), topology));
}

TEST_F(BackendChoiceTest, AProcessWithoutRegisterKeepsTheDefault) {
  const BackendChoice choice = ChooseBackend(getpid(), {});
  EXPECT_EQ(choice.backend, ROCATTACH_BACKEND_HSA_TOOLS);
  EXPECT_NE(choice.missing.find("rocprofiler-register"), std::string::npos);
  EXPECT_NE(ChooseBackend(getpid(), {.allowed = false}).missing.find("--backend"),
            std::string::npos);
}

}  // namespace
}  // namespace rocattach
