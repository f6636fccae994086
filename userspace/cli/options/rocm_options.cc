#include "userspace/cli/options/rocm_options.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace rocattach {
namespace {

constexpr char kRocprofv3[] = "rocprofv3";
constexpr char kCompute[] = "rocprof-compute";

struct RocmOption {
  // Or the beginning of several names, if it ends in '-'.
  absl::string_view name;
  absl::string_view program;
  absl::string_view instead;
};

constexpr absl::string_view kNoThreadTrace = "no thread traces are recorded";
constexpr absl::string_view kNoSampling = "programs are not sampled";
constexpr absl::string_view kAllHsa =
    "--hsa-trace records the calls of all HSA tables; --api-function selects some";
constexpr absl::string_view kAllHip =
    "--hip-trace records calls of HIP's compiler interface too; --api-function selects "
    "some";
constexpr absl::string_view kReport =
    "'rocattach report FILE' prints summaries, with --json for programs";
constexpr absl::string_view kNames =
    "recordings have both names of each kernel; outputs show the demangled one";
constexpr absl::string_view kPerfetto =
    "'rocattach convert -f pftrace' writes the trace, and needs no buffers";
constexpr absl::string_view kList =
    "'rocattach counters' lists counters, metrics, sets and blocks";
constexpr absl::string_view kMessages =
    "-q leaves out all but problems; 'rocattach doctor' finds causes";
constexpr absl::string_view kNoRoofline = "peak rates are not measured";
constexpr absl::string_view kNoStreaming =
    "counters are not streamed; --device-samples samples them";
constexpr absl::string_view kNoReplay =
    "kernels are not run again; several --pmc measure different dispatches of a kernel";
constexpr absl::string_view kFilter =
    "--kernel-include-regex and --dispatch-range of 'rocattach-watch --pmc' select "
    "dispatches";

constexpr RocmOption kOptions[] = {
    {"--att", kRocprofv3, kNoThreadTrace},
    {"--advanced-thread-trace", kRocprofv3, kNoThreadTrace},
    {"--att-", kRocprofv3, kNoThreadTrace},
    {"--pc-sampling-", kRocprofv3, kNoSampling},
    {"--spm", kRocprofv3, kNoStreaming},
    {"--spm-", kRocprofv3, kNoStreaming},
    {"--kfd-trace", kRocprofv3,
     "events of the kernel driver are not recorded; --metrics-listen has what it says "
     "of "
     "processes"},
    {"--hip-graph-trace", kRocprofv3,
     "the kernels of a graph are recorded as dispatches, and its launch by "
     "--hip-trace"},
    {"--hip-event-trace", kRocprofv3, "--hip-trace records calls that use events"},
    {"--rocshmem-trace", kRocprofv3, "calls of rocSHMEM are not recorded"},
    {"--hipfile-trace", kRocprofv3, "calls of hipFile are not recorded"},
    {"--ompt-trace", kRocprofv3, "calls of OpenMP's tools interface are not recorded"},
    {"--replay-mode", kRocprofv3, kNoReplay},
    {"--kernel-replay-beta-enabled", kRocprofv3, kNoReplay},
    {"--kokkos-trace", kRocprofv3,
     "calls of Kokkos are not recorded; ROCTx markers are, with --marker-trace"},
    {"--rocdecode-trace", kRocprofv3, "calls of rocDecode are not recorded"},
    {"--rocjpeg-trace", kRocprofv3, "calls of rocJPEG are not recorded"},
    {"--hip-compiler-trace", kRocprofv3, kAllHip},
    {"--hsa-core-trace", kRocprofv3, kAllHsa},
    {"--hsa-amd-trace", kRocprofv3, kAllHsa},
    {"--hsa-image-trace", kRocprofv3, kAllHsa},
    {"--hsa-finalizer-trace", kRocprofv3, kAllHsa},
    {"--summary", kRocprofv3, kReport},
    {"--summary-", kRocprofv3, kReport},
    {"--mangled-kernels", kRocprofv3, kNames},
    {"--truncate-kernels", kRocprofv3, kNames},
    {"--kernel-rename", kRocprofv3,
     "kernels keep their names; --marker-trace records the ranges they are in"},
    {"--selected-regions", kRocprofv3,
     "'rocattach session start' and 'stop' limit what is collected, or "
     "--collection-period"},
    {"--perfetto-", kRocprofv3, kPerfetto},
    {"--list-avail", kRocprofv3, kList},
    {"--group-by-queue", kRocprofv3,
     "traces are by queue; the stream of an operation is its argument hip_stream"},
    {"--log-level", kRocprofv3, kMessages},
    {"--output-config", kRocprofv3,
     "a recording says how it was made: 'rocattach dump'"},
    {"--minimum-output-data", kRocprofv3, "recordings are made whatever their size"},
    {"--disable-signal-handlers", kRocprofv3,
     "no signal handlers are installed in programs"},
    {"--preload", kRocprofv3, "nothing is preloaded into programs"},
    {"--suppress-marker-preload", kRocprofv3, "nothing is preloaded into programs"},
    {"--rocm-root", kRocprofv3, "each process uses the ROCm that it has loaded"},
    {"--sdk-", kRocprofv3, "each process uses the rocprofiler-sdk that it finds"},
    {"--profile-mpi-ranks", kRocprofv3,
     "--name, --uid and --cgroup select processes; %rank% names outputs"},
    {"--tool-version", kRocprofv3, "there is one version"},
    {"--roof-only", kCompute, kNoRoofline},
    {"--roofline-", kCompute, kNoRoofline},
    {"--mem-level", kCompute, kNoRoofline},
    {"--kernel-names", kCompute, kNoRoofline},
    {"--sort", kCompute, kNoRoofline},
    {"--kernel", kCompute, kFilter},
    {"--dispatch", kCompute, kFilter},
    {"--iteration-multiplexing", kCompute,
     "passes are always multiplexed across the dispatches of each kernel"},
    {"--list-metrics", kCompute, kList},
    {"--list-available-metrics", kCompute, kList},
    {"--list-sets", kCompute, kList},
    {"--list-blocks", kCompute, kList},
    {"--join-type", kCompute, "values of all passes are in one recording"},
    {"--subpath", kCompute, "results go to workloads/NAME/MODEL, or where --path says"},
    {"--format-rocprof-output", kCompute,
     "'rocattach convert' writes csv, rocpd and others from the recording"},
    {"--retain-rocpd-output", kCompute,
     "'rocattach convert -f rocpd' writes the database from the recording"},
    {"--rocprofiler-sdk-", kCompute,
     "each process uses the rocprofiler-sdk that it finds"},
    {"--pc-sampling", kCompute, kNoSampling},
    {"--experimental", kCompute, "what is there needs no such option"},
    {"--overwrite", kCompute,
     "a recording does not replace another one: choose a name"},
    {"--torch-trace", kCompute, "operators of PyTorch are not recorded"},
};

bool Matches(const RocmOption& known, absl::string_view option) {
  return absl::EndsWith(known.name, "-") ? absl::StartsWith(option, known.name)
                                         : option == known.name;
}

}  // namespace

std::string RocmOptionText(absl::string_view option) {
  for (const RocmOption& known : kOptions) {
    if (!Matches(known, option)) continue;
    return absl::StrCat(known.program, "'s ", option,
                        " is not available: ", known.instead);
  }
  return "";
}

}  // namespace rocattach
