#include "userspace/gpus/gpu_devices.h"

#include <gtest/gtest.h>
#include <sys/utsname.h>

#include <string>

#include "tests/unit/gpus/fake_driver.h"

namespace rocattach {
namespace {

using testing_support::FakeDriver;

TEST(GpuKeyTest, PartitionsAreDevicesOfTheirOwn) {
  EXPECT_EQ(GpuKey("GPU-1", "0000:03:00.0", 0x300), "GPU-1");
  EXPECT_EQ(GpuKey("", "0000:03:00.0", 0x300), "0000:03:00.0");
  EXPECT_EQ(GpuKey("GPU-1", "0000:03:00.0", 0x20000300), "GPU-1/2");
  EXPECT_EQ(GpuKey("", "0000:03:00.0", 0x20000300), "0000:03:00.0/2");
}

TEST(ReadGpuDevicesTest, WithoutADriverThereAreNone) {
  EXPECT_TRUE(absl::IsNotFound(ReadGpuDevices({"/nowhere", "", ""}).status()));
}

TEST(ReadGpuDevicesTest, AWholeGpu) {
  const FakeDriver driver;
  driver.AddGpu(1, 777, 3, 0xabc);
  driver.AddDrm(1, "0000:03:00.0");
  driver.Write("devices/0000:03:00.0/product_name", "AMD Instinct MI300X OAM\n");
  driver.Write("devices/0000:03:00.0/mem_info_vram_total", "2000\n");
  driver.Write("devices/0000:03:00.0/mem_info_vram_used", "500\n");
  driver.Write("devices/0000:03:00.0/gpu_busy_percent", "42\n");
  driver.Write("devices/0000:03:00.0/serial_number", "692234001234\n");
  driver.Write("module/version", "6.12.12\n");
  auto devices = ReadGpuDevices(driver.roots());
  ASSERT_TRUE(devices.ok()) << devices.status();
  ASSERT_EQ(devices->size(), 1u);
  GpuDevice& gpu = devices->front();
  EXPECT_EQ(gpu.key, "GPU-0000000000000abc");
  EXPECT_EQ(gpu.gpu_id, 777u);
  EXPECT_EQ(gpu.index, 0u);
  EXPECT_EQ(gpu.pci, "0000:03:00.0");
  EXPECT_EQ(gpu.architecture, "gfx942");
  EXPECT_EQ(gpu.model, "AMD Instinct MI300X OAM");
  EXPECT_EQ(gpu.device, "0000:03:00.0");
  EXPECT_EQ(gpu.card, 0u);
  EXPECT_EQ(gpu.render_minor, 128u);
  EXPECT_FALSE(gpu.partition.has_value());
  EXPECT_EQ(gpu.vram_total_bytes, 1000u) << "of its memory banks";
  EXPECT_FALSE(gpu.vram_used_bytes.has_value());
  ReadChanging(driver.roots(), &*devices);
  EXPECT_EQ(gpu.vram_used_bytes, 500u);
  EXPECT_EQ(gpu.vram_total_bytes, 2000u);
  EXPECT_EQ(gpu.busy_percent, 42u);
  EXPECT_EQ(gpu.serial, "692234001234");
  EXPECT_EQ(gpu.driver, "6.12.12");
  for (const char* nonsense : {"101\n", "-1\n", "busy\n", ""}) {
    driver.Write("devices/0000:03:00.0/gpu_busy_percent", nonsense);
    ReadChanging(driver.roots(), &*devices);
    EXPECT_FALSE(gpu.busy_percent.has_value()) << nonsense;
  }
}

// A driver that is part of the kernel has the kernel's version.
TEST(ReadDriverVersionTest, IsThatOfThePackageOrOfTheKernel) {
  const FakeDriver driver;
  EXPECT_EQ(ReadDriverVersion(driver.roots()), "") << "it is not loaded";
  driver.Write("module/refcnt", "3\n");
  utsname kernel = {};
  ASSERT_EQ(uname(&kernel), 0);
  EXPECT_EQ(ReadDriverVersion(driver.roots()), kernel.release);
  driver.Write("module/version", "6.8.5 \x1b[31m\n");
  EXPECT_EQ(ReadDriverVersion(driver.roots()), kernel.release) << "no version";
  driver.Write("module/version", "6.8.5\n");
  EXPECT_EQ(ReadDriverVersion(driver.roots()), "6.8.5");
}

TEST(ReadGpuDevicesTest, PartitionsOfOnePciDevice) {
  const FakeDriver driver;
  driver.AddGpu(2, 20, 3, 0, 1);
  driver.AddGpu(1, 10, 3, 0, 0);
  driver.AddGpu(3, 30, 4, 0);
  driver.AddDrm(1, "0000:03:00.0");
  driver.AddDrm(2, "amdgpu_xcp_0");
  // These are values of both partitions together, so they are used for neither.
  driver.Write("devices/0000:03:00.0/mem_info_vram_used", "500\n");
  driver.Write("devices/0000:03:00.0/gpu_busy_percent", "42\n");
  auto devices = ReadGpuDevices(driver.roots());
  ASSERT_TRUE(devices.ok()) << devices.status();
  ReadChanging(driver.roots(), &*devices);
  ASSERT_EQ(devices->size(), 3u);
  EXPECT_EQ((*devices)[0].key, "0000:03:00.0");
  EXPECT_EQ((*devices)[0].partition, 0u);
  EXPECT_EQ((*devices)[1].key, "0000:03:00.0/1");
  EXPECT_EQ((*devices)[1].partition, 1u);
  EXPECT_EQ((*devices)[1].device, "amdgpu_xcp_0");
  EXPECT_EQ((*devices)[1].index, 1u);
  EXPECT_EQ((*devices)[1].vram_total_bytes, 1000u);
  EXPECT_EQ((*devices)[2].key, "0000:04:00.0");
  EXPECT_FALSE((*devices)[2].partition.has_value());
  EXPECT_EQ((*devices)[2].model, "MI300X_A1") << "by its PCI device";
  for (const GpuDevice& device : *devices) {
    EXPECT_FALSE(device.vram_used_bytes.has_value()) << device.key;
    EXPECT_FALSE(device.busy_percent.has_value()) << device.key;
  }
}

TEST(ReadGpuDevicesTest, BrokenFilesAreErrorsNotGpus) {
  const FakeDriver driver;
  driver.AddGpu(1, 10, 3, 0);
  driver.Write("kfd/topology/nodes/1/properties", std::string(1 << 20, 'x'));
  EXPECT_FALSE(ReadGpuDevices(driver.roots()).ok());
  driver.Write("kfd/topology/nodes/1/gpu_id", "garbage");
  const auto devices = ReadGpuDevices(driver.roots());
  ASSERT_TRUE(devices.ok());
  EXPECT_TRUE(devices->empty());
}

}  // namespace
}  // namespace rocattach
