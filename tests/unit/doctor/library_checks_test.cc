#include "userspace/doctor/library_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/unit/doctor/fake_machine.h"

namespace rocattach {
namespace {

using testing::HasSubstr;

constexpr char kNodes[] = "/sys/class/kfd/kfd/topology/nodes/";

LibraryScan ScanOf(const std::string& path, std::vector<pid_t> pids = {}) {
  LibraryCopy copy;
  copy.path = path;
  copy.device = 1;
  copy.inode = 2;
  copy.hsa_init_offset = 0x1120;
  copy.mapped_by = std::move(pids);
  LibraryScan scan;
  scan.copies.push_back(std::move(copy));
  return scan;
}

TEST(GfxName, PrintsMinorAndSteppingInHexadecimal) {
  EXPECT_EQ(GfxName(90010), "gfx90a");
  EXPECT_EQ(GfxName(90006), "gfx906");
  EXPECT_EQ(GfxName(90402), "gfx942");
  EXPECT_EQ(GfxName(110000), "gfx1100");
  EXPECT_EQ(GfxName(100306), "gfx1036");
}

TEST(CheckGpu, ReadsTheTopology) {
  FakeMachine fake;
  Check none = CheckGpu(fake.machine());
  EXPECT_EQ(none.state, CheckState::kWarning);
  EXPECT_EQ(none.found, "no /dev/kfd");
  fake.Write("/dev/kfd", "");
  fake.Write(std::string(kNodes) + "0/properties", "cpu_cores_count 8\nsimd_count 0\n");
  EXPECT_EQ(CheckGpu(fake.machine()).state, CheckState::kWarning);
  fake.Write(std::string(kNodes) + "1/properties",
             "simd_count 440\ngfx_target_version 90010\nvendor_id 4098\n");
  fake.Write(std::string(kNodes) + "1/name", "aldebaran\n");
  Check gpu = CheckGpu(fake.machine());
  EXPECT_EQ(gpu.state, CheckState::kOk);
  EXPECT_EQ(gpu.found, "/dev/kfd, 1 GPU");
  ASSERT_EQ(gpu.items.size(), 1u);
  EXPECT_EQ(gpu.items[0].name, "node 1");
  EXPECT_EQ(gpu.items[0].found, "gfx90a (aldebaran)");
}

TEST(CheckHsaRuntimes, FailsWithoutACopy) {
  Check check = CheckHsaRuntimes(LibraryScan(), true);
  EXPECT_EQ(check.state, CheckState::kFailed);
  EXPECT_THAT(check.remedy, HasSubstr("--library"));
}

TEST(CheckHsaRuntimes, ReportsEachCopy) {
  Check check = CheckHsaRuntimes(ScanOf(ROCATTACH_TEST_FAKE_RUNTIME, {11, 12}), true);
  EXPECT_EQ(check.state, CheckState::kOk);
  ASSERT_EQ(check.items.size(), 1u);
  EXPECT_EQ(check.items[0].found,
            "hsa_init at 0x1120, mapped by 2 processes (11, 12), depends on "
            "librocprofiler-register.so");
  Check partial = CheckHsaRuntimes(ScanOf(ROCATTACH_TEST_FAKE_RUNTIME), false);
  EXPECT_THAT(partial.found, HasSubstr("could not be inspected"));
}

TEST(CheckHsaRuntimes, WarnsOfRejectedFiles) {
  LibraryScan scan = ScanOf(ROCATTACH_TEST_FAKE_RUNTIME);
  scan.rejected.push_back({"/opt/x/libhsa-runtime64.so", "not an ELF file"});
  Check check = CheckHsaRuntimes(scan, true);
  EXPECT_EQ(check.state, CheckState::kWarning);
  ASSERT_EQ(check.items.size(), 2u);
  EXPECT_EQ(check.items[1].found, "skipped: not an ELF file");
}

TEST(FindLibraries, FindsEachFileOnce) {
  FakeMachine fake;
  EXPECT_TRUE(FindLibraries(fake.machine(), "librocprofiler-register", {}).empty());
  fake.Copy(ROCATTACH_TEST_FAKE_REGISTER,
            "/opt/rocm-6.3.0/lib/librocprofiler-register.so.0.5.0");
  fake.Link("/opt/rocm-6.3.0/lib/librocprofiler-register.so.0",
            "librocprofiler-register.so.0.5.0");
  fake.Link("/opt/rocm-6.3.0/lib/librocprofiler-register.so",
            "librocprofiler-register.so.0");
  fake.Link("/opt/rocm", "rocm-6.3.0");
  fake.Link("/opt/rocm-6.3.0/lib/librocprofiler-register.so.9", "nowhere");
  auto found = FindLibraries(fake.machine(), "librocprofiler-register", {});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].soname, "librocprofiler-register.so.0");
  EXPECT_THAT(found[0].real, testing::EndsWith("librocprofiler-register.so.0.5.0"));
}

TEST(FindLibraries, LooksBesideTheRuntime) {
  FakeMachine fake;
  fake.Copy(ROCATTACH_TEST_FAKE_REGISTER, "/srv/[x]/librocprofiler-register.so.0");
  EXPECT_TRUE(FindLibraries(fake.machine(), "librocprofiler-register", {}).empty());
  EXPECT_EQ(
      FindLibraries(fake.machine(), "librocprofiler-register", {"/srv/[x]"}).size(),
      1u);
}

TEST(CheckRocprofilerRegister, MattersWhereItIsNeeded) {
  FakeMachine fake;
  EXPECT_EQ(CheckRocprofilerRegister(fake.machine(), LibraryScan()).state,
            CheckState::kNote);
  LibraryScan scan = ScanOf(ROCATTACH_TEST_FAKE_RUNTIME);
  EXPECT_EQ(CheckRocprofilerRegister(fake.machine(), scan).state, CheckState::kWarning);
  fake.Copy(ROCATTACH_TEST_FAKE_REGISTER,
            "/opt/rocm/lib/librocprofiler-register.so.0.5.0");
  Check found = CheckRocprofilerRegister(fake.machine(), scan);
  EXPECT_EQ(found.state, CheckState::kOk);
  EXPECT_EQ(found.found, "librocprofiler-register.so.0 (1 copy)");
}

TEST(CheckRocprofilerSdk, IsOptional) {
  FakeMachine fake;
  Check missing = CheckRocprofilerSdk(fake.machine(), LibraryScan());
  EXPECT_EQ(missing.state, CheckState::kNote);
  EXPECT_FALSE(missing.remedy.empty());
  // It is found even if it cannot be parsed; then there is no SONAME to show.
  fake.Write("/opt/rocm/lib/librocprofiler-sdk.so.1.0.0", "not ELF");
  Check found = CheckRocprofilerSdk(fake.machine(), LibraryScan());
  EXPECT_EQ(found.state, CheckState::kOk);
  ASSERT_EQ(found.items.size(), 1u);
  EXPECT_THAT(found.items[0].found, HasSubstr("no SONAME"));
}

}  // namespace
}  // namespace rocattach
