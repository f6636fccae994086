#include "userspace/attribution/workload_completer.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/await.h"
#include "tests/temporary_directory.h"
#include "tests/unit/attribution/fake_kubelet.h"
#include "tests/unit/attribution/fake_pod_logs.h"
#include "userspace/base/clock.h"

namespace rocattach {
namespace {

using testing_support::FakeKubelet;
using testing_support::FakePodLogs;

constexpr char kCompletedUid[] = "0f3c1a2b-1234-4abc-9def-00112233aabb";
constexpr char kOtherCompletedUid[] = "1f3c1a2b-1234-4abc-9def-00112233aabb";
const std::string kCompletedId(64, 'a');

GpuDevice Gpu(uint32_t index, const std::string& pci) {
  GpuDevice gpu;
  gpu.index = index;
  gpu.key = gpu.uuid = absl::StrCat("GPU-", index);
  gpu.pci = gpu.device = pci;
  gpu.card = index;
  gpu.render_minor = 128 + index;
  return gpu;
}

class WorkloadCompleterTest : public testing::Test {
 protected:
  WorkloadCompleterTest() {
    sources_.pod_logs = "";
    sources_.pod_resources = "";
    sources_.pod_resources_optional = false;
    sources_.pause = sources_.kubelet_pause = absl::Milliseconds(1);
    sources_.first_backoff = sources_.most_backoff = absl::Milliseconds(1);
    in_pod_.pod_uid = kCompletedUid;
    in_pod_.container_id = kCompletedId;
    question_.process = {7, 1};
  }
  // Retries until Complete() reports that it is done, or `enough` returns true.
  template <typename Enough>
  WorkloadIdentity Complete(WorkloadCompleter* completer, Enough enough) {
    WorkloadIdentity workload = in_pod_;
    const absl::Time end = absl::Now() + absl::Seconds(60);
    while (!completer->Complete(question_, &workload) && !enough(workload) &&
           absl::Now() < end) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    return workload;
  }
  WorkloadIdentity Complete(WorkloadCompleter* completer) {
    return Complete(completer, [](const WorkloadIdentity&) { return false; });
  }
  // Retries until the source has been read again after the start of the process without
  // a usable answer: until `reason` has been counted as a failure.
  WorkloadIdentity CompleteUntilCounted(WorkloadCompleter* completer,
                                        const std::string& source,
                                        const std::string& reason) {
    return Complete(completer, [&](const WorkloadIdentity&) {
      return completer->failures()[{source, reason}] > 0;
    });
  }

