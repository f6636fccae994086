#include "userspace/attribution/kubelet_client.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/await.h"
#include "tests/unit/attribution/fake_kubelet.h"
#include "userspace/base/clock.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {
namespace {

using testing_support::FakeKubelet;

KubeletClient::Limits Hurried() {
  KubeletClient::Limits limits;
  limits.deadline = absl::Milliseconds(100);
  return limits;
}

// Retries until a request succeeds: on a busy machine a short deadline may pass first.
bool RefreshInTime(KubeletClient* client) {
  const absl::Time end = absl::Now() + absl::Seconds(60);
  while (!client->Refresh().ok()) {
    if (absl::Now() > end) return false;
  }
  return true;
}

TEST(KubeletClientTest, DevicesHaveTheirOwners) {
  FakeKubelet kubelet;
  kubelet.Assign("ml", "trainer-0", "main", "0000:03:00.0");
  kubelet.Assign("ml", "shared-0", "main", "0000:83:00.0::0");
  kubelet.Assign("ml", "shared-1", "main", "0000:83:00.0::1");
  kubelet.Assign("ml", "parts", "main", "amdgpu_xcp_3", "amd.com/cpx_nps4");
  kubelet.Claim("ml", "claimed", "main", "gpu-1-129");
  kubelet.Assign("net", "router", "main", "eth0", "vendor.com/nic");
  kubelet.Claim("net", "router", "main", "gpu-1-129", "gpu.other.com");
  KubeletClient client(kubelet.socket());
  EXPECT_EQ(client.table()->asked_ns, 0u);
  const uint64_t before_ns = BootNs();
  ASSERT_TRUE(RefreshInTime(&client));
  const auto table = client.table();
  EXPECT_GE(table->asked_ns, before_ns);
  EXPECT_LE(table->asked_ns, BootNs());
  const std::map<std::string, std::set<PodName>> expected = {
      {"0000:03:00.0", {{"ml", "trainer-0", "main"}}},
      {"0000:83:00.0", {{"ml", "shared-0", "main"}, {"ml", "shared-1", "main"}}},
      {"amdgpu_xcp_3", {{"ml", "parts", "main"}}},
      {"gpu-1-129", {{"ml", "claimed", "main"}}}};
  EXPECT_EQ(table->owners, expected);
  EXPECT_EQ(client.failures().malformed, 0u);
}

TEST(KubeletClientTest, AHangingKubeletIsGivenUpAtTheDeadline) {
  FakeKubelet kubelet;
  kubelet.Assign("ml", "trainer-0", "main", "0000:03:00.0");
  KubeletClient client(kubelet.socket(), Hurried());
  ASSERT_TRUE(RefreshInTime(&client));
  const uint64_t before = client.failures().unreachable;
  kubelet.Hang(true);
  const absl::Status status = client.Refresh();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(status.message().find(kubelet.socket()), absl::string_view::npos);
  EXPECT_EQ(client.failures().unreachable, before + 1);
  EXPECT_EQ(client.table()->owners.size(), 1u) << "the former answer stays";
  kubelet.Hang(false);
  EXPECT_TRUE(RefreshInTime(&client));
}

TEST(KubeletClientTest, CancelEndsARequestToAHangingKubelet) {
  FakeKubelet kubelet;
  kubelet.Hang(true);
  KubeletClient::Limits limits;
  limits.deadline = absl::Hours(1);
  KubeletClient client(kubelet.socket(), limits);
  absl::Notification done;
  std::thread asking([&] {
    EXPECT_FALSE(client.Refresh().ok());
    done.Notify();
  });
  testing_support::Await([&] { return kubelet.asked() != 0; }, "the request");
  EXPECT_EQ(client.table()->asked_ns, 0u) << "reading the table does not wait";
  client.Cancel();
  testing_support::Await(done, "the end of the cancelled request");
  asking.join();
  EXPECT_TRUE(absl::IsCancelled(client.Refresh())) << "and does not ask again";
}

TEST(KubeletClientTest, AnUnreadSocketIsGivenUpAtTheDeadline) {
  const testing_support::TemporaryDirectory directory;
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = directory / "socket";
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(fd.get(), 1), 0);
  KubeletClient client(path, Hurried());
  for (uint64_t i = 1; i <= 3; ++i) {
    EXPECT_TRUE(absl::IsUnavailable(client.Refresh()));
    EXPECT_EQ(client.failures().unreachable, i);
  }
}

