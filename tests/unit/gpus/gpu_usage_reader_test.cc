#include "userspace/gpus/gpu_usage_reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/gpus/fake_driver.h"

namespace rocattach {
namespace {

using testing_support::FakeDriver;

class GpuUsageReaderTest : public testing::Test {
 protected:
  GpuUsageReaderTest() {
    driver_.AddGpu(1, 100, 3, 0xa);
    driver_.AddGpu(2, 200, 4, 0xb);
  }
  void Kfd(pid_t pid, const std::string& name, const std::string& text) {
    driver_.Write(absl::StrCat("kfd/proc/", pid, "/", name), text);
  }

  const FakeDriver driver_;
  GpuUsageReader reader_{driver_.roots()};
  const std::string first_ = "GPU-000000000000000a", second_ = "GPU-000000000000000b";
};

TEST_F(GpuUsageReaderTest, KfdsFilesByGpu) {
  driver_.AddProcess(7, 1007, "train");
  Kfd(7, "vram_100", "4096\n");
  Kfd(7, "sdma_100", "250\n");
  Kfd(7, "stats_100/cu_occupancy", "12\n");
  Kfd(7, "stats_100/evicted_ms", "3\n");
  Kfd(7, "vram_200", "0\n");
  Kfd(7, "pasid", "32770\n");
  const GpuUsage usage = reader_.Read(/*everyone=*/false);
  EXPECT_EQ(usage.devices.size(), 2u);
  ASSERT_EQ(usage.processes.size(), 1u);
  const GpuProcess& process = usage.processes[0];
  const ProcessId id = {7, 1007};
  EXPECT_EQ(process.id, id);
  EXPECT_EQ(process.comm, "train");
  EXPECT_EQ(process.uid, getuid());
  ASSERT_EQ(process.gpus.size(), 2u);
  const ProcessGpuUse& use = process.gpus.at(first_);
  EXPECT_EQ(use.vram_bytes(), 4096u);
  EXPECT_EQ(use.sdma_us, 250u);
  EXPECT_EQ(use.cu_occupancy, 12u);
  EXPECT_EQ(use.evicted_ms, 3u);
  ProcessGpuUse only_memory;
  only_memory.kfd_vram_bytes = 0;
  EXPECT_EQ(process.gpus.at(second_), only_memory) << "what is absent is not 0";
  EXPECT_EQ(reader_.failures().sum(), 0u) << reader_.failures().last;
}

TEST_F(GpuUsageReaderTest, AClientIsCountedOnce) {
  driver_.AddProcess(7, 1007, "parent");
  driver_.AddProcess(8, 1008, "child");
  driver_.AddDrmFile(7, 3, 128, "0000:03:00.0", 5, 100);
  driver_.AddDrmFile(7, 4, 128, "0000:03:00.0", 5, 100);  // dup()
  driver_.AddDrmFile(7, 5, 128, "0000:03:00.0", 6, 10);
  driver_.AddDrmFile(7, 6, 129, "0000:04:00.0", 5, 1);    // on the other GPU
  driver_.AddDrmFile(8, 3, 128, "0000:03:00.0", 5, 100);  // inherited
  EXPECT_TRUE(reader_.Read(false).processes.empty()) << "they compute nothing";
  const GpuUsage usage = reader_.Read(/*everyone=*/true);
  ASSERT_EQ(usage.processes.size(), 1u);
  EXPECT_EQ(usage.processes[0].gpus.at(first_).drm_vram_bytes, 110u << 10);
  EXPECT_EQ(usage.processes[0].gpus.at(first_).engine_ns.at("gfx"), 2000u);
  EXPECT_EQ(usage.processes[0].gpus.at(second_).drm_vram_bytes, 1u << 10);
  EXPECT_EQ(reader_.Read(false).processes.size(), 1u) << "it is known from now on";
}

TEST_F(GpuUsageReaderTest, MemoryThatBothReportIsNotAdded) {
  driver_.AddProcess(7, 1007, "train");
  Kfd(7, "vram_100", "4096\n");
  driver_.AddDrmFile(7, 3, 128, "0000:03:00.0", 5, 8);
  EXPECT_EQ(reader_.Read(false).processes.at(0).gpus.at(first_).vram_bytes(), 8192u);
  Kfd(7, "vram_100", "16384\n");
  EXPECT_EQ(reader_.Read(false).processes.at(0).gpus.at(first_).vram_bytes(), 16384u);
}

TEST_F(GpuUsageReaderTest, FilesOfPartitionsAreToldApartByTheirNames) {
  driver_.AddGpu(2, 200, 3, 0xa, 1);
  driver_.AddProcess(7, 1007, "train");
  Kfd(7, "vram_100", "4096\n");
  driver_.AddDrmFile(7, 3, 129, "0000:03:00.0", 5, 8);
  const GpuUsage usage = reader_.Read(false);
  EXPECT_EQ(usage.processes.at(0).gpus.at(first_).vram_bytes(), 4096u);
  EXPECT_EQ(usage.processes.at(0).gpus.at(first_ + "/1").vram_bytes(), 8192u);
}

TEST_F(GpuUsageReaderTest, AProcessThatDoesNotExistIsLeftOut) {
  Kfd(7, "vram_100", "4096\n");
  EXPECT_TRUE(reader_.Read(true).processes.empty());
  EXPECT_EQ(reader_.failures().unknown_process, 1u);
  driver_.AddProcess(7, 1007, "train");
  driver_.Write("proc/7/stat", "7 (train");
  EXPECT_TRUE(reader_.Read(true).processes.empty());
}

TEST_F(GpuUsageReaderTest, NonsenseIsCountedAndAbsent) {
  driver_.AddProcess(7, 1007, "train");
  Kfd(7, "vram_100", "-1\n");
  Kfd(7, "sdma_100", std::string(1000, '1'));
  Kfd(7, "vram_4294967296", "1\n");
  Kfd(7, "stats_200/evicted_ms", "1\n");
  Kfd(7, "vram_999", "5\n");
  Kfd(8, "vram_100", "5\n");
  const GpuUsage usage = reader_.Read(false);
  ASSERT_EQ(usage.processes.size(), 1u);
  EXPECT_EQ(usage.processes[0].gpus.count(first_), 0u);
  EXPECT_EQ(usage.processes[0].gpus.at(second_).evicted_ms, 1u);
  EXPECT_EQ(usage.processes[0].gpus.at("kfd-999").vram_bytes(), 5u);
  EXPECT_EQ(reader_.failures().malformed, 2u);
}

TEST_F(GpuUsageReaderTest, EverythingIsBounded) {
  GpuReaderLimits limits;
  limits.processes = 3;
  GpuUsageReader reader(driver_.roots(), limits);
  for (pid_t pid = 1; pid <= 5; ++pid) {
    driver_.AddProcess(pid, 1000, "train");
    Kfd(pid, "vram_100", "1\n");
  }
  EXPECT_EQ(reader.Read(false).processes.size(), 3u);
  EXPECT_EQ(reader.failures().crowded, 1u);
  limits.processes = 10;
  limits.descriptors = 2;
  GpuUsageReader few(driver_.roots(), limits);
  driver_.AddDrmFile(1, 3, 128, "0000:03:00.0", 5, 1);
  driver_.AddDrmFile(1, 4, 128, "0000:03:00.0", 6, 1);
  driver_.AddDrmFile(1, 5, 128, "0000:03:00.0", 7, 1);
  EXPECT_EQ(few.Read(false).processes.size(), 5u);
  EXPECT_GE(few.failures().crowded, 1u);
}

TEST_F(GpuUsageReaderTest, AChangedTopologyIsReadAgain) {
  EXPECT_EQ(reader_.Read(false).devices.size(), 2u);
  driver_.AddGpu(3, 300, 5, 0xc);
  EXPECT_EQ(reader_.Read(false).devices.size(), 2u);
  driver_.Write("kfd/topology/generation_id", "3\n");
  EXPECT_EQ(reader_.Read(false).devices.size(), 3u);
}

TEST(GpuUsageTest, AMachineWithoutGpusIsNoFailure) {
  GpuUsageReader reader({"/nowhere", "/nowhere", "/proc"});
  const GpuUsage usage = reader.Read(/*everyone=*/true);
  EXPECT_TRUE(usage.devices.empty());
  EXPECT_EQ(reader.failures().topology, 0u);
  EXPECT_EQ(reader.failures().kfd, 0u);
}

}  // namespace
}  // namespace rocattach
