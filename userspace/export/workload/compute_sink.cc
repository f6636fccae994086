#include "userspace/export/workload/compute_sink.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/file.h"
#include "userspace/base/human.h"
#include "userspace/base/status_macros.h"
#include "userspace/export/common/json_text.h"
#include "userspace/export/common/output_file.h"
#include "userspace/export/common/recording_guid.h"
#include "userspace/export/common/upstream_names.h"
#include "userspace/export/csv/csv_file.h"
#include "userspace/export/workload/compute_sysinfo.h"
#include "userspace/export/workload/gzip_file.h"
#include "userspace/export/workload/pass_completion.h"
#include "userspace/report/workload_attributes.h"

namespace rocattach {
namespace {

// The columns of rocprof-compute's query of rocpd's view counters_collection.
constexpr char kColumns[] =
    "GPU_ID,GUID,Correlation_Id,Dispatch_ID,PID,Grid_Size,Workgroup_Size,"
    "LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,Accum_VGPR,SGPR,Kernel_Name,"
    "Start_Timestamp,End_Timestamp,Kernel_ID,Counter_Name,Counter_Value\n";

// Maximum number of processes whose workload is written.
constexpr size_t kMostWorkloads = 1024;

// rocprof-compute requests the sum over the instances of these blocks under a separate
// name, as rocprofiler-sdk provides it.
bool IsSummedByName(absl::string_view counter) {
  for (const absl::string_view block :
       {"TA_", "TD_", "TCP_", "TCA_", "TCC_", "GL1C_", "GL2C_"}) {
    if (absl::StartsWith(counter, block)) return true;
  }
  return false;
}

std::string LastPart(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string Parent(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

class ComputeSink : public ExportSink {
 public:
  ComputeSink(const std::string& base, const ExportOptions& options)
      : options_(options) {
    workload_.directory = options.workload_directory.empty()
                              ? absl::StrCat(base, "_workload")
                              : options.workload_directory;
    workload_.name =
        options.workload_name.empty() ? LastPart(base) : options.workload_name;
  }

  absl::Status OnCountedDispatch(const ExportProcess& process,
                                 const CountedDispatch& counted) override {
    // Without size and times a row would be wrong; the exporter counts such dispatches.
    if (counted.dispatch == nullptr) return absl::OkStatus();
    const v1::Agent* gpu = process.FindAgent(counted.dispatch->agent_id);
    if (gpu == nullptr || (begun() && gpu->name() != architecture_)) {
      ++left_out_;
      return absl::OkStatus();
    }
    if (!begun()) RETURN_IF_ERROR(Begin(process, *gpu));
    MeasuredDispatch measured;
    AppendColumns(process, *gpu, *counted.dispatch, &measured.text);
    for (const CounterRecord& value : counted.values) {
      const absl::string_view name = process.CounterName(value.plan, value.counter);
      measured.values.emplace_back(std::string(name), value.sum);
      if (value.instances > 1 && IsSummedByName(name)) {
        measured.values.emplace_back(absl::StrCat(name, "_sum"), value.sum);
      }
    }
    ++dispatches_;
    rows_.clear();
    AppendRows(measured, &rows_);
    RETURN_IF_ERROR(compressed_->Append(rows_));
    const CounterRecord& first = counted.values[0];
    return AddCompleted(
        completion_.Add(absl::StrCat(process.number(), "/", first.plan, "/",
                                     KernelText(process, counted.dispatch->kernel_id)),
                        first.pass, Passes(process, first.plan), std::move(measured)));
  }

  absl::Status EndProcess(const ExportProcess& process) override {
    AddWorkload(process);
    if (!begun()) return absl::OkStatus();
    for (const auto& [id, plan] : process.plans()) {
      for (const v1::SessionArchitecture& of : plan.architectures()) {
        multiplexed_ |= of.passes_size() > 1;
      }
    }
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    if (!begun()) return absl::OkStatus();
    RETURN_IF_ERROR(AddCompleted(completion_.Finish()));
    RETURN_IF_ERROR(WriteConfiguration());
    // The file that is analyzed gets its final name last.
    for (OutputFile* file : {sysinfo_.get(), configuration_.get(), values_.get()}) {
      RETURN_IF_ERROR(file->Complete());
    }
    return compressed_->Complete();
  }

  void WritePartial(absl::Span<const ExportProcess* const> open) override {
    if (sysinfo_ == nullptr) return;
    for (const ExportProcess* process : open) (void)EndProcess(*process);
    (void)AddCompleted(completion_.Finish());
    (void)WriteConfiguration();
    for (OutputFile* file : {sysinfo_.get(), configuration_.get(), values_.get()}) {
      (void)file->Flush();
    }
    (void)compressed_->Stop();
  }

  std::vector<std::string> Files() const override {
    std::vector<std::string> files;
    for (const OutputFile* file :
         {sysinfo_.get(), configuration_.get(), values_.get()}) {
      if (file != nullptr) files.push_back(file->name());
    }
    if (compressed_ != nullptr) files.push_back(compressed_->name());
    return files;
  }

  std::vector<std::string> Omissions() const override {
    if (!begun()) {
      return {absl::StrCat(workload_.directory,
                           " was not written: no counter of a dispatch was measured, "
                           "and rocprof-compute needs some")};
    }
    if (left_out_ == 0) return {};
    return {absl::StrCat(HumanCount(left_out_),
                         " counted dispatches on other GPUs than ", architecture_,
                         " are not in ", workload_.directory)};
  }

 private:
  bool begun() const { return sysinfo_ != nullptr; }

  std::string Path(const char* name) const {
    return absl::StrCat(workload_.directory, "/", name);
  }

  absl::Status Begin(const ExportProcess& process, const v1::Agent& gpu) {
    architecture_ = gpu.name();
    workload_.command = CommandLine(process.process());
    RETURN_IF_ERROR(MakeDirectories(workload_.directory, 0755));
    ASSIGN_OR_RETURN(configuration_,
                     OutputFile::Create(Path("profiling_config.yaml"), options_));
    ASSIGN_OR_RETURN(values_, OutputFile::Create(Path("pmc_perf.csv"), options_));
    ASSIGN_OR_RETURN(compressed_,
                     GzipFile::Create(Path("results_pmc_perf.csv.gz"), options_));
    RETURN_IF_ERROR(values_->Append(kColumns));
    RETURN_IF_ERROR(compressed_->Append(kColumns));
    ASSIGN_OR_RETURN(sysinfo_, OutputFile::Create(Path("sysinfo.csv"), options_));
    return sysinfo_->Append(ComputeSysinfo(process, gpu, workload_));
  }

  // An empty cell would exclude the row from the analysis.
  static std::string KernelText(const ExportProcess& process, uint32_t kernel_id) {
    const ExportKernel* kernel = process.FindKernel(kernel_id);
    return kernel == nullptr || kernel->display_name.empty()
               ? absl::StrCat("unknown kernel ", kernel_id)
               : kernel->display_name;
  }

  // Number of passes of the plan on this architecture.
  size_t Passes(const ExportProcess& process, uint32_t plan) const {
    const auto known = process.plans().find(plan);
    if (known == process.plans().end()) return 1;
    for (const v1::SessionArchitecture& of : known->second.architectures()) {
      if (of.name() == architecture_) return static_cast<size_t>(of.passes_size());
    }
    return 1;
  }

  // Appends the columns that the rows of a dispatch share. Its Dispatch_ID is counted
  // over all processes, because rows are grouped by it.
  void AppendColumns(const ExportProcess& process, const v1::Agent& gpu,
                     const rocattach_dispatch& r, std::string* out) {
    const ExportKernel* kernel = process.FindKernel(r.kernel_id);
    const v1::Kernel none;
    const v1::Kernel& symbol = kernel == nullptr ? none : kernel->kernel;
    CsvRow row(out);
    row.Number(gpu.node_id())
        .Text(GuidOf(process))
        .Number(r.correlation_id)
        .Number(dispatches_)
        .Number(process.pid())
        .Number(uint64_t{r.grid_x} * r.grid_y * r.grid_z)
        .Number(uint64_t{r.workgroup_x} * r.workgroup_y * r.workgroup_z)
        .Number(r.lds_bytes)
        .Number(r.scratch_bytes)
        .Number(symbol.arch_vgprs())
        .Number(symbol.accum_vgprs())
        .Number(symbol.sgprs())
        .Text(KernelText(process, r.kernel_id))
        .Number(HasTimes(r) ? r.start_ns : r.enqueue_ns)
        .Number(HasTimes(r) ? r.end_ns : r.enqueue_ns)
        .Number(r.kernel_id);
  }

  static void AppendRows(const MeasuredDispatch& dispatch, std::string* out) {
    for (const auto& [counter, value] : dispatch.values) {
      out->append(dispatch.text);
      CsvRow(out).Text(counter);
      AppendReal(value, out);
      out->push_back('\n');
    }
  }

  absl::Status AddCompleted(const std::vector<MeasuredDispatch>& dispatches) {
    for (const MeasuredDispatch& dispatch : dispatches) {
      rows_.clear();
      AppendRows(dispatch, &rows_);
      RETURN_IF_ERROR(values_->Append(rows_));
    }
    return absl::OkStatus();
  }

  const std::string& GuidOf(const ExportProcess& process) {
    if (guid_process_ != process.number()) {
      guid_process_ = process.number();
      guid_ = RecordingGuid(process);
    }
    return guid_;
  }

  // Adds the workload of the process (pod, container or job) as a line of YAML.
  void AddWorkload(const ExportProcess& process) {
    const auto workload = WorkloadAttributes(process.process().workload());
    if (workload.empty() || workloads_ == kMostWorkloads) return;
    ++workloads_;
    absl::StrAppend(&process_workloads_, "- {\"process.pid\": ", process.pid());
    for (const auto& [name, value] : workload) {
      absl::StrAppend(&process_workloads_, ", \"", name, "\": ");
      AppendJsonString(value, &process_workloads_);
    }
    process_workloads_ += "}\n";
  }

  // Writes the options of rocprof-compute that would have had the same effect; its
  // analysis reads format_rocprof_output and iteration_multiplexing.
  absl::Status WriteConfiguration() {
    std::string text;
    auto line = [&text](absl::string_view key, absl::string_view value) {
      absl::StrAppend(&text, key, ": ", value, "\n");
    };
    auto quoted = [](absl::string_view value) {
      std::string json;  // JSON is also valid YAML
      AppendJsonString(value, &json);
      return json;
    };
    line("attach_duration_msec", "null");
    line("attach_pid", "null");
    line("dispatch", "null");
    line("filter_blocks", "[]");
    line("format_rocprof_output", "rocpd");
    line("iteration_multiplexing", multiplexed_ ? "kernel" : "null");
    line("join_type", "grid");
    line("kernel", "null");
    line("kokkos_trace", "false");
    line("membw_analysis", "false");
    line("mode", "profile");
    line("name", quoted(workload_.name));
    line("no_roof", "true");
    line("output_directory", quoted(workload_.directory));
    line("path", quoted(Parent(workload_.directory)));
    line("pc_sampling", "false");
    line("quiet", "false");
    line("remaining", quoted(workload_.command));
    line("roof_only", "false");
    line("set_selected", "null");
    line("spatial_multiplexing", "null");
    line("torch_trace", "false");
    line("verbose", "0");
    // Not a key of rocprof-compute, which ignores unknown keys.
    if (!process_workloads_.empty()) line("rocattach_workloads", "");
    text += process_workloads_;
    return configuration_->Append(text);
  }

  const ExportOptions options_;
  ComputeWorkload workload_;
  std::string process_workloads_;  // as lines of YAML
  size_t workloads_ = 0;           // number of these lines
  std::string architecture_;
  std::unique_ptr<OutputFile> sysinfo_, configuration_, values_;
  std::unique_ptr<GzipFile> compressed_;
  std::string rows_;  // kept so that rows allocate little
  PassCompletion completion_;
  uint32_t guid_process_ = 0;
  std::string guid_;
  uint64_t dispatches_ = 0;
  uint64_t left_out_ = 0;
  bool multiplexed_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ExportSink>> MakeComputeSink(
    const std::string& base, const ExportOptions& options) {
  return std::make_unique<ComputeSink>(base, options);
}

}  // namespace rocattach
