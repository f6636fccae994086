#include "userspace/watch/discovery/known_libraries.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/places.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {
namespace {

constexpr char kDebianRuntime[] = "/usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1";
const dev_t kDevice = makedev(8, 1);

LibraryCopy Copy(dev_t device, ino_t inode, dev_t mapped_device = 0) {
  LibraryCopy copy;
  copy.path = "/usr/lib/libhsa-runtime64.so.1";
  copy.device = device;
  copy.inode = inode;
  copy.mapped_device = mapped_device;
  copy.hsa_init_offset = 0x1234;
  return copy;
}

Mapping MappingOf(dev_t device, ino_t inode) {
  Mapping mapping;
  mapping.start = RemoteAddress(0x7f0000000000);
  mapping.end = RemoteAddress(0x7f0000010000);
  mapping.executable = true;
  mapping.device_major = major(device);
  mapping.device_minor = minor(device);
  mapping.inode = inode;
  mapping.path = "/usr/lib/libhsa-runtime64.so.1";
  return mapping;
}

std::vector<LibraryCopy> One(LibraryCopy copy) {
  std::vector<LibraryCopy> copies;
  copies.push_back(std::move(copy));
  return copies;
}

TEST(KnownLibrariesTest, AMappingOfTheFileIsFound) {
  KnownLibraries known(One(Copy(kDevice, 7)));
  EXPECT_EQ(known.Find(MappingOf(kDevice, 7)).cookie, 1u);
  EXPECT_EQ(known.Find(MappingOf(kDevice, 8)).copy, nullptr);
}

// File systems of containers often use the same inode numbers: hsa_init of another file
// would be looked for at the offset of this one.
TEST(KnownLibrariesTest, TheSameInodeOnAnotherFileSystemIsAnotherFile) {
  std::vector<LibraryCopy> copies = One(Copy(kDevice, 7));
  copies.push_back(Copy(makedev(0, 40), 7));
  KnownLibraries known(std::move(copies));
  EXPECT_EQ(known.Find(MappingOf(makedev(0, 41), 7)).copy, nullptr);
  EXPECT_EQ(known.Find(MappingOf(makedev(0, 40), 7)).cookie, 2u);
  EXPECT_EQ(known.Find(MappingOf(kDevice, 7)).cookie, 1u);
}

// This is so on btrfs.
TEST(KnownLibrariesTest, AFileIsAlsoFoundByTheDeviceOfItsMappings) {
  KnownLibraries known(One(Copy(kDevice, 7, makedev(0, 50))));
  EXPECT_EQ(known.Find(MappingOf(makedev(0, 50), 7)).cookie, 1u);
  EXPECT_EQ(known.Find(MappingOf(makedev(0, 51), 7)).copy, nullptr);
}

// A real file, found first by its path and later in a process (this one).
TEST(KnownLibrariesTest, ACopyThatAProcessHasMappedIsFoundAfterwards) {
  if (access(kDebianRuntime, R_OK) != 0) GTEST_SKIP() << "needs " << kDebianRuntime;
  const testing_support::ExecutableDirectory directory;
  const std::string path = directory.path() + "/libhsa-runtime64.so.1";
  std::filesystem::copy_file(std::filesystem::canonical(kDebianRuntime), path);
  LibraryScan scan = ScanLibraries({.extra_paths = {path},
                                    .usual_places = {},
                                    .scan_mapped = false,
                                    .processes = {}});
  ASSERT_EQ(scan.copies.size(), 1u);
  KnownLibraries known(std::move(scan.copies));

  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info = {};
  ASSERT_EQ(fstat(fd.get(), &info), 0);
  const auto bytes = static_cast<size_t>(info.st_size);
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd.get(), 0);
  ASSERT_NE(base, MAP_FAILED);
  const KnownLibraries::Mapped mapped = known.MappedBy(getpid());
  EXPECT_TRUE(std::any_of(mapped.entries.begin(), mapped.entries.end(),
                          [](const auto& entry) { return entry.cookie == 1; }));
  bool found = false;
  auto maps = Maps::Read(getpid());
  ASSERT_TRUE(maps.ok()) << maps.status();
  for (const Mapping& mapping : maps->mappings()) {
    if (mapping.start.value() != reinterpret_cast<uintptr_t>(base)) continue;
    found = true;
    EXPECT_EQ(known.Find(mapping).cookie, 1u);
  }
  EXPECT_TRUE(found);
  munmap(base, bytes);
}

}  // namespace
}  // namespace rocattach
