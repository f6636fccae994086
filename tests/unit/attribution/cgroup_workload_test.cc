#include "userspace/attribution/cgroup_workload.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rocattach {
namespace {

const std::string kId(64, 'a'), kOther(64, 'b');
constexpr char kUid[] = "0f3c1a2b-1234-4abc-9def-00112233aabb";
constexpr char kSliceUid[] = "0f3c1a2b_1234_4abc_9def_00112233aabb";

struct Expected {
  std::string container, pod, job, step;
};

WorkloadIdentity Of(const std::string& text) {
  WorkloadIdentity workload;
  FillFromCgroups(text, &workload);
  return workload;
}

void Expect(const std::string& path, const Expected& expected) {
  for (const char* hierarchy : {"0::", "4:memory:", "1:name=systemd:"}) {
    SCOPED_TRACE(hierarchy + path);
    const WorkloadIdentity found = Of(hierarchy + path + "\n");
    EXPECT_EQ(found.container_id, expected.container);
    EXPECT_EQ(found.pod_uid, expected.pod);
    EXPECT_EQ(found.slurm_job, expected.job);
    EXPECT_EQ(found.slurm_step, expected.step);
  }
}

TEST(CgroupWorkloadTest, ContainersOfEveryRuntime) {
  const Expected container = {kId, "", "", ""};
  Expect("/docker/" + kId, container);
  Expect("/system.slice/docker-" + kId + ".scope", container);
  Expect("/default/" + kId, container);
  Expect("/system.slice/nerdctl-" + kId + ".scope", container);
  Expect("/machine.slice/libpod-" + kId + ".scope", container);
  Expect("/machine.slice/libpod-" + kId + ".scope/container", container);
  Expect("/libpod_parent/libpod-" + kId, container);
  Expect("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + kId +
             ".scope/container",
         container);
  // In a systemd unit, with --cgroups=split.
  Expect("/system.slice/trainer.service/libpod-payload-" + kId, container);
  Expect(
      "/user.slice/user-1000.slice/user@1000.service/app.slice/trainer.service/"
      "libpod-payload-" +
          kId + "/init.scope",
      container);
  // In a pod of Podman.
  Expect("/machine.slice/machine-libpod_pod_" + kOther + ".slice/libpod-" + kId +
             ".scope/container",
         container);
  // Rootless Docker.
  Expect("/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" + kId +
             ".scope",
         container);
  // Seen from another cgroup namespace.
  Expect("/../../system.slice/docker-" + kId + ".scope", container);
  // The outer one of two nested containers.
  Expect("/docker/" + kId + "/docker/" + kOther, container);
}

TEST(CgroupWorkloadTest, ContainersWithNames) {
  Expect("/machine.slice/machine-debian.scope/payload", {"debian", "", "", ""});
  Expect("/machine.slice/machine-my\\x2dbox_1.scope/payload/system.slice/a.service",
         {"my-box_1", "", "", ""});
  Expect("/machine.slice/systemd-nspawn@web.service/payload", {"web", "", "", ""});
  Expect("/lxc.payload.web-1/system.slice/a.service", {"web-1", "", "", ""});
  Expect("/user.slice/user-1000.slice/lxc.payload.own/.lxc", {"own", "", "", ""});
  // The outer one of two nested containers.
  Expect("/lxc.payload.web-1/docker/" + kId, {"web-1", "", "", ""});
  // A node of a cluster.
  Expect(absl::StrCat("/lxc.payload.node/kubepods/pod", kUid, "/", kId),
         {kId, kUid, "", ""});
}

TEST(CgroupWorkloadTest, ContainersOfPods) {
  const Expected pod = {kId, kUid, "", ""};
  const std::string slices =
      absl::StrCat("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod",
                   kSliceUid, ".slice");
  Expect(slices + "/cri-containerd-" + kId + ".scope", pod);
  Expect(slices + "/crio-" + kId + ".scope", pod);
  Expect(slices + "/crio-" + kId + ".scope/container", pod);
  Expect(slices + "/docker-" + kId + ".scope", pod);
  Expect(absl::StrCat("/kubepods.slice/kubepods-pod", kSliceUid, ".slice/crio-", kId,
                      ".scope"),
         pod);
  Expect(absl::StrCat("/kubepods/besteffort/pod", kUid, "/", kId), pod);
  Expect(absl::StrCat("/kubepods/pod", kUid, "/", kId, "/", kOther), pod);
  Expect(absl::StrCat("/system.slice/containerd.service/kubepods-burstable-pod",
                      kSliceUid, ".slice:cri-containerd:", kId),
         pod);
  // A node that is itself a container.
  Expect(absl::StrCat("/docker/", kOther, "/kubelet.slice/kubelet-kubepods.slice/",
                      "kubelet-kubepods-pod", kSliceUid, ".slice/cri-containerd-", kId,
                      ".scope"),
         pod);
  // A static pod has a hash instead of a UUID.
  const std::string hash(32, 'c');
  Expect("/kubepods/burstable/pod" + hash + "/" + kId, {kId, hash, "", ""});
  // The group of a pod, above its containers.
  Expect(absl::StrCat("/kubepods/pod", kUid), {"", kUid, "", ""});
}

TEST(CgroupWorkloadTest, SlurmJobs) {
  Expect("/slurm/uid_1000/job_123/step_0/task_2", {"", "", "123", "0"});
  Expect("/slurm_node1/uid_1000/job_123/step_batch", {"", "", "123", "batch"});
  Expect("/system.slice/slurmstepd.scope/job_9/step_extern/user/task_special",
         {"", "", "9", "extern"});
  Expect("/system.slice/node1_slurmstepd.scope/job_9/step_interactive/user/task_0",
         {"", "", "9", "interactive"});
  Expect("/slurm/uid_1000/job_123", {"", "", "123", ""});
  // A container started by a job.
  Expect("/slurm/uid_1/job_5/step_1/libpod-" + kId + ".scope", {kId, "", "5", "1"});
}

TEST(CgroupWorkloadTest, OtherGroupsNameNoWorkload) {
  const Expected nothing;
  for (const std::string& path :
       {std::string(), std::string("/"), std::string("/init.scope"),
        std::string("/system.slice/ssh.service"), "/docker/" + kId.substr(1),
        "/docker/" + kId + "0", "/docker/" + std::string(64, 'g'),
        "/docker/" + std::string(64, 'A'),
        // Monitor processes of containers.
        "/machine.slice/libpod-conmon-" + kId + ".scope",
        absl::StrCat("/system.slice/crio-conmon-", kId, ".scope"),
        std::string("/lxc.monitor.web"), std::string("/lxc.payload."),
        std::string("/lxc.payload.a b"), "/lxc.payload." + std::string(65, 'a'),
        "/system.slice/trainer.service/libpod-conmon-" + kId,
        "/system.slice/trainer.service/libpod-payload-" + kId.substr(1),
        std::string("/system.slice/trainer.service/runtime"),
        std::string("/machine.slice/machine-debian.scope"),
        std::string("/machine.slice/machine-debian.scope/supervisor"),
        std::string("/machine.slice/machine-debian.scope/other/payload"),
        std::string("/machine.slice/machine-.scope/payload"),
        std::string("/machine.slice/machine-a\\x20b.scope/payload"),
        std::string("/payload"),
        // A virtual machine.
        std::string("/machine.slice/machine-qemu\\x2d1\\x2dvm.scope/libvirt/emulator"),
        // Apptainer does not name its containers.
        std::string("/user.slice/user-1000.slice/user@1000.service/apptainer-77.scope"),
        std::string("/kubepods/pod1234"), std::string("/kubepods.slice/-pod.slice"),
        absl::StrCat("/machine.slice/pod", kUid), std::string("/job_1/step_1"),
        std::string("/slurm/uid_0/job_/step_x"), std::string("/slurm/job_-1"),
        "/slurm/job_" + std::string(21, '1'),
        // Groups that an unprivileged user may create.
        absl::StrCat("/user.slice/user@1.service/kubepods/pod", kUid),
        std::string("/user.slice/user@1.service/slurm/job_1/step_1")}) {
    Expect(path, nothing);
  }
  for (const char* text : {"", "\n\n", "0:", "0::", "::", "1:2", "::::\n0", "x"}) {
    EXPECT_EQ(Of(text), WorkloadIdentity()) << text;
  }
}

TEST(CgroupWorkloadTest, TheUnifiedHierarchyIsPreferred) {
  const WorkloadIdentity found = Of("5:devices:/docker/" + kOther +
                                    "\n0::/system.slice/docker-" + kId + ".scope\n");
  EXPECT_EQ(found.container_id, kId);
  // A job in an older hierarchy and a container in the unified one.
  const WorkloadIdentity both =
      Of("5:devices:/slurm/uid_0/job_7/step_3\n0::/docker/" + kId + "\n");
  EXPECT_EQ(both.container_id, kId);
  EXPECT_EQ(both.slurm_job, "7");
  EXPECT_EQ(both.slurm_step, "3");
  // The step of one job is not attributed to another job.
  const WorkloadIdentity jobs = Of("0::/slurm/job_7\n5:devices:/slurm/job_8/step_3\n");
  EXPECT_EQ(jobs.slurm_job, "7");
  EXPECT_EQ(jobs.slurm_step, "");
}

}  // namespace
}  // namespace rocattach
