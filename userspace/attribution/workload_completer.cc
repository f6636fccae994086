#include "userspace/attribution/workload_completer.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"

namespace rocattach {
namespace {

// Number of processes that are remembered as counted.
constexpr size_t kMostCounted = 4096;

bool Exists(const std::string& path) {
  struct stat file = {};
  return stat(path.c_str(), &file) == 0;
}

// A time at which the process had started for certain: start_ticks is rounded down.
uint64_t StartedBy(const ProcessId& process) {
  return (process.start_ticks + 1) * ClockTickNs();
}

template <typename T>
std::shared_ptr<T> MakeUnlessEmpty(const std::string& place) {
  return place.empty() ? nullptr : std::make_shared<T>(place);
}

// All names that device plugins and drivers may use for a GPU. A partitioned GPU's PCI
// address and UUID belong to the whole GPU.
std::vector<std::string> DeviceNames(const GpuDevice& gpu) {
  std::vector<std::string> names = {gpu.key, gpu.device};
  if (!gpu.partition.has_value()) {
    names.push_back(gpu.uuid);
    names.push_back(gpu.pci);
  }
  if (gpu.card.has_value() && gpu.render_minor.has_value()) {
    names.push_back(absl::StrCat("gpu-", *gpu.card, "-", *gpu.render_minor));
  }
  return names;
}

}  // namespace

std::string NodeName(const std::string& given, const std::string& pod_resources) {
  if (!given.empty()) return given;
  if (const char* name = getenv("NODE_NAME"); name != nullptr && IsKubeName(name)) {
    return name;
  }
  if (getenv("KUBERNETES_SERVICE_HOST") == nullptr &&
      (pod_resources.empty() || !Exists(pod_resources))) {
    return "";
  }
  char host[256] = {};
  if (gethostname(host, sizeof(host) - 1) != 0) return "";
  const std::string name = absl::AsciiStrToLower(host);
  return IsKubeName(name) ? name : "";
}

struct WorkloadCompleter::Reporter {
  // Held while on_failure is called.
  absl::Mutex mutex;
  bool stopped ABSL_GUARDED_BY(mutex) = false;
  std::set<Source> reported ABSL_GUARDED_BY(mutex);
  std::function<void(absl::string_view, const absl::Status&)> on_failure;
  // When the last completed reading of the log folders began.
  std::atomic<uint64_t> logs_read_ns = 0;

