// The pods to which GPUs are assigned, from the kubelet's pod-resources API.
#ifndef ROCATTACH_USERSPACE_ATTRIBUTION_KUBELET_CLIENT_H_
#define ROCATTACH_USERSPACE_ATTRIBUTION_KUBELET_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "userspace/attribution/kube_names.h"

// Declared here because gRPC's headers are large, and many files include this one.
namespace grpc {
class Channel;
class ClientContext;
}  // namespace grpc

namespace rocattach {

// The containers to which each device is assigned. Device plugins name GPUs by PCI
// address ("0000:03:00.0") and partitions by device ("amdgpu_xcp_30"), the driver for
// dynamic resource allocation names them by card and render node ("gpu-1-129").
struct DeviceTable {
  std::map<std::string, std::set<PodName>> owners;  // by device name
  // CLOCK_BOOTTIME before the kubelet was asked: processes that started later may
  // belong to pods that are not in the table. 0: it has not answered yet.
  uint64_t asked_ns = 0;
};

struct KubeletFailures {
  uint64_t unreachable = 0;  // no answer in time, or an error
  uint64_t malformed = 0;    // invalid names in answers
  uint64_t crowded = 0;      // answers with more than is kept
};

// Thread-safe. Refresh() waits, for a limited time; table() never does.
class KubeletClient {
 public:
  struct Limits {
    absl::Duration deadline = absl::Seconds(2);
    int answer_bytes = 4 << 20;
    size_t devices = 16384;            // AMD's only
    size_t containers_of_device = 64;  // per device
  };
  static constexpr char kDefaultSocket[] =
      "/var/lib/kubelet/pod-resources/kubelet.sock";

  explicit KubeletClient(std::string socket)
      : KubeletClient(std::move(socket), Limits()) {}
  KubeletClient(std::string socket, const Limits& limits)
      : socket_(std::move(socket)),
        limits_(limits),
        table_(std::make_shared<DeviceTable>()) {}

  // Asks the kubelet. After an error the previous table stays. One call at a time.
  absl::Status Refresh() ABSL_LOCKS_EXCLUDED(mutex_);
  // Cancels a Refresh() that is waiting, and all later ones.
  void Cancel() ABSL_LOCKS_EXCLUDED(mutex_);

  // The last answer; never null.
  std::shared_ptr<const DeviceTable> table() const ABSL_LOCKS_EXCLUDED(mutex_);
  KubeletFailures failures() const ABSL_LOCKS_EXCLUDED(mutex_);
  const std::string& socket() const { return socket_; }

 private:
  absl::Status Ask(DeviceTable* table, KubeletFailures* failures)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string socket_;
  const Limits limits_;
  std::shared_ptr<grpc::Channel> channel_;  // used by Refresh() only
  mutable absl::Mutex mutex_;
  grpc::ClientContext* waiting_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const DeviceTable> table_ ABSL_GUARDED_BY(mutex_);
  KubeletFailures failures_ ABSL_GUARDED_BY(mutex_);
};

// The device of a replica: "0000:03:00.0" for "0000:03:00.0::2", one of its shares.
absl::string_view WithoutReplica(absl::string_view device);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_ATTRIBUTION_KUBELET_CLIENT_H_
