#include "userspace/report/html/page_kernels.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "userspace/report/report_process.h"
#include "userspace/report/report_words.h"
#include "userspace/report/text.h"

namespace rocattach {
namespace {

// A kernel without a name in the recording is listed by its id, apart from others.
std::string KeyOf(const KernelReport& kernel) {
  return kernel.name.empty() ? KernelText(kernel) : kernel.name;
}

Json CountersOf(const ProcessReport& process, uint32_t plan,
                const KernelCounters& kernel) {
  Json values = Json::array();
  for (const KernelValue& value : kernel.values) {
    values.push_back({value.name, NumberJson(value.total), NumberJson(value.mean),
                      value.dispatches, value.mixed});
  }
  return {{"process", ProcessName(process)},     {"plan", plan},
          {"architecture", kernel.architecture}, {"passes", kernel.passes},
          {"complete", kernel.complete},         {"values", std::move(values)}};
}

}  // namespace

Json DurationsJson(const DurationHistogram& durations) {
  // Buckets of a quarter of a power of two are fine enough for display.
  constexpr uint64_t kFold = 8;
  Json histogram = Json::array();
  uint64_t begin = 0, end = 0, count = 0, bucket = 0;
  auto flush = [&] {
    if (count > 0) histogram.push_back({begin, end, count});
    count = 0;
  };
  durations.ForEachBucket([&](uint64_t low, uint64_t high, uint64_t times) {
    const uint64_t fold = DurationHistogram::BucketNumber(low) / kFold;
    if (count == 0 || fold != bucket) {
      flush();
      begin = low;
      bucket = fold;
    }
    end = high;
    count += times;
  });
  flush();
  return {{"timed", durations.count()},
          {"total", durations.sum()},
          {"mean", NumberJson(durations.average())},
          {"sigma", NumberJson(durations.deviation())},
          {"min", durations.min()},
          {"p50", durations.Quantile(0.5)},
          {"p99", durations.Quantile(0.99)},
          {"max", durations.max()},
          {"histogram", std::move(histogram)}};
}

PageKernels::PageKernels(const Report& report) {
  for (const RecordingReport& recording : report.recordings) {
    for (const auto& process : recording.processes) Add(*process);
  }
  std::stable_sort(kernels_.begin(), kernels_.end(), [](const auto& a, const auto& b) {
    return std::make_pair(a.durations.sum(), a.count) >
           std::make_pair(b.durations.sum(), b.count);
  });
  size_t bytes = 0;
  for (size_t i = 0; i < kernels_.size(); ++i) {
    by_name_[KeyOf(kernels_[i])] = i;
    total_ns_ += kernels_[i].durations.sum();
    bytes += kernels_[i].name.size() + kernels_[i].kernel.name().size();
    if (i < kMaxListed && bytes <= kMaxNameBytes) listed_ = i + 1;
  }
  counters_.assign(listed_, Json::array());
  for (const RecordingReport& recording : report.recordings) {
    for (const auto& process : recording.processes) AddCounters(*process);
  }
}

void PageKernels::Add(const ProcessReport& process) {
  for (const auto& [id, kernel] : process.kernels) {
    if (kernel.count == 0) continue;
    auto [known, is_new] = by_name_.try_emplace(KeyOf(kernel), kernels_.size());
    if (is_new) {
      kernels_.push_back(kernel);
      continue;
    }
    KernelReport& merged = kernels_[known->second];
    merged.count += kernel.count;
    merged.durations.Merge(kernel.durations);
  }
}

void PageKernels::AddCounters(const ProcessReport& process) {
  // Beyond this many, values of a kernel are from many processes that do the same.
  constexpr size_t kMaxPerKernel = 16;
  for (const auto& [plan_id, plan] : process.plans) {
    for (const KernelCounters& kernel : plan.kernels) {
      const int index = IndexOf(process, kernel.kernel_id);
      if (index == kOthers) continue;
      Json& list = counters_[static_cast<size_t>(index)];
      if (list.size() < kMaxPerKernel)
        list.push_back(CountersOf(process, plan_id, kernel));
    }
  }
}

int PageKernels::IndexOf(const ProcessReport& process, uint32_t kernel_id) const {
  const auto kernel = process.kernels.find(kernel_id);
  if (kernel == process.kernels.end()) return kOthers;
  const auto known = by_name_.find(KeyOf(kernel->second));
  if (known == by_name_.end() || known->second >= listed_) return kOthers;
  return static_cast<int>(known->second);
}

Json PageKernels::List(const KernelGroups& groups) const {
  Json list = Json::array();
  for (size_t i = 0; i < listed_; ++i) {
    const KernelReport& kernel = kernels_[i];
    Json json = DurationsJson(kernel.durations);
    json["name"] = TerminalSafe(KeyOf(kernel));
    // Only where it differs from the displayed name.
    if (kernel.kernel.name() != kernel.name) {
      json["mangled"] = TerminalSafe(kernel.kernel.name());
    }
    json["count"] = kernel.count;
    json["registers"] = {kernel.kernel.sgprs(), kernel.kernel.arch_vgprs(),
                         kernel.kernel.accum_vgprs()};
    json["lds"] = kernel.kernel.lds_bytes();
    if (!groups.empty()) {
      json["group"] = std::string(groups.Find(kernel.name, kernel.kernel.name()));
    }
    if (!counters_[i].empty()) json["counters"] = counters_[i];
    list.push_back(std::move(json));
  }
  return list;
}

Json PageKernels::Others() const {
  if (listed_ == kernels_.size()) return nullptr;
  uint64_t count = 0;
  DurationHistogram durations;
  for (size_t i = listed_; i < kernels_.size(); ++i) {
    count += kernels_[i].count;
    durations.Merge(kernels_[i].durations);
  }
  Json json = DurationsJson(durations);
  json["kernels"] = kernels_.size() - listed_;
  json["count"] = count;
  return json;
}

}  // namespace rocattach
