#include "userspace/watch/library_scanner.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace rocattach {
namespace {

constexpr char kDebianRuntime[] = "/usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1";

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
  void SetUp() override {
    char pattern[] = "/tmp/rocattach-scan-test.XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  LibraryScan Scan(std::vector<std::string> extra) {
    return ScanLibraries(
        {.extra_paths = std::move(extra), .usual_places = {}, .scan_mapped = false});
  }
  std::string directory_;
};

TEST_F(ScanTest, LinksAndCopiesAreToldApartByInode) {
  if (access(kDebianRuntime, R_OK) != 0) GTEST_SKIP() << "needs " << kDebianRuntime;
  std::filesystem::copy_file(std::filesystem::canonical(kDebianRuntime),
                             directory_ + "/libhsa-runtime64.so.1.9");
  std::filesystem::create_symlink("libhsa-runtime64.so.1.9",
                                  directory_ + "/libhsa-runtime64.so.1");
  LibraryScan scan = Scan({kDebianRuntime, directory_});
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

TEST_F(ScanTest, FindsWhatThisProcessHasMappedEvenIfDeleted) {
  if (access(kDebianRuntime, R_OK) != 0) GTEST_SKIP() << "needs " << kDebianRuntime;
  if (geteuid() != 0) GTEST_SKIP() << "needs root for /proc/PID/map_files";
  std::string path = directory_ + "/libhsa-runtime64.so.1";
  std::filesystem::copy_file(std::filesystem::canonical(kDebianRuntime), path);
  void* handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  std::filesystem::remove(path);
  LibraryScan scan =
      ScanLibraries({.extra_paths = {}, .usual_places = {}, .scan_mapped = true});
  bool found = false;
  for (const LibraryCopy& copy : scan.copies) {
    for (pid_t pid : copy.mapped_by) found = found || pid == getpid();
  }
  EXPECT_TRUE(found);
  dlclose(handle);
}

}  // namespace
}  // namespace rocattach
