// Log folders laid out as by the kubelet.
#ifndef ROCATTACH_TESTS_UNIT_ATTRIBUTION_FAKE_POD_LOGS_H_
#define ROCATTACH_TESTS_UNIT_ATTRIBUTION_FAKE_POD_LOGS_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/temporary_directory.h"

namespace rocattach::testing_support {

class FakePodLogs {
 public:
  FakePodLogs() {
    std::filesystem::create_directory(directory_ / "pods");
    std::filesystem::create_directory(directory_ / "containers");
  }
  std::string path() const { return directory_.path(); }

  void AddPod(const std::string& kube_namespace, const std::string& pod,
              const std::string& uid,
              const std::vector<std::string>& containers) const {
    // Renamed when complete: a concurrent reader must not see only some containers.
    const std::filesystem::path made = directory_ / "new";
    std::filesystem::create_directory(made);
    for (const std::string& container : containers) {
      std::filesystem::create_directory(made / container);
    }
    std::filesystem::rename(
        made, directory_ / absl::StrCat("pods/", kube_namespace, "_", pod, "_", uid));
  }
  // The link's target need not exist: the link is not followed.
  void AddContainer(const std::string& pod, const std::string& kube_namespace,
                    const std::string& container, const std::string& id) const {
    std::filesystem::create_symlink(
        "/nowhere/0.log",
        directory_ / absl::StrCat("containers/", pod, "_", kube_namespace, "_",
                                  container, "-", id, ".log"));
  }

 private:
  const TemporaryDirectory directory_;
};

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_UNIT_ATTRIBUTION_FAKE_POD_LOGS_H_