TEST(KubeletClientTest, AHundredMegabytesAreNotRead) {
  FakeKubelet kubelet;
  kubelet.Assign("ml", std::string(100 << 20, 'x'), "main", "0000:03:00.0");
  KubeletClient client(kubelet.socket());
  EXPECT_TRUE(absl::IsUnavailable(client.Refresh()));
  EXPECT_TRUE(client.table()->owners.empty());
  EXPECT_EQ(client.failures().unreachable, 1u);
}

TEST(KubeletClientTest, InvalidNamesAreLeftOut) {
  FakeKubelet kubelet;
  kubelet.Assign("ml", "trainer\n0", "main", "0000:03:00.0");
  kubelet.Assign("m/l", "trainer-0", "main", "0000:03:00.0");
  kubelet.Assign("ml", "trainer-0", "", "0000:03:00.0");
  kubelet.Assign("ml", "trainer-0", "main", "0000:03 00.0");
  kubelet.Assign("ml", "trainer-0", "main", std::string(300, '1'));
  kubelet.Assign("ml", "trainer-0", "main", "");
  KubeletClient client(kubelet.socket());
  ASSERT_TRUE(RefreshInTime(&client));
  EXPECT_TRUE(client.table()->owners.empty());
  EXPECT_EQ(client.failures().malformed, 6u);
}

TEST(KubeletClientTest, TheTableIsBounded) {
  FakeKubelet kubelet;
  for (int i = 0; i < 5; ++i) {
    kubelet.Assign("ml", "trainer-0", "main", "device" + std::to_string(i));
    kubelet.Assign("ml", "pod-" + std::to_string(i), "main", "shared");
  }
  KubeletClient::Limits limits;
  limits.devices = 3;
  limits.containers_of_device = 2;
  KubeletClient client(kubelet.socket(), limits);
  ASSERT_TRUE(RefreshInTime(&client));
  EXPECT_EQ(client.table()->owners.size(), 3u);
  EXPECT_EQ(client.table()->owners.at("shared").size(), 2u);
  EXPECT_EQ(client.failures().crowded, 1u);
}

TEST(KubeletClientTest, AKubeletThatRestartsIsAskedAgain) {
  FakeKubelet kubelet;
  kubelet.Assign("ml", "trainer-0", "main", "0000:03:00.0");
  KubeletClient client(kubelet.socket());
  ASSERT_TRUE(RefreshInTime(&client));
  kubelet.Vanish();
  EXPECT_TRUE(absl::IsUnavailable(client.Refresh()));
  EXPECT_EQ(client.table()->owners.size(), 1u);
  kubelet.Appear();
  kubelet.Clear();
  ASSERT_TRUE(RefreshInTime(&client));
  EXPECT_TRUE(client.table()->owners.empty());
}

TEST(KubeletClientTest, AFileThatIsNoSocketIsNoKubelet) {
  const testing_support::TemporaryDirectory directory;
  std::ofstream(directory / "socket") << "text";
  KubeletClient client(directory / "socket", Hurried());
  EXPECT_TRUE(absl::IsUnavailable(client.Refresh()));
}

TEST(KubeletClientTest, OnlyReplicaNumbersAreRemoved) {
  EXPECT_EQ(WithoutReplica("0000:03:00.0::12"), "0000:03:00.0");
  EXPECT_EQ(WithoutReplica("0000:03:00.0"), "0000:03:00.0");
  EXPECT_EQ(WithoutReplica("a::"), "a::");
  EXPECT_EQ(WithoutReplica("a::b"), "a::b");
  EXPECT_EQ(WithoutReplica("::1"), "::1");
}

}  // namespace
}  // namespace rocattach
