#include "userspace/export/csv/csv_sink.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "userspace/abi/hip_stream.h"
#include "userspace/base/status_macros.h"
#include "userspace/export/common/named_statistics.h"
#include "userspace/export/common/upstream_names.h"
#include "userspace/export/csv/csv_agents.h"
#include "userspace/export/csv/csv_columns.h"
#include "userspace/export/csv/csv_file.h"
#include "userspace/report/workload_attributes.h"

namespace rocattach {
namespace {

// rocprofv3's *_stats.csv: a row for each name that has calls, longest total first. No
// rows: no file.
absl::Status WriteStatistics(const NamedStatistics::Names& names, CsvFile* file) {
  using Entry = NamedStatistics::Names::value_type;
  std::vector<const Entry*> rows;
  double total = 0;
  for (const Entry& entry : names) {
    if (entry.second.calls() == 0) continue;
    rows.push_back(&entry);
    total += static_cast<double>(entry.second.total());
  }
  if (rows.empty()) return absl::OkStatus();
  std::stable_sort(rows.begin(), rows.end(), [](const Entry* a, const Entry* b) {
    return a->second.total() > b->second.total();
  });
  RETURN_IF_ERROR(file->Begin());
  for (const Entry* entry : rows) {
    const DurationStatistics& s = entry->second;
    const double share = total > 0 ? 100 * static_cast<double>(s.total()) / total : 0;
    file->Row()
        .Text(entry->first)
        .Number(s.calls())
        .Number(s.total())
        .Real(s.average())
        .Real(share)
        .Number(s.min())
        .Number(s.max())
        .Real(s.deviation())
        .End();
    RETURN_IF_ERROR(file->Written());
  }
  return absl::OkStatus();
}

// The product of three counts of work-items or work-groups.
template <typename Number>
uint64_t Volume(Number x, Number y, Number z) {
  return uint64_t{x} * y * z;
}

// A kernel's cells in every row of its dispatches.
struct KernelCells {
  absl::string_view name;
  uint32_t vgprs = 0, accum_vgprs = 0, sgprs = 0;
};

KernelCells CellsOf(const ExportProcess& process, uint32_t kernel_id) {
  const ExportKernel* kernel = process.FindKernel(kernel_id);
  if (kernel == nullptr) return {};
  return {kernel->display_name, kernel->kernel.arch_vgprs(),
          kernel->kernel.accum_vgprs(), kernel->kernel.sgprs()};
}

class CsvSink : public ExportSink {
 public:
  CsvSink(const std::string& base, const ExportOptions& options)
      : base_(base), options_(options) {}

  absl::Status OnAgent(const ExportProcess& process, const v1::Agent&) override {
    // Each new agent may change the numbers of the others.
    agent_texts_.clear();
    for (const auto& [id, agent] : process.agents()) {
      agent_texts_[id] = AgentText(process.PlaceOf(id), options_.agent_index);
    }
    return absl::OkStatus();
  }

