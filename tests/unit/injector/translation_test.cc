#include "injector/process/translation.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "userspace/base/unique_fd.h"

namespace rocattach {
namespace {

using testing::HasSubstr;

std::string HowOfThisProcess() {
  auto maps = Maps::Read(getpid());
  EXPECT_TRUE(maps.ok()) << maps.status();
  return maps.ok() ? HowTranslated(getpid(), *maps) : "";
}

TEST(TranslationTest, ANativeProgramExecutesItsLibraries) {
  EXPECT_FALSE(LacksLoader(getpid()));
  EXPECT_EQ(HowOfThisProcess(), "");
}

// If a loader is run as a program, the kernel does not load another one for it.
TEST(TranslationTest, AProgramThatIsStartedByTheLoaderIsNative) {
  const char* loader = "/lib64/ld-linux-x86-64.so.2";
  int input[2], output[2];
  ASSERT_EQ(pipe2(input, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(output, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(input[0], STDIN_FILENO);
    dup2(output[1], STDOUT_FILENO);
    execl(loader, loader, "/bin/cat", nullptr);
    _exit(127);
  }
  // cat copies this byte once it is loaded, and waits for more.
  ASSERT_EQ(write(input[1], "x", 1), 1);
  char byte;
  ASSERT_EQ(read(output[0], &byte, 1), 1);
  EXPECT_FALSE(LacksLoader(child));
  auto maps = Maps::Read(child);
  ASSERT_TRUE(maps.ok()) << maps.status();
  EXPECT_EQ(HowTranslated(child, *maps), "");
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  for (int fd : {input[0], input[1], output[0], output[1]}) close(fd);
}

// A copy of this program, which the test maps as a loader would, but no loader has.
class MappedProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::copy_file("/proc/self/exe", path_);
    fd_.reset(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(fd_.valid());
  }
  void TearDown() override {
    for (void* part : parts_) munmap(part, kBytes);
    std::filesystem::remove(path_);
  }
  void Map(int protection, off_t offset, int flags = MAP_PRIVATE) {
    void* part = mmap(nullptr, kBytes, protection, flags, fd_.get(), offset);
    ASSERT_NE(part, MAP_FAILED);
    parts_.push_back(part);
  }

  static constexpr size_t kBytes = 4096;
  const std::string path_ = std::filesystem::temp_directory_path() /
                            ("translation-test-" + std::to_string(getpid()));
  UniqueFd fd_;
  std::vector<void*> parts_;
};

TEST_F(MappedProgramTest, LoadedWithoutTheRightToExecuteItIsTranslated) {
  Map(PROT_READ, 0);
  EXPECT_EQ(HowOfThisProcess(), "") << "a reader";
  Map(PROT_READ | PROT_WRITE, 0);
  EXPECT_EQ(HowOfThisProcess(), "") << "a reader that changes its copy";
  Map(PROT_READ | PROT_WRITE, kBytes);
  EXPECT_THAT(HowOfThisProcess(), HasSubstr(path_));
  Map(PROT_READ | PROT_EXEC, kBytes);
  EXPECT_EQ(HowOfThisProcess(), "") << "code that is executed there";
}

TEST(TranslationTest, DataFilesAreNotExecuted) {
  char path[] = "/tmp/translation-test-XXXXXX";
  UniqueFd file(mkstemp(path));
  ASSERT_TRUE(file.valid());
  unlink(path);
  ASSERT_EQ(ftruncate(file.get(), 8192), 0);
  void* data =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.get(), 4096);
  ASSERT_NE(data, MAP_FAILED);
  EXPECT_EQ(HowOfThisProcess(), "");
  munmap(data, 4096);
}

}  // namespace
}  // namespace rocattach
