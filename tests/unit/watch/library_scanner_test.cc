#include "userspace/watch/discovery/library_scanner.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/places.h"

namespace rocattach {
namespace {

constexpr char kRealRuntime[] = "/usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1";

TEST(LooksLikeHsaRuntime, KnowsVersionsAndWheels) {
  for (const char* path :
       {"/opt/rocm/lib/libhsa-runtime64.so", "libhsa-runtime64.so.1",
        "/x/libhsa-runtime64.so.1.5.2",
        "/site-packages/torch.libs/libhsa-runtime64-1a2b3c.so.1.2"}) {
    EXPECT_TRUE(LooksLikeHsaRuntime(path)) << path;
  }
  for (const char* path : {"/opt/rocm/lib/libamdhip64.so", "libhsa-runtime64.txt",
                           "/libhsa-runtime64.so/other"}) {
    EXPECT_FALSE(LooksLikeHsaRuntime(path)) << path;
  }
}

class ScanTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_FALSE(directory_.empty()); }
  LibraryScan Scan(std::vector<std::string> extra) {
    return ScanLibraries({.extra_paths = std::move(extra),
                          .usual_places = {},
                          .scan_mapped = false,
                          .processes = {}});
  }
  const testing_support::ExecutableDirectory executable_;
  const std::string directory_ = executable_.path();
};

TEST_F(ScanTest, LinksAndCopiesAreToldApartByInode) {
  if (access(kRealRuntime, R_OK) != 0) GTEST_SKIP() << "needs " << kRealRuntime;
  std::filesystem::copy_file(std::filesystem::canonical(kRealRuntime),
                             directory_ + "/libhsa-runtime64.so.1.9");
  std::filesystem::create_symlink("libhsa-runtime64.so.1.9",
                                  directory_ + "/libhsa-runtime64.so.1");
  LibraryScan scan = Scan({kRealRuntime, directory_});
  ASSERT_EQ(scan.copies.size(), 2u);
  EXPECT_EQ(scan.copies[0].hsa_init_offset, scan.copies[1].hsa_init_offset);
  EXPECT_NE(scan.copies[0].inode, scan.copies[1].inode);
  EXPECT_TRUE(scan.rejected.empty());
}

TEST_F(ScanTest, ForeignFilesAreRejectedByName) {
  std::ofstream(directory_ + "/libhsa-runtime64.so") << "not an ELF file";
  LibraryScan scan = Scan(
      {directory_, "/usr/lib/x86_64-linux-gnu/libc.so.6", directory_ + "/missing.so"});
  EXPECT_TRUE(scan.copies.empty());
  ASSERT_EQ(scan.rejected.size(), 3u);
  for (const RejectedLibrary& library : scan.rejected) {
    EXPECT_FALSE(library.path.empty());
    EXPECT_FALSE(library.reason.empty());
  }
}

// Any user can give a file the runtime's name. Only a file that can be a runtime can
// cause a missed window.
TEST_F(ScanTest, RecognisesFilesThatCannotBeARuntime) {
  const auto may_be = [&](const std::string& content) {
    const std::string path = directory_ + "/libhsa-runtime64.so";
    std::ofstream(path) << content;
    const LibraryScan scan = Scan({path});
    EXPECT_EQ(scan.rejected.size(), 1u);
    return scan.rejected.empty() || scan.rejected[0].may_be_runtime;
  };
  EXPECT_FALSE(may_be(""));
  EXPECT_FALSE(may_be("not an ELF file"));
  EXPECT_TRUE(may_be("\177ELF and what only our reader may not understand"));
  std::ifstream other("/usr/lib/x86_64-linux-gnu/libc.so.6");
  EXPECT_FALSE(may_be({std::istreambuf_iterator<char>(other), {}})) << "no hsa_init";
}

TEST_F(ScanTest, AFileIsForeignOnlyIfDeviceAndInodeMatch) {
  const std::string path = directory_ + "/libhsa-runtime64.so";
  std::ofstream(path) << "not an ELF file";
  struct stat info = {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_TRUE(IsForeignFile(path, info.st_dev, info.st_ino));
  EXPECT_FALSE(IsForeignFile(path, info.st_dev, info.st_ino + 1));
  EXPECT_FALSE(IsForeignFile(path, info.st_dev + 1, info.st_ino));
  EXPECT_FALSE(IsForeignFile(path + ".gone", info.st_dev, info.st_ino));
  std::ofstream(path) << "\177ELF and more";
  EXPECT_FALSE(IsForeignFile(path, info.st_dev, info.st_ino));
}

// Opening some devices has side effects, so links to devices are not opened.
TEST_F(ScanTest, DevicesBehindLinksAreNotOpened) {
  const std::string fifo = directory_ + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::filesystem::create_symlink(fifo, directory_ + "/libhsa-runtime64.so");
  LibraryScan scan = Scan({directory_});
  EXPECT_TRUE(scan.copies.empty());
  ASSERT_EQ(scan.rejected.size(), 1u);
  EXPECT_EQ(scan.rejected[0].reason, "is not a regular file");
}

TEST_F(ScanTest, AChangedFileIsNoticed) {
  const std::string path = directory_ + "/file";
  std::ofstream(path) << "first";
  auto file = CheckedFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->CheckUnchanged().ok());
  // A file that has replaced the first one under its name is another file.
  std::ofstream(directory_ + "/other") << "other";
  std::filesystem::rename(directory_ + "/other", path);
  char text[8] = {};
  EXPECT_EQ(pread(open(file->ProbePath().c_str(), O_RDONLY | O_CLOEXEC), text, 5, 0),
            5);
  EXPECT_STREQ(text, "first");
  auto second = CheckedFile::Open(path);
  ASSERT_TRUE(second.ok());
  std::ofstream(path) << "longer than it was";
  EXPECT_FALSE(second->CheckUnchanged().ok());
}

TEST_F(ScanTest, ListsTheUsersThatMayWriteAFile) {
  const std::string path = directory_ + "/file";
  std::ofstream(path) << "text";
  chmod(path.c_str(), 0666);
  auto file = CheckedFile::Open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_NE(file->Writers().find("everybody"), std::string::npos) << file->Writers();
  chmod(path.c_str(), 0644);
  if (geteuid() == 0) {
    EXPECT_EQ(CheckedFile::Open(path)->Writers(), "");
    ASSERT_EQ(chown(path.c_str(), 1000, 1000), 0);
    EXPECT_EQ(CheckedFile::Open(path)->Writers(), "user 1000");
  }
}

TEST_F(ScanTest, FindsMappedLibrariesEvenIfDeleted) {
  if (access(kRealRuntime, R_OK) != 0) GTEST_SKIP() << "needs " << kRealRuntime;
  if (geteuid() != 0) GTEST_SKIP() << "needs root for /proc/PID/map_files";
  std::string path = directory_ + "/libhsa-runtime64.so.1";
  std::filesystem::copy_file(std::filesystem::canonical(kRealRuntime), path);
  void* handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  std::filesystem::remove(path);
  LibraryScan scan = ScanLibraries(
      {.extra_paths = {}, .usual_places = {}, .scan_mapped = true, .processes = {}});
  bool found = false;
  for (const LibraryCopy& copy : scan.copies) {
    for (pid_t pid : copy.mapped_by) found = found || pid == getpid();
  }
  EXPECT_TRUE(found);
  dlclose(handle);
}

}  // namespace
}  // namespace rocattach