  absl::Status OnDispatches(const ExportProcess& process,
                            absl::Span<const rocattach_dispatch> records) override {
    if (records.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(kernel_trace_.Begin());
    for (const rocattach_dispatch& r : records) {
      AddDispatch(process, r);
      RETURN_IF_ERROR(kernel_trace_.Written());
    }
    return absl::OkStatus();
  }

  absl::Status OnCopies(const ExportProcess& process,
                        absl::Span<const rocattach_copy> records) override {
    if (records.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(copy_trace_.Begin());
    for (const rocattach_copy& r : records) {
      const absl::string_view direction = CopyDirectionName(r.direction);
      copy_trace_.Row()
          .Text(kMemoryCopyKind)
          .Text(direction)
          .Number(HipStreamId(r))
          .Text(CopyAgent(process, r.src_agent_id))
          .Text(CopyAgent(process, r.dst_agent_id))
          .Number(r.correlation_id)
          .Number(r.start_ns)
          .Number(r.end_ns)
          .End();
      if (HasTimes(r)) {
        copies_.Of(direction)->Add(r.end_ns - r.start_ns);
      }
      RETURN_IF_ERROR(copy_trace_.Written());
    }
    return absl::OkStatus();
  }

  absl::Status OnCountedDispatch(const ExportProcess& process,
                                 const CountedDispatch& counted) override {
    RETURN_IF_ERROR(counters_.Begin());
    rocattach_dispatch unknown = {};
    const CounterRecord& first = counted.values[0];
    unknown.kernel_id = first.kernel_id;
    unknown.agent_id = first.agent_id;
    const rocattach_dispatch& r =
        counted.dispatch == nullptr ? unknown : *counted.dispatch;
    for (const CounterRecord& value : counted.values) {
      AddCounter(process, counted.correlation_id, r, value);
      RETURN_IF_ERROR(counters_.Written());
    }
    return absl::OkStatus();
  }

  absl::Status OnApiCalls(const ExportProcess& process,
                          absl::Span<const ApiCallRecord> records) override {
    for (const ApiCallRecord& r : records) {
      if (r.domain >= apis_.size()) continue;
      Api& api = apis_[r.domain];
      RETURN_IF_ERROR(api.trace.Begin());
      // A marker has its message in place of its function.
      const bool message = !r.text.empty() && (r.flags & kApiCallArguments) == 0;
      const absl::string_view name =
          message ? r.text : process.FunctionName(r.domain, r.function);
      api.trace.Row()
          .Text(ApiKindName(r.domain, r.function))
          .Text(name)
          .Number(process.pid())
          .Number(r.tid)
          .Number(r.correlation_id)
          .Number(r.begin_ns)
          .Number(r.end_ns)
          .End();
      if (r.end_ns >= r.begin_ns) api.calls.Of(name)->Add(r.end_ns - r.begin_ns);
      RETURN_IF_ERROR(api.trace.Written());
    }
    return absl::OkStatus();
  }

  absl::Status OnMemory(const ExportProcess&,
                        absl::Span<const MemoryRecord> records) override {
    for (const MemoryRecord& r : records) {
      const absl::string_view operation = MemoryOperationName(r.operation);
      // The runtime does not report the agent when memory is freed.
      const absl::string_view agent = r.agent_id == 0 ? "" : AgentOf(r.agent_id);
      CsvFile& file = IsScratch(r.operation) ? scratch_trace_ : memory_trace_;
      RETURN_IF_ERROR(file.Begin());
      if (IsScratch(r.operation)) {
        file.Row()
            .Text(kScratchMemoryKind)
            .Text(operation)
            .Text(agent)
            .Number(r.queue_id)
            .Number(r.tid)
            .Number(r.scratch_flags)
            .Number(r.begin_ns)
            .Number(r.end_ns)
            .Number(r.bytes)
            .End();
      } else {
        file.Row()
            .Text(kMemoryAllocationKind)
            .Text(operation)
            .Text(agent)
            .Number(r.bytes)
            .Text(absl::StrFormat("0x%016x", r.address))
            .Number(r.correlation_id)
            .Number(r.begin_ns)
            .Number(r.end_ns)
            .End();
      }
      NamedStatistics& statistics = IsScratch(r.operation) ? scratch_ : memory_;
      if (r.end_ns >= r.begin_ns) statistics.Of(operation)->Add(r.end_ns - r.begin_ns);
      RETURN_IF_ERROR(file.Written());
    }
    return absl::OkStatus();
  }

  absl::Status EndProcess(const ExportProcess& process) override {
    RETURN_IF_ERROR(WriteAgents(process, &agent_info_));
    RETURN_IF_ERROR(WriteWorkload(process));
    for (auto& [kernel_id, statistics] : by_kernel_) {
      kernels_.Of(CellsOf(process, kernel_id).name)->Merge(statistics);
    }
    RETURN_IF_ERROR(WriteStatistics(kernels_.names(), &kernel_stats_));
    RETURN_IF_ERROR(WriteStatistics(copies_.names(), &copy_stats_));
    NamedStatistics domains;
    domains.Of(kKernelDispatchKind)->Merge(kernels_.Total());
    domains.Of(kMemoryCopyKind)->Merge(copies_.Total());
    RETURN_IF_ERROR(WriteStatistics(memory_.names(), &memory_stats_));
    RETURN_IF_ERROR(WriteStatistics(scratch_.names(), &scratch_stats_));
    domains.Of(kMemoryAllocationKind)->Merge(memory_.Total());
    domains.Of(kScratchMemoryKind)->Merge(scratch_.Total());
    for (Api& api : apis_) {
      RETURN_IF_ERROR(WriteStatistics(api.calls.names(), &api.stats));
      domains.Of(api.domain)->Merge(api.calls.Total());
    }
    return WriteStatistics(domains.names(), &domain_stats_);
  }

  absl::Status Flush() override {
    return ForFiles([](CsvFile* file) { return file->Flush(); });
  }

  absl::Status Finish() override {
    return ForFiles([](CsvFile* file) { return file->Complete(); });
  }

  std::vector<std::string> Files() const override {
    std::vector<std::string> names;
    (void)const_cast<CsvSink*>(this)->ForFiles([&](CsvFile* file) {
      if (file->begun()) names.push_back(file->name());
      return absl::OkStatus();
    });
    return names;
  }

 private:
  struct Api {
    CsvFile trace, stats;
    absl::string_view domain;  // in domain_stats
    NamedStatistics calls;
  };

  CsvFile File(const CsvDefinition& layout) const {
    return CsvFile(base_, layout.stem, layout.columns, options_);
  }
  CsvFile StatsFile(absl::string_view stem) const {
    return CsvFile(base_, stem, kStatsColumns, options_);
  }

  absl::Status WriteWorkload(const ExportProcess& process) {
    for (const auto& [name, value] : WorkloadAttributes(process.process().workload())) {
      RETURN_IF_ERROR(workload_info_.Begin());
      workload_info_.Row().Number(process.pid()).Text(name).Text(value).End();
      RETURN_IF_ERROR(workload_info_.Written());
    }
    return absl::OkStatus();
  }

  template <typename F>
  absl::Status ForFiles(F f) {
    for (CsvFile* file :
         {&kernel_trace_, &counters_, &copy_trace_, &memory_trace_, &scratch_trace_,
          &agent_info_, &workload_info_, &kernel_stats_, &copy_stats_, &memory_stats_,
          &scratch_stats_, &domain_stats_}) {
      RETURN_IF_ERROR(f(file));
    }
    for (Api& api : apis_) {
      RETURN_IF_ERROR(f(&api.trace));
      RETURN_IF_ERROR(f(&api.stats));
    }
    return absl::OkStatus();
  }

  absl::string_view AgentOf(uint32_t agent_id) const {
    const auto text = agent_texts_.find(agent_id);
    return text == agent_texts_.end() ? "Agent 0" : absl::string_view(text->second);
  }
  // Host memory that no agent owns is attributed to the first CPU.
  absl::string_view CopyAgent(const ExportProcess& process, uint32_t agent_id) const {
    if (agent_id != 0) return AgentOf(agent_id);
    const v1::Agent* cpu = process.FirstCpu();
    return AgentOf(cpu == nullptr ? 0 : cpu->id());
  }

  void AddDispatch(const ExportProcess& process, const rocattach_dispatch& r) {
    const KernelCells kernel = CellsOf(process, r.kernel_id);
    kernel_trace_.Row()
        .Text(kKernelDispatchKind)
        .Text(AgentOf(r.agent_id))
        .Number(r.queue_id)
        .Number(HipStreamId(r))
        .Number(r.tid)
        .Number(r.dispatch_id)
        .Number(r.kernel_id)
        .Text(kernel.name)
        .Number(r.correlation_id)
        .Number(r.start_ns)
        .Number(r.end_ns)
        .Number(LdsBlockSize(r.lds_bytes))
        .Number(r.scratch_bytes)
        .Number(kernel.vgprs)
        .Number(kernel.accum_vgprs)
        .Number(kernel.sgprs)
        .Number(r.workgroup_x)
        .Number(r.workgroup_y)
        .Number(r.workgroup_z)
        .Number(r.grid_x)
        .Number(r.grid_y)
        .Number(r.grid_z)
        .End();
    if (!HasTimes(r)) return;
    // A damaged input may contain any number of kernels.
    const bool room = by_kernel_.size() < NamedStatistics::kMaxNames;
    by_kernel_[room ? r.kernel_id : 0].Add(r.end_ns - r.start_ns);
  }

  void AddCounter(const ExportProcess& process, uint64_t correlation_id,
                  const rocattach_dispatch& r, const CounterRecord& value) {
    const KernelCells kernel = CellsOf(process, r.kernel_id);
    counters_.Row()
        .Number(correlation_id)
        .Number(r.dispatch_id)
        .Text(AgentOf(r.agent_id))
        .Number(r.queue_id)
        .Number(process.pid())
        .Number(r.tid)
        .Number(Volume(r.grid_x, r.grid_y, r.grid_z))
        .Number(r.kernel_id)
        .Text(kernel.name)
        .Number(Volume(r.workgroup_x, r.workgroup_y, r.workgroup_z))
        .Number(LdsBlockSize(r.lds_bytes))
        .Number(r.scratch_bytes)
        .Number(kernel.vgprs)
        .Number(kernel.accum_vgprs)
        .Number(kernel.sgprs)
        .Text(process.CounterName(value.plan, value.counter))
        .Real(value.sum)
        .Number(r.start_ns)
        .Number(r.end_ns)
        .End();
  }

  const std::string base_;
  const ExportOptions options_;
  CsvFile kernel_trace_ = File(kKernelTraceCsv);
  CsvFile counters_ = File(kCounterCollectionCsv);
  CsvFile copy_trace_ = File(kMemoryCopyTraceCsv);
  CsvFile memory_trace_ = File(kMemoryAllocationTraceCsv);
  CsvFile scratch_trace_ = File(kScratchMemoryTraceCsv);
  CsvFile agent_info_ = File(kAgentInfoCsv);
  CsvFile workload_info_ = File(kWorkloadInfoCsv);
  CsvFile kernel_stats_ = StatsFile("kernel_stats");
  CsvFile copy_stats_ = StatsFile("memory_copy_stats");
  CsvFile memory_stats_ = StatsFile("memory_allocation_stats");
  CsvFile scratch_stats_ = StatsFile("scratch_memory_stats");
  CsvFile domain_stats_ = StatsFile("domain_stats");
  std::array<Api, 4> apis_ = {{
      // by v1::ApiDomain
      {File(kHsaApiTraceCsv), StatsFile("hsa_api_stats"), "HSA_API", {}},
      {File(kHipApiTraceCsv), StatsFile("hip_api_stats"), "HIP_API", {}},
      {File(kMarkerApiTraceCsv), StatsFile("marker_api_stats"), "MARKER_API", {}},
      {File(kRcclApiTraceCsv), StatsFile("rccl_api_stats"), "RCCL_API", {}},
  }};
  absl::flat_hash_map<uint32_t, std::string> agent_texts_;
  absl::flat_hash_map<uint32_t, DurationStatistics> by_kernel_;
  NamedStatistics kernels_, copies_, memory_, scratch_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ExportSink>> MakeCsvSink(const std::string& base,
                                                        const ExportOptions& options) {
  return std::make_unique<CsvSink>(base, options);
}

}  // namespace rocattach
