// Kernels that lack something.
#include <gtest/gtest.h>

#include <string>

#include "tests/integration/watch/harness.h"

namespace rocattach::testing_support {
namespace {

TEST(KernelTest, WithoutTypeInformationItSaysWhatIsMissing) {
  SKIP_WITHOUT_PRIVILEGES();
  TemporaryDirectory directory;
  // A mount namespace in which /sys/kernel/btf is empty.
  Child watcher({"unshare", "--mount", "sh", "-c",
                 "mount -t tmpfs none /sys/kernel/btf && exec \"$@\"", "sh",
                 WatcherPath(), "--auto", "--collector", CollectorPath(), "-d",
                 directory.path(), "--duration-msec", "2000"});
  const Finished finished = watcher.Wait();
  if (finished.exited_with(0)) {
    GTEST_SKIP() << "this machine's kernel image is installed, with its BTF";
  }
  EXPECT_TRUE(finished.exited_with(3)) << finished.status << finished.errors;
  EXPECT_NE(finished.errors.find("/sys/kernel/btf/vmlinux"), std::string::npos)
      << finished.errors;
  EXPECT_NE(finished.errors.find("CONFIG_DEBUG_INFO_BTF"), std::string::npos);
  // One message, not the library's own thoughts about it.
  EXPECT_EQ(finished.errors.find("libbpf"), std::string::npos) << finished.errors;
  EXPECT_EQ(finished.errors.find("No such process"), std::string::npos);
}

}  // namespace
}  // namespace rocattach::testing_support
