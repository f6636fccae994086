#include "userspace/attribution/kubelet_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <chrono>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schemas/pod_resources.grpc.pb.h"
#include "userspace/base/clock.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr absl::string_view kVendor = "amd.com";
constexpr size_t kMostDeviceBytes = 256;

// "amd.com/gpu", and names of resources for partitions.
bool IsOurResource(absl::string_view name) {
  return absl::StartsWith(name, absl::StrCat(kVendor, "/"));
}

// "gpu.amd.com".
bool IsOurDriver(absl::string_view name) {
  return name == kVendor || absl::EndsWith(name, absl::StrCat(".", kVendor));
}

bool IsDevice(absl::string_view name) {
  return !name.empty() && name.size() <= kMostDeviceBytes &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isgraph(static_cast<unsigned char>(c));
         });
}

// Adds the devices that are assigned to containers to a table.
class TableBuilder {
 public:
  TableBuilder(const KubeletClient::Limits& limits, DeviceTable* table,
               KubeletFailures* failures)
      : limits_(limits), table_(table), failures_(failures) {}

  void AddPod(const ::v1::PodResources& pod) {
    if (!IsKubeName(pod.name()) || !IsKubeLabel(pod.namespace_())) {
      ++failures_->malformed;
      return;
    }
    for (const ::v1::ContainerResources& container : pod.containers()) {
      if (!IsKubeLabel(container.name())) {
        ++failures_->malformed;
        continue;
      }
      const PodName owner = {pod.namespace_(), pod.name(), container.name()};
      for (const ::v1::ContainerDevices& devices : container.devices()) {
        if (!IsOurResource(devices.resource_name())) continue;
        for (const std::string& id : devices.device_ids()) Add(id, owner);
      }
      for (const ::v1::DynamicResource& claim : container.dynamic_resources()) {
        for (const ::v1::ClaimResource& resource : claim.claim_resources()) {
          // Resources that are not devices have no device name.
          if (!IsOurDriver(resource.driver_name())) continue;
          if (!resource.device_name().empty()) Add(resource.device_name(), owner);
        }
      }
    }
  }

 private:
  void Add(absl::string_view device, const PodName& owner) {
    device = WithoutReplica(device);
    if (!IsDevice(device)) {
      ++failures_->malformed;
      return;
    }
    const auto found = table_->owners.find(std::string(device));
    const bool is_new = found == table_->owners.end();
    if (is_new ? table_->owners.size() >= limits_.devices
               : found->second.size() >= limits_.containers_of_device) {
      if (!crowded_) ++failures_->crowded;
      crowded_ = true;
      return;
    }
    table_->owners[std::string(device)].insert(owner);
  }

  const KubeletClient::Limits& limits_;
  DeviceTable* const table_;
  KubeletFailures* const failures_;
  bool crowded_ = false;
};

}  // namespace

absl::string_view WithoutReplica(absl::string_view device) {
  const size_t colons = device.rfind("::");
  if (colons == absl::string_view::npos || colons == 0) return device;
  const absl::string_view number = device.substr(colons + 2);
  const bool digits =
      !number.empty() && std::all_of(number.begin(), number.end(), [](char c) {
        return absl::ascii_isdigit(static_cast<unsigned char>(c));
      });
  return digits ? device.substr(0, colons) : device;
}

absl::Status KubeletClient::Ask(DeviceTable* table, KubeletFailures* failures) {
  if (channel_ == nullptr) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(limits_.answer_bytes);
    // The state of the socket as seen by another channel must not count here.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    // A proxy that the environment names is meant for network addresses.
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
    channel_ = grpc::CreateCustomChannel(absl::StrCat("unix:", socket_),
                                         grpc::InsecureChannelCredentials(), arguments);
  }
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoMilliseconds(limits_.deadline));
  {
    absl::MutexLock lock(&mutex_);
    if (cancelled_) return absl::CancelledError("the service is ending");
    waiting_ = &context;
  }
  table->asked_ns = BootNs();
  ::v1::ListPodResourcesResponse answer;
  const grpc::Status status = ::v1::PodResourcesLister::NewStub(channel_)->List(
      &context, ::v1::ListPodResourcesRequest(), &answer);
  {
    absl::MutexLock lock(&mutex_);
    waiting_ = nullptr;
  }
  if (!status.ok()) {
    // The kubelet may come back as another process.
    channel_.reset();
    ++failures->unreachable;
    return absl::UnavailableError(absl::StrCat(
        "the kubelet did not answer at ", socket_,
        " (pod-resources API, List): ", absl::CHexEscape(status.error_message()),
        "; names of pods come from their log folders alone"));
  }
  TableBuilder builder(limits_, table, failures);
  for (const ::v1::PodResources& pod : answer.pod_resources()) builder.AddPod(pod);
  return absl::OkStatus();
}

absl::Status KubeletClient::Refresh() {
  auto table = std::make_shared<DeviceTable>();
  KubeletFailures failures;
  absl::Status status = Ask(table.get(), &failures);
  absl::MutexLock lock(&mutex_);
  failures_.unreachable += failures.unreachable;
  failures_.malformed += failures.malformed;
  failures_.crowded += failures.crowded;
  if (status.ok()) table_ = std::move(table);
  return status;
}

void KubeletClient::Cancel() {
  absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  if (waiting_ != nullptr) waiting_->TryCancel();
}

std::shared_ptr<const DeviceTable> KubeletClient::table() const {
  absl::MutexLock lock(&mutex_);
  return table_;
}

KubeletFailures KubeletClient::failures() const {
  absl::MutexLock lock(&mutex_);
  return failures_;
}

}  // namespace rocattach
