#include "userspace/export/profile/profile_totals.h"
#include "tests/unit/export/unzipped.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>

#include "schemas/export/otlp_profile.pb.h"
#include "schemas/export/pprof.pb.h"

namespace rocattach {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

rocattach_dispatch Dispatch(uint32_t kernel_id, uint64_t duration_ns) {
  rocattach_dispatch record = {};
  record.kernel_id = kernel_id;
  record.queue_id = 1;
  record.start_ns = 1000;
  record.end_ns = 1000 + duration_ns;
  return record;
}

std::vector<std::string> Stack(const ProfileData& data, const ProfileSample& sample) {
  std::vector<std::string> names;
  for (uint32_t frame : sample.frames) names.push_back(data.frames[frame].name);
  return names;
}

TEST(ProfileTotals, AddsUpByPath) {
  const ExportProcess process(1);
  ProfileTotals totals;
  totals.Add(process, {Dispatch(1, 10), Dispatch(2, 100), Dispatch(1, 20)});
  rocattach_dispatch untimed = Dispatch(1, 0);
  untimed.flags = ROCATTACH_DISPATCH_UNTIMED;
  totals.Add(process, {untimed});
  totals.End(process);
  const ProfileData& data = totals.data();
  ASSERT_EQ(data.samples.size(), 2u);
  EXPECT_THAT(Stack(data, data.samples[0]),
              ElementsAre("kernel 1 (name not known)", "queue 1", "process (0)"));
  EXPECT_THAT(data.samples[0].totals,
              ElementsAre(Pair(kTotalKernelTime, 30), Pair(kTotalDispatches, 3)));
  EXPECT_THAT(data.samples[1].totals,
              ElementsAre(Pair(kTotalKernelTime, 100), Pair(kTotalDispatches, 1)));
}

TEST(ProfileTotals, PathsBeyondTheLimitBecomeOne) {
  const ExportProcess process(1);
  ProfileTotals totals(/*max_paths=*/2);
  for (uint32_t kernel = 1; kernel <= 100; ++kernel) {
    totals.Add(process, {Dispatch(kernel, 10)});
  }
  totals.Add(process, {Dispatch(1, 10)});
  totals.End(process);
  const ProfileData& data = totals.data();
  ASSERT_EQ(data.samples.size(), 3u);
  int64_t dispatches = 0;
  bool others = false;
  for (const ProfileSample& sample : data.samples) {
    dispatches += sample.totals[1].second;
    others |= data.frames[sample.frames[0]].name == "other kernels and copies";
  }
  EXPECT_EQ(dispatches, 101);
  EXPECT_TRUE(others);
}

TEST(ProfileTotals, NumbersSaturate) {
  const ExportProcess process(1);
  ProfileTotals totals;
  rocattach_copy copy = {};
  copy.bytes = std::numeric_limits<uint64_t>::max() - 5;
  totals.Add(process, {copy});
  CounterRecord value;
  value.sum = 1e30;
  CountedDispatch counted;
  counted.values = {&value, 1};
  totals.Add(process, counted);
  totals.End(process);
  for (const ProfileSample& sample : totals.data().samples) {
    for (const auto& [which, total] : sample.totals) {
      EXPECT_EQ(total, std::numeric_limits<int64_t>::max()) << which;
    }
  }
  EXPECT_EQ(totals.data().samples.size(), 2u);
  EXPECT_THAT(totals.data().counters, ElementsAre("other counters"));
}

TEST(ContainerId, IsTheInnermostOne) {
  const std::string one(64, 'a'), two(64, 'b');
  EXPECT_EQ(ContainerId(""), "");
  EXPECT_EQ(ContainerId("/system.slice/ssh.service"), "");
  EXPECT_EQ(ContainerId("/docker/" + one), one);
  EXPECT_EQ(ContainerId("/system.slice/docker-" + one + ".scope"), one);
  EXPECT_EQ(ContainerId("/kubepods.slice/cri-containerd-" + one + ".scope/" + two),
            two);
  EXPECT_EQ(ContainerId("/" + std::string(63, 'a')), "");
}

ProfileData SmallProfile() {
  ProfileData data;
  data.counters = {"SQ_WAVES"};
  data.frames = {{"vadd(float*)", "_Z4vaddPf"}, {"queue 1", ""}, {"app (7)", ""}};
  ProfileProcess& process = data.processes.emplace_back();
  process.pid = 7;
  process.name = "app";
  process.begin_ns = 1'000'000'000;
  process.end_ns = 1'500'000'000;
  process.gpus.push_back({"GPU 0", "gfx90a", "", "GPU-1"});
  ProfileSample& sample = data.samples.emplace_back();
  sample.frames = {0, 1, 2};
  sample.gpu = 0;
  sample.totals = {{kTotalKernelTime, 5000}, {kFixedTotals, 64}};
  return data;
}

TEST(Pprof, HasOneValueForEachType) {
  const auto bytes = EncodePprof(SmallProfile());
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  pprof::Profile profile;
  ASSERT_TRUE(profile.ParseFromString(Unzipped(*bytes)));
  ASSERT_EQ(profile.sample_type_size(), 4);
  EXPECT_EQ(profile.string_table(0), "");
  EXPECT_EQ(profile.string_table(static_cast<int>(profile.sample_type(3).type())),
            "SQ_WAVES");
  ASSERT_EQ(profile.sample_size(), 1);
  EXPECT_THAT(profile.sample(0).value(), ElementsAre(5000, 0, 0, 64));
  EXPECT_EQ(profile.sample(0).location_id_size(), 3);
  EXPECT_EQ(profile.time_nanos(), 1'000'000'000);
  EXPECT_EQ(profile.duration_nanos(), 500'000'000);
}

TEST(OtlpProfile, HasOneProfileForEachTypeWithValues) {
  const auto bytes = EncodeOtlpProfile(SmallProfile());
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  otlp::ProfilesData data;
  ASSERT_TRUE(data.ParseFromString(*bytes));
  ASSERT_EQ(data.resource_profiles_size(), 1);
  const auto& profiles = data.resource_profiles(0).scope_profiles(0).profiles();
  ASSERT_EQ(profiles.size(), 2);
  auto type = [&](int i) {
    return data.dictionary().string_table(profiles[i].sample_type().type_strindex());
  };
  EXPECT_EQ(type(0), "gpu_kernel_time");
  EXPECT_EQ(type(1), "SQ_WAVES");
  EXPECT_THAT(profiles[1].samples(0).values(), ElementsAre(64));
  EXPECT_EQ(profiles[0].duration_nano(), 500'000'000u);
  EXPECT_NE(profiles[0].profile_id(), profiles[1].profile_id());
}

TEST(OtlpProfile, TheFirstEntriesAreEmpty) {
  otlp::ProfilesData data;
  ASSERT_TRUE(data.ParseFromString(*EncodeOtlpProfile(SmallProfile())));
  ASSERT_EQ(data.dictionary().link_table_size(), 1);
  EXPECT_EQ(data.dictionary().link_table(0).ByteSizeLong(), 0u);
  EXPECT_EQ(data.dictionary().mapping_table(0).ByteSizeLong(), 0u);
  EXPECT_EQ(data.dictionary().stack_table(0).ByteSizeLong(), 0u);
}

TEST(OtlpProfile, AProcessWithoutValuesIsLeftOut) {
  ProfileData data = SmallProfile();
  data.processes.insert(data.processes.begin(), ProfileProcess());
  for (ProfileSample& sample : data.samples) ++sample.process;
  ProfileSample nothing = data.samples[0];
  nothing.process = 0;
  nothing.totals.clear();
  data.samples.insert(data.samples.begin(), nothing);
  otlp::ProfilesData message;
  ASSERT_TRUE(message.ParseFromString(*EncodeOtlpProfile(data)));
  ASSERT_EQ(message.resource_profiles_size(), 1);
  EXPECT_EQ(message.resource_profiles(0).scope_profiles(0).profiles_size(), 2);
}

TEST(Profiles, WithoutDataAreValid) {
  const ProfileData nothing;
  EXPECT_TRUE(EncodePprof(nothing).ok());
  EXPECT_TRUE(EncodeOtlpProfile(nothing).ok());
}

}  // namespace
}  // namespace rocattach
