#include "userspace/collector/common/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/unit/collector/test_memory.h"

namespace rocattach::collector {
namespace {

int CountDescriptors() {
  DIR* dir = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(dir) != nullptr) ++count;
  closedir(dir);
  return count;
}

// The default configuration: some 150 MB of memory, of which nearly all is unused.
rocattach_collector_config LargeConfig() {
  rocattach_collector_config config = SmallConfig();
  config.ring_count = 64;
  config.ring_slots = 16384;
  return config;
}

int InChild(const std::function<int()>& run) {
  const pid_t child = fork();
  if (child == 0) _exit(run());
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

// Beyond the limit, ftruncate would kill the process with SIGXFSZ.
TEST(MemoryTest, AFileSizeLimitIsAnError) {
  for (rlim_t limit : {rlim_t{0}, rlim_t{50} << 20}) {
    EXPECT_EQ(InChild([limit] {
                const rlimit value = {limit, limit};
                if (setrlimit(RLIMIT_FSIZE, &value) != 0) return 2;
                const int before = CountDescriptors();
                Memory memory;
                return memory.Create(LargeConfig()) == EFBIG &&
                               CountDescriptors() == before
                           ? 0
                           : 1;
              }),
              0);
  }
}

// In a process that locks everything it maps, most of the memory is still not filled.
TEST(MemoryTest, StaysSparseWhereEverythingIsLocked) {
  if (geteuid() != 0) GTEST_SKIP() << "needs CAP_IPC_LOCK";
  EXPECT_EQ(
      InChild([] {
        if (mlockall(MCL_FUTURE) != 0) return 2;
        Memory memory;
        if (memory.Create(LargeConfig()) != 0) return 3;
        std::vector<unsigned char> pages(memory.geometry().total_bytes / 4096);
        if (mincore(memory.base(), memory.geometry().total_bytes, pages.data()) != 0)
          return 4;
        long filled = 0;
        for (unsigned char page : pages) filled += page & 1;
        return filled < 1000 ? 0 : 1;
      }),
      0);
}

TEST(LayoutTest, PartsDoNotOverlapAndFit) {
  Geometry l;
  ASSERT_TRUE(ComputeGeometry(SmallConfig(), &l));
  EXPECT_GE(l.rings_offset, sizeof(rocattach_control));
  EXPECT_GE(l.ring_stride, ROCATTACH_RING_HEADER_BYTES + 64u * ROCATTACH_SLOT_BYTES);
  EXPECT_EQ(l.inflight_offset, l.rings_offset + 4 * l.ring_stride);
  EXPECT_GE(l.dictionary_offset, l.inflight_offset + 128 * sizeof(rocattach_inflight));
  EXPECT_EQ(l.plan_offset, l.dictionary_offset + 65536);
  EXPECT_GE(l.total_bytes, l.plan_offset + sizeof(rocattach_plan));
  for (uint64_t offset : {l.rings_offset, l.ring_stride, l.inflight_offset,
                          l.dictionary_offset, l.plan_offset, l.total_bytes}) {
    EXPECT_EQ(offset % 4096, 0u);
  }
}

TEST(LayoutTest, RefusesBadConfigurations) {
  Geometry l;
  auto refused = [&l](auto change) {
    rocattach_collector_config config = SmallConfig();
    change(config);
    return !ComputeGeometry(config, &l);
  };
  using Config = rocattach_collector_config;
  EXPECT_TRUE(refused([](Config& c) { c.size -= 8; }));
  EXPECT_TRUE(refused([](Config& c) { c.version = ROCATTACH_SHM_VERSION + 1; }));
  EXPECT_TRUE(refused([](Config& c) { c.ring_slots = 63; }));
  EXPECT_TRUE(refused([](Config& c) { c.backend = ROCATTACH_BACKEND_SDK_ATTACH + 1; }));
  EXPECT_TRUE(refused([](Config& c) { c.ring_slots = 0; }));
  EXPECT_TRUE(refused([](Config& c) { c.ring_count = 0; }));
  EXPECT_TRUE(refused([](Config& c) { c.ring_count = 1u << 31; }));
  EXPECT_TRUE(refused([](Config& c) { c.inflight_count = 0; }));
  EXPECT_TRUE(refused([](Config& c) { c.dictionary_bytes = 0; }));
  EXPECT_TRUE(refused([](Config& c) { c.collector_path[0] = '\0'; }));
  EXPECT_TRUE(refused(
      [](Config& c) { memset(c.collector_path, 'a', sizeof(c.collector_path)); }));
  // 1,024 rings of a million slots: 100 GB.
  EXPECT_TRUE(refused([](Config& c) {
    c.ring_count = 1024;
    c.ring_slots = 1u << 20;
  }));
}

TEST(MemoryTest, IsASealedMemfdWithoutDescriptor) {
  int descriptors = CountDescriptors();
  Memory memory;
  ASSERT_EQ(memory.Create(SmallConfig()), 0);
  EXPECT_EQ(CountDescriptors(), descriptors);

  char path[128];
  snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx",
           reinterpret_cast<unsigned long>(memory.base()),
           reinterpret_cast<unsigned long>(memory.base()) +
               static_cast<unsigned long>(memory.geometry().total_bytes));
  char target[128] = {};
  // Reading the link may need CAP_CHECKPOINT_RESTORE; listing its name does not.
  if (readlink(path, target, sizeof(target) - 1) > 0) {
    EXPECT_STREQ(target, "/memfd:" ROCATTACH_SHM_NAME " (deleted)");
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
      int seals = fcntl(fd, F_GET_SEALS);
      EXPECT_EQ(seals & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
                F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
      EXPECT_EQ(ftruncate(fd, 4096), -1);
      close(fd);
    }
  }
  const rocattach_control* c = memory.control();
  EXPECT_EQ(c->magic, ROCATTACH_SHM_MAGIC);
  EXPECT_EQ(c->version, ROCATTACH_SHM_VERSION);
  EXPECT_EQ(c->total_bytes, memory.geometry().total_bytes);
  EXPECT_EQ(c->window_id, 77u);
  EXPECT_EQ(c->pid, getpid());
  EXPECT_EQ(c->recording, 1u);
  EXPECT_EQ(c->state, static_cast<uint32_t>(ROCATTACH_STATE_LOADED));
  memory.Discard();
}

TEST(MemoryTest, RefusalTextIsCut) {
  Memory memory;
  ASSERT_EQ(memory.Create(SmallConfig()), 0);
  memory.Refuse(ROCATTACH_REASON_UNKNOWN_TABLE, std::string(500, 'x').c_str());
  EXPECT_EQ(memory.control()->state, static_cast<uint32_t>(ROCATTACH_STATE_REFUSED));
  EXPECT_EQ(strnlen(memory.control()->text, 160), 159u);
  memory.Discard();
}

TEST(MemoryTest, BadConfigurationLeavesNothing) {
  rocattach_collector_config config = SmallConfig();
  config.ring_slots = 3;
  Memory memory;
  EXPECT_EQ(memory.Create(config), EINVAL);
  EXPECT_FALSE(memory.valid());
}

}  // namespace
}  // namespace rocattach::collector
