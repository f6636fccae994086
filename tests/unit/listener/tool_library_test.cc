#include "userspace/listener/tool_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/temporary_directory.h"
#include "userspace/listener/library_needs.h"

namespace rocattach {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ForeignTools, AreAllButOurs) {
  EXPECT_THAT(ForeignTools("/a/tool.so"), ElementsAre("/a/tool.so"));
  EXPECT_THAT(ForeignTools("one.so::two.so:"), ElementsAre("one.so", "two.so"));
  EXPECT_THAT(ForeignTools(""), IsEmpty());
  for (const char* ours :
       {"librocattach-collector.so", "/usr/lib/librocattach.so.0",
        "/opt/rocm/lib/librocprofiler-sdk-rocattach.so.1", "librocprofv3-attach.so"}) {
    EXPECT_THAT(ForeignTools(ours), IsEmpty()) << ours;
  }
  EXPECT_THAT(ForeignTools("librocattach.so.0:librocprofiler-sdk-tool.so"),
              ElementsAre("librocprofiler-sdk-tool.so"));
  EXPECT_THAT(ForeignTools("librocattach-collector.so-not"),
              ElementsAre("librocattach-collector.so-not"));
}

class FindToolLibraryTest : public testing::Test {
 protected:
  // Returns the message for a process whose user may only read what everybody may read.
  static std::string AsNobody(const std::string& path) {
    const pid_t child = fork();
    if (child == 0) {
      if (setuid(65534) != 0) _exit(1);
      pause();
      _exit(0);
    }
    std::string text;
    for (int i = 0; i < 1000; ++i) {
      auto found = FindToolLibrary(child, path, "/sdk.so");
      text = std::string(found.status().message());
      if (text.find("user 65534") != std::string::npos) break;
      usleep(1000);
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    return text;
  }

  testing_support::TemporaryDirectory directory_;
};

TEST_F(FindToolLibraryTest, LibrariesThatAreNoToolAreRefused) {
  const auto why = [](const std::string& path) {
    auto found = FindToolLibrary(getpid(), path, "/sdk.so");
    EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument) << path;
    return std::string(found.status().message());
  };
  EXPECT_THAT(why("/nonexistent.so"), HasSubstr("No such file"));
  EXPECT_THAT(why("libnosuchtool.so"), HasSubstr("its loader would not find it"));
  EXPECT_THAT(why("/dev/null"), HasSubstr("not a regular file"));
  EXPECT_THAT(why("/proc/self/root"), HasSubstr("as process"));
  std::ofstream(directory_ / "text.so") << "text";
  EXPECT_THAT(why(directory_ / "text.so"), HasSubstr("not an ELF file"));
  EXPECT_THAT(why("/proc/self/exe"), HasSubstr("as process"));
  EXPECT_THAT(why("libc.so.6"), HasSubstr("it has no rocprofiler_configure"));
}

TEST_F(FindToolLibraryTest, TheProcessMustBeAllowedToReadIt) {
  if (getuid() != 0) GTEST_SKIP() << "needs root";
  std::ofstream(directory_ / "tool.so") << "text";
  EXPECT_THAT(AsNobody(directory_ / "tool.so"), HasSubstr("user 65534"));
}

TEST(CheckLibraryNeeds, LibrariesThatExistAreFound) {
  for (const char* library : {"/lib/x86_64-linux-gnu/libm.so.6",
                              "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"}) {
    if (access(library, R_OK) != 0) continue;
    const absl::Status status = CheckLibraryNeeds(getpid(), library);
    EXPECT_TRUE(status.ok()) << status;
  }
}

}  // namespace
}  // namespace rocattach
