// A kubelet's pod-resources API that can be made to hang and to give false answers.
#ifndef ROCATTACH_TESTS_UNIT_ATTRIBUTION_FAKE_KUBELET_H_
#define ROCATTACH_TESTS_UNIT_ATTRIBUTION_FAKE_KUBELET_H_

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "schemas/pod_resources.grpc.pb.h"
#include "tests/temporary_directory.h"

namespace rocattach::testing_support {

class FakeKubelet : private ::v1::PodResourcesLister::Service {
 public:
  FakeKubelet() { Appear(); }
  ~FakeKubelet() override { Vanish(); }

  std::string socket() const { return directory_ / "kubelet.sock"; }

  void Appear() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("unix:", socket()),
                             grpc::InsecureServerCredentials());
    builder.SetMaxSendMessageSize(-1);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  void Vanish() {
    Hang(false);
    server_->Shutdown();
    server_->Wait();
  }
  // While true, requests wait for their answers.
  void Hang(bool hang) {
    absl::MutexLock lock(&mutex_);
    hang_ = hang;
  }
  // Assigns a device of a device plugin to a container of a pod.
  void Assign(const std::string& kube_namespace, const std::string& pod,
              const std::string& container, const std::string& device,
              const std::string& resource = "amd.com/gpu") {
    absl::MutexLock lock(&mutex_);
    ::v1::ContainerDevices* devices =
        Container(kube_namespace, pod, container)->add_devices();
    devices->set_resource_name(resource);
    devices->add_device_ids(device);
  }
  // Assigns a device to a container by dynamic resource allocation.
  void Claim(const std::string& kube_namespace, const std::string& pod,
             const std::string& container, const std::string& device,
             const std::string& driver = "gpu.amd.com") {
    absl::MutexLock lock(&mutex_);
    ::v1::ClaimResource* resource = Container(kube_namespace, pod, container)
                                        ->add_dynamic_resources()
                                        ->add_claim_resources();
    resource->set_driver_name(driver);
    resource->set_pool_name("node");
    resource->set_device_name(device);
  }
  void Clear() {
    absl::MutexLock lock(&mutex_);
    answer_.Clear();
  }
  int asked() const {
    absl::MutexLock lock(&mutex_);
    return asked_;
  }

 private:
  ::v1::ContainerResources* Container(const std::string& kube_namespace,
                                      const std::string& pod,
                                      const std::string& container)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ::v1::PodResources* resources = answer_.add_pod_resources();
    resources->set_name(pod);
    resources->set_namespace_(kube_namespace);
    resources->add_containers()->set_name(container);
    return resources->mutable_containers(0);
  }

  grpc::Status List(grpc::ServerContext*, const ::v1::ListPodResourcesRequest*,
                    ::v1::ListPodResourcesResponse* answer) override {
    absl::MutexLock lock(&mutex_);
    ++asked_;
    const auto goes_on = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !hang_; };
    mutex_.Await(absl::Condition(&goes_on));
    *answer = answer_;
    return grpc::Status::OK;
  }

  const TemporaryDirectory directory_;
  mutable absl::Mutex mutex_;
  bool hang_ ABSL_GUARDED_BY(mutex_) = false;
  int asked_ ABSL_GUARDED_BY(mutex_) = 0;
  ::v1::ListPodResourcesResponse answer_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_UNIT_ATTRIBUTION_FAKE_KUBELET_H_