  void ReportFailure(Source source, const absl::Status& status) {
    absl::MutexLock lock(&mutex);
    if (status.ok() || stopped || on_failure == nullptr) return;
    if (reported.insert(source).second) on_failure(Name(source), status);
  }
};

const char* WorkloadCompleter::Name(Source source) {
  switch (source) {
    case Source::kPodLogs:
      return "pod_logs";
    case Source::kKubelet:
      return "kubelet";
    case Source::kSlurm:
      return "slurm";
  }
  return "";
}

WorkloadCompleter::WorkloadCompleter(const WorkloadSources& sources)
    : node_(sources.node),
      kubelet_optional_(sources.pod_resources_optional),
      reporter_(std::make_shared<Reporter>()),
      logs_(MakeUnlessEmpty<PodLogs>(sources.pod_logs)),
      kubelet_(MakeUnlessEmpty<KubeletClient>(sources.pod_resources)),
      jobs_(MakeUnlessEmpty<JobMappings>(sources.slurm_mapping)) {
  reporter_->on_failure = sources.on_failure;
  const auto reporter = reporter_;
  if (logs_ != nullptr) {
    read_logs_ = std::make_unique<BackgroundRefresh>(
        [reporter, logs = logs_, pause = sources.pause] {
          const uint64_t begin_ns = BootNs();
          // Most machines are not in a cluster, and have no such folders.
          if (const absl::Status status = logs->Refresh(); !absl::IsNotFound(status)) {
            reporter->ReportFailure(Source::kPodLogs, status);
          }
          reporter->logs_read_ns = begin_ns;
          return pause;
        });
  }
  if (jobs_ != nullptr) {
    read_jobs_ = std::make_unique<BackgroundRefresh>(
        [reporter, jobs = jobs_, pause = sources.pause] {
          reporter->ReportFailure(Source::kSlurm, jobs->Refresh());
          return pause;
        });
  }
  if (kubelet_ == nullptr) return;
  ask_kubelet_ = std::make_unique<BackgroundRefresh>(
      [reporter, kubelet = kubelet_, optional = sources.pod_resources_optional,
       pause = sources.kubelet_pause, first = sources.first_backoff,
       most = sources.most_backoff, backoff = sources.first_backoff]() mutable {
        if (optional && !Exists(kubelet->socket())) return pause;
        const absl::Status status = kubelet->Refresh();
        if (status.ok()) {
          backoff = first;
          return pause;
        }
        if (absl::IsUnavailable(status))
          reporter->ReportFailure(Source::kKubelet, status);
        return std::exchange(backoff, std::min(2 * backoff, most));
      });
}

bool WorkloadCompleter::needs_gpus() const {
  return jobs_ != nullptr ||
         (kubelet_ != nullptr && (!kubelet_optional_ || Exists(kubelet_->socket())));
}

WorkloadCompleter::~WorkloadCompleter() {
  Stop();
}

void WorkloadCompleter::Stop() {
  {
    absl::MutexLock lock(&reporter_->mutex);
    reporter_->stopped = true;
  }
  if (kubelet_ != nullptr) kubelet_->Cancel();
  for (auto* refresh : {&read_logs_, &ask_kubelet_, &read_jobs_}) {
    if (*refresh != nullptr) (*refresh)->Stop();
  }
}

void WorkloadCompleter::CountAmbiguous(Source source, const ProcessId& process) {
  absl::MutexLock lock(&mutex_);
  if (counted_.size() >= kMostCounted) counted_.clear();
  if (counted_.insert({source, process}).second) ++ambiguous_[source];
}

void WorkloadCompleter::NameByLogs(WorkloadIdentity* workload) {
  const auto found = logs_->Find(workload->pod_uid, workload->container_id);
  if (found.has_value()) {
    workload->kube_namespace = found->kube_namespace;
    workload->pod = found->pod;
    workload->container = found->container;
  }
  if (workload->container.empty()) read_logs_->Request();
}

std::optional<PodName> WorkloadCompleter::OwnerOf(
    const std::vector<const GpuDevice*>& gpus, const DeviceTable& table,
    bool* ambiguous) {
  std::set<PodName> owners;
  size_t owned = 0;
  for (const GpuDevice* gpu : gpus) {
    bool found = false;
    for (const std::string& name : DeviceNames(*gpu)) {
      const auto of_gpu = table.owners.find(name);
      if (name.empty() || of_gpu == table.owners.end()) continue;
      owners.insert(of_gpu->second.begin(), of_gpu->second.end());
      found = true;
    }
    owned += found ? 1 : 0;
  }
  if (owned == 0) return std::nullopt;
  PodName owner = *owners.begin();
  const bool one_pod =
      std::all_of(owners.begin(), owners.end(), [&](const PodName& other) {
        return other.kube_namespace == owner.kube_namespace && other.pod == owner.pod;
      });
  *ambiguous = !one_pod || owned < gpus.size();
  if (*ambiguous) return std::nullopt;
  if (owners.size() > 1) owner.container.clear();
  return owner;
}

void WorkloadCompleter::NameByGpus(const WorkloadQuestion& question,
                                   WorkloadIdentity* workload) {
  // Log folders take precedence, so they must have been read first.
  if (logs_ != nullptr && reporter_->logs_read_ns < StartedBy(question.process)) return;
  const auto table = kubelet_->table();
  if (table->asked_ns < StartedBy(question.process)) {
    ask_kubelet_->Request();
    return;
  }
  bool ambiguous = false;
  const auto owner = OwnerOf(question.gpus, *table, &ambiguous);
  if (owner.has_value()) {
    const bool same_pod =
        workload->pod.empty() || (workload->pod == owner->pod &&
                                  workload->kube_namespace == owner->kube_namespace);
    ambiguous = !same_pod || question.shared_by_pods ||
                (logs_ != nullptr && logs_->IsAnother(*owner, workload->pod_uid));
  }
  if (ambiguous) {
    CountAmbiguous(Source::kKubelet, question.process);
  } else if (owner.has_value()) {
    workload->kube_namespace = owner->kube_namespace;
    workload->pod = owner->pod;
    workload->container = owner->container;
  }
  if (workload->container.empty()) ask_kubelet_->Request();
}

void WorkloadCompleter::FindJob(const WorkloadQuestion& question,
                                WorkloadIdentity* workload) {
  std::vector<uint32_t> indexes;
  for (const GpuDevice* gpu : question.gpus) indexes.push_back(gpu->index);
  std::string job;
  switch (jobs_->Find(indexes, question.uid, StartedBy(question.process), &job)) {
    case JobMappings::Answer::kFound:
      workload->slurm_job = std::move(job);
      return;
    case JobMappings::Answer::kAmbiguous:
      CountAmbiguous(Source::kSlurm, question.process);
      break;
    case JobMappings::Answer::kUnknown:
      break;
  }
  read_jobs_->Request();
}

bool WorkloadCompleter::Complete(const WorkloadQuestion& question,
                                 WorkloadIdentity* workload) {
  if (workload->node.empty()) workload->node = node_;
  const bool in_pod = !workload->pod_uid.empty();
  const auto is_named = [&] {
    return !in_pod || (!workload->pod.empty() && !workload->container.empty());
  };
  if (!is_named() && logs_ != nullptr) NameByLogs(workload);
  if (!is_named() && kubelet_ != nullptr && !question.gpus.empty()) {
    NameByGpus(question, workload);
  }
  if (workload->slurm_job.empty() && jobs_ != nullptr && !question.gpus.empty()) {
    FindJob(question, workload);
  }
  return is_named() && (!workload->slurm_job.empty() || jobs_ == nullptr);
}

std::map<std::pair<std::string, std::string>, uint64_t> WorkloadCompleter::failures()
    const {
  std::map<std::pair<std::string, std::string>, uint64_t> all;
  const auto add = [&all](Source source, const char* reason, uint64_t count) {
    all[{Name(source), reason}] = count;
  };
  if (logs_ != nullptr) {
    const PodLogFailures failures = logs_->failures();
    add(Source::kPodLogs, "unreadable", failures.unreadable);
    add(Source::kPodLogs, "malformed", failures.malformed);
    add(Source::kPodLogs, "crowded", failures.crowded);
  }
  const auto ambiguous = [this](Source source) {
    absl::MutexLock lock(&mutex_);
    const auto found = ambiguous_.find(source);
    return found == ambiguous_.end() ? 0 : found->second;
  };
  if (kubelet_ != nullptr) {
    const KubeletFailures failures = kubelet_->failures();
    add(Source::kKubelet, "unreadable", failures.unreachable);
    add(Source::kKubelet, "malformed", failures.malformed);
    add(Source::kKubelet, "crowded", failures.crowded);
    add(Source::kKubelet, "ambiguous", ambiguous(Source::kKubelet));
  }
  if (jobs_ != nullptr) {
    const JobMappingFailures failures = jobs_->failures();
    add(Source::kSlurm, "unreadable", failures.unreadable);
    add(Source::kSlurm, "malformed", failures.malformed);
    add(Source::kSlurm, "crowded", failures.crowded);
    add(Source::kSlurm, "ambiguous", ambiguous(Source::kSlurm));
  }
  return all;
}

}  // namespace rocattach