  const FakePodLogs logs_;
  FakeKubelet kubelet_;
  const GpuDevice first_ = Gpu(0, "0000:03:00.0"), second_ = Gpu(1, "0000:83:00.0");
  WorkloadSources sources_;
  WorkloadIdentity in_pod_;
  WorkloadQuestion question_;
};

TEST_F(WorkloadCompleterTest, LogFoldersGiveNamesWithoutAnyGpu) {
  sources_.pod_logs = logs_.path();
  sources_.node = "node-1";
  WorkloadCompleter completer(sources_);
  EXPECT_FALSE(completer.needs_gpus());
  WorkloadIdentity workload = in_pod_;
  EXPECT_FALSE(completer.Complete(question_, &workload));
  EXPECT_EQ(workload.node, "node-1");
  EXPECT_EQ(workload.pod, "");
  // The names appear later: the kubelet makes the link after the container has started.
  logs_.AddContainer("trainer-0", "ml", "main", kCompletedId);
  logs_.AddPod("ml", "trainer-0", kCompletedUid, {"init", "main"});
  workload = Complete(&completer);
  EXPECT_EQ(workload.kube_namespace, "ml");
  EXPECT_EQ(workload.pod, "trainer-0");
  EXPECT_EQ(workload.container, "main");
}

TEST_F(WorkloadCompleterTest, AContainerOutsidePodsGetsNoPodName) {
  sources_.pod_logs = logs_.path();
  sources_.pod_resources = kubelet_.socket();
  kubelet_.Assign("ml", "trainer-0", "main", first_.pci);
  WorkloadCompleter completer(sources_);
  question_.gpus = {&first_};
  WorkloadIdentity workload;
  workload.container_id = kCompletedId;
  EXPECT_TRUE(completer.Complete(question_, &workload));
  EXPECT_EQ(workload.pod, "");
}

TEST_F(WorkloadCompleterTest, TheKubeletNamesTheOwnerOfTheGpus) {
  sources_.pod_resources = kubelet_.socket();
  kubelet_.Assign("ml", "trainer-0", "main", first_.pci);
  kubelet_.Claim("ml", "trainer-0", "main", "gpu-1-129");
  WorkloadCompleter completer(sources_);
  EXPECT_TRUE(completer.needs_gpus());
  question_.gpus = {&first_, &second_};
  const WorkloadIdentity workload = Complete(&completer);
  EXPECT_EQ(workload.kube_namespace, "ml");
  EXPECT_EQ(workload.pod, "trainer-0");
  EXPECT_EQ(workload.container, "main");
}

TEST_F(WorkloadCompleterTest, TwoContainersOfOnePodLeaveTheContainerOpen) {
  sources_.pod_resources = kubelet_.socket();
  kubelet_.Assign("ml", "trainer-0", "a", first_.pci + "::0");
  kubelet_.Assign("ml", "trainer-0", "b", first_.pci + "::1");
  WorkloadCompleter completer(sources_);
  question_.gpus = {&first_};
  const WorkloadIdentity workload =
      Complete(&completer, [](const WorkloadIdentity& w) { return !w.pod.empty(); });
  EXPECT_EQ(workload.pod, "trainer-0");
  EXPECT_EQ(workload.container, "");
}

TEST_F(WorkloadCompleterTest, AmbiguousOwnersAreCountedAndNotGuessed) {
  sources_.pod_resources = kubelet_.socket();
  kubelet_.Assign("ml", "trainer-0", "main", first_.pci + "::0");
  kubelet_.Assign("ml", "trainer-1", "main", first_.pci + "::1");
  kubelet_.Assign("ml", "trainer-1", "main", second_.pci);
  WorkloadCompleter completer(sources_);
  question_.gpus = {&first_};
  EXPECT_EQ(CompleteUntilCounted(&completer, "kubelet", "ambiguous").pod, "")
      << "it is shared";
  for (int i = 0; i < 3; ++i) {
    WorkloadIdentity workload = in_pod_;
    EXPECT_FALSE(completer.Complete(question_, &workload));
  }
  const std::pair<std::string, std::string> ambiguous = {"kubelet", "ambiguous"};
  EXPECT_EQ(completer.failures().at(ambiguous), 1u) << "each process is counted once";
  // The GPU is assigned to one pod, but another pod uses it as well.
  question_ = {.process = {8, 1}, .gpus = {&second_}, .shared_by_pods = true};
  WorkloadIdentity workload = in_pod_;
  EXPECT_FALSE(completer.Complete(question_, &workload));
  EXPECT_EQ(workload.pod, "");
  EXPECT_EQ(completer.failures().at(ambiguous), 2u);
  // One GPU is assigned to the pod; the owner of the other one is unknown.
  const GpuDevice third = Gpu(2, "0000:c3:00.0");
  question_ = {.process = {9, 1}, .gpus = {&second_, &third}};
  EXPECT_FALSE(completer.Complete(question_, &workload));
  EXPECT_EQ(workload.pod, "");
  EXPECT_EQ(completer.failures().at(ambiguous), 3u);
}

TEST_F(WorkloadCompleterTest, AKubeletThatNamesOtherPodsDevicesIsNotBelieved) {
  sources_.pod_logs = logs_.path();
  sources_.pod_resources = kubelet_.socket();
  // The log folders have this pod under another uid, and do not have the process's pod.
  logs_.AddPod("ml", "trainer-0", kOtherCompletedUid, {"main"});
  kubelet_.Assign("ml", "trainer-0", "main", first_.pci);
  WorkloadCompleter completer(sources_);
  {
    WorkloadIdentity other;
    other.pod_uid = kOtherCompletedUid;
    testing_support::Await([&] { return completer.Complete(question_, &other); },
                           "the names of the other pod");
  }
  question_.gpus = {&first_};
  EXPECT_EQ(CompleteUntilCounted(&completer, "kubelet", "ambiguous").pod, "");
}

TEST_F(WorkloadCompleterTest, LogFoldersTakePrecedenceOverTheKubelet) {
  sources_.pod_logs = logs_.path();
  sources_.pod_resources = kubelet_.socket();
  logs_.AddPod("ml", "trainer-0", kCompletedUid, {"a", "b"});
  kubelet_.Assign("ml", "another", "main", first_.pci);
  WorkloadCompleter completer(sources_);
  question_.gpus = {&first_};
  const WorkloadIdentity workload =
      Complete(&completer, [&](const WorkloadIdentity& w) {
        return !w.pod.empty() && completer.failures()[{"kubelet", "ambiguous"}] > 0;
      });
  EXPECT_EQ(workload.pod, "trainer-0");
  EXPECT_EQ(workload.container, "");
}

TEST_F(WorkloadCompleterTest, AnAnswerOlderThanTheProcessIsNotUsed) {
  sources_.pod_resources = kubelet_.socket();
  kubelet_.Assign("ml", "former", "main", first_.pci);
  sources_.kubelet_pause = absl::Hours(1);
  WorkloadCompleter completer(sources_);
  question_.gpus = {&first_};
  EXPECT_EQ(Complete(&completer).pod, "former");
  question_.process = {8, (BootNs() + 5'000'000'000) / ClockTickNs()};
  WorkloadIdentity workload = in_pod_;
  EXPECT_FALSE(completer.Complete(question_, &workload));
  EXPECT_EQ(workload.pod, "");
  EXPECT_EQ(completer.failures().count({"kubelet", "ambiguous"}), 1u);
}

TEST_F(WorkloadCompleterTest, PartitionsAreKnownByTheirDeviceAlone) {
  sources_.pod_resources = kubelet_.socket();
  GpuDevice part = first_;
  part.key = "GPU-0/1";
  part.device = "amdgpu_xcp_1";
  part.partition = 1;
  kubelet_.Assign("ml", "whole", "main", first_.pci);
  kubelet_.Assign("ml", "part", "main", "amdgpu_xcp_1");
  WorkloadCompleter completer(sources_);
  question_.gpus = {&part};
  EXPECT_EQ(Complete(&completer).pod, "part");
}

TEST_F(WorkloadCompleterTest, AHangingOrMissingKubeletDelaysNoCompletion) {
  absl::Notification told;
  sources_.pod_resources = kubelet_.socket();
  sources_.on_failure = [&](absl::string_view source, const absl::Status& status) {
    EXPECT_EQ(source, "kubelet");
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    ASSERT_FALSE(told.HasBeenNotified()) << "it is told once";
    told.Notify();
  };
  kubelet_.Hang(true);
  WorkloadCompleter completer(sources_);
  question_.gpus = {&first_};
  testing_support::Await([&] { return kubelet_.asked() != 0; }, "the request");
  WorkloadIdentity workload = in_pod_;
  EXPECT_FALSE(completer.Complete(question_, &workload));
  kubelet_.Vanish();
  testing_support::Await(told, "the failure to be told");
  EXPECT_EQ(CompleteUntilCounted(&completer, "kubelet", "unreadable").pod, "");
  kubelet_.Assign("ml", "trainer-0", "main", first_.pci);
  kubelet_.Appear();
  EXPECT_EQ(Complete(&completer).pod, "trainer-0");
  kubelet_.Hang(true);
  completer.Stop();
}

TEST_F(WorkloadCompleterTest, AnOptionalKubeletThatIsNotThereIsNoFailure) {
  sources_.pod_resources = kubelet_.socket() + "-not-there";
  sources_.pod_resources_optional = true;
  WorkloadCompleter completer(sources_);
  EXPECT_FALSE(completer.needs_gpus());
  question_.gpus = {&first_};
  for (int i = 0; i < 20; ++i) {
    WorkloadIdentity workload = in_pod_;
    EXPECT_FALSE(completer.Complete(question_, &workload));
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(completer.failures()[std::make_pair("kubelet", "unreadable")], 0u);
}

TEST_F(WorkloadCompleterTest, MappedJobsAreUsedOnlyWithoutAnotherSource) {
  const testing_support::TemporaryDirectory folder;
  std::ofstream(folder / "0") << "42\n";
  std::ofstream(folder / "1") << "42\n43\n";
  ASSERT_EQ(chmod((folder / "0").c_str(), 0644), 0);
  ASSERT_EQ(chmod((folder / "1").c_str(), 0644), 0);
  sources_.slurm_mapping = folder.path();
  WorkloadCompleter completer(sources_);
  EXPECT_TRUE(completer.needs_gpus());
  in_pod_ = {};
  question_.gpus = {&first_};
  EXPECT_EQ(Complete(&completer).slurm_job, "42");
  question_.gpus = {&second_};
  EXPECT_EQ(CompleteUntilCounted(&completer, "slurm", "ambiguous").slurm_job, "");
  in_pod_.slurm_job = "77";
  question_.gpus = {&first_};
  EXPECT_EQ(Complete(&completer).slurm_job, "77") << "its control group said so";
}

TEST(NodeNameTest, ComesFromTheBestKnownSource) {
  const testing_support::TemporaryDirectory directory;
  unsetenv("NODE_NAME");
  unsetenv("KUBERNETES_SERVICE_HOST");
  EXPECT_EQ(NodeName("given", ""), "given");
  EXPECT_EQ(NodeName("", directory / "socket"), "") << "this is no cluster";
  std::ofstream(directory / "socket") << "";
  char host[256] = {};
  ASSERT_EQ(gethostname(host, sizeof(host) - 1), 0);
  EXPECT_NE(NodeName("", directory / "socket"), "") << host;
  setenv("NODE_NAME", "node-7", 1);
  EXPECT_EQ(NodeName("", ""), "node-7");
  setenv("NODE_NAME", "no\nname", 1);
  EXPECT_EQ(NodeName("", ""), "");
  unsetenv("NODE_NAME");
}

}  // namespace
}  // namespace rocattach
