#include "userspace/cli/options/session_arguments.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"
#include "userspace/counters/document.h"
#include "userspace/counters/pass_planner.h"
#include "userspace/counters/request.h"
#include "userspace/session/input_file.h"
#include "userspace/session/kernel_filter.h"
#include "userspace/session/number_ranges.h"

namespace rocattach {
namespace {

// The combination of the options and the input file.
struct Collected {
  CounterOptions counters;
  bool keep_groups = false;
  uint64_t group_interval = 1;
  Selection selection;
  std::vector<CollectionPeriod> periods;
  std::set<TraceDomain> api_domains;
  std::set<TraceDomain> implied_domains;  // may overlap with api_domains
  bool kernel_trace = false;

  bool dispatch_filters() const {
    return !selection.kernel_include.empty() || !selection.kernel_exclude.empty() ||
           !selection.iterations.empty() || !selection.dispatches.empty();
  }
};

// Adds a trace by the name that rocprofv3 has for it.
void AddTrace(const std::string& name, Collected* collected,
              std::vector<std::string>* ignored) {
  if (name == "sys_trace" || name == "runtime_trace") {
    collected->kernel_trace = true;
    // Copies are recorded wherever dispatches are.
    collected->api_domains.insert(TraceDomain::kMemoryCopies);
    // Only implied: a process that cannot provide one is recorded without it.
    collected->implied_domains.insert(
        {TraceDomain::kHipApi, TraceDomain::kMarkers, TraceDomain::kMemoryAllocations,
         TraceDomain::kScratchMemory, TraceDomain::kRcclApi});
    if (name == "sys_trace") collected->implied_domains.insert(TraceDomain::kHsaApi);
  } else if (absl::StartsWith(name, "hsa_")) {
    collected->api_domains.insert(TraceDomain::kHsaApi);
  } else if (absl::StartsWith(name, "hip_")) {
    collected->api_domains.insert(TraceDomain::kHipApi);
  } else if (name == "marker_trace") {
    collected->api_domains.insert(TraceDomain::kMarkers);
  } else if (name == "memory_copy_trace") {
    collected->api_domains.insert(TraceDomain::kMemoryCopies);
  } else if (name == "memory_allocation_trace") {
    collected->api_domains.insert(TraceDomain::kMemoryAllocations);
  } else if (name == "scratch_memory_trace") {
    collected->api_domains.insert(TraceDomain::kScratchMemory);
  } else if (name == "rccl_trace") {
    collected->api_domains.insert(TraceDomain::kRcclApi);
  } else if (name == "kernel_trace") {
    collected->kernel_trace = true;
  } else if (name != "stats") {  // reports have statistics anyway
    ignored->push_back(name);
  }
}

// The command line wins over the file.
void ApplyOptions(const SessionArguments& args, InputJob* job) {
  if (!args.include.empty()) job->kernel_include = args.include;
  if (!args.exclude.empty()) job->kernel_exclude = args.exclude;
  if (!args.iterations.empty()) job->iterations.clear();
  if (!args.periods.empty()) job->periods.clear();
}

// Jobs that differ in one of these cannot be collected together: a session has one
// filter, and passes are multiplexed across the dispatches that match it.
bool SameRun(const InputJob& a, const InputJob& b) {
  return a.kernel_include == b.kernel_include && a.kernel_exclude == b.kernel_exclude &&
         a.iterations == b.iterations && a.periods == b.periods;
}

void AddJob(const InputJob& job, Collected* collected,
            std::vector<std::string>* ignored) {
  collected->selection.kernel_include = job.kernel_include;
  collected->selection.kernel_exclude = job.kernel_exclude;
  collected->selection.iterations = job.iterations;
  collected->periods = job.periods;
  for (const CounterNames& group : job.groups) collected->counters.pmc.push_back(group);
  collected->keep_groups |= job.keep_groups;
  collected->group_interval = std::max(collected->group_interval, job.group_interval);
  for (const std::string& trace : job.traces) AddTrace(trace, collected, ignored);
  ignored->insert(ignored->end(), job.ignored.begin(), job.ignored.end());
}

absl::Status AddCounterFile(const std::string& path, CounterCatalog* catalog,
                            SessionSpec* session) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(path, kMaxDocumentBytes));
  RETURN_IF_ERROR(catalog->Add(text, path));
  session->counter_files.push_back({path, std::move(text)});
  return absl::OkStatus();
}

// The jobs of each run, in the file's order. Without a file there is one run, of one
// job that requests nothing.
using Runs = std::vector<std::vector<InputJob>>;

absl::StatusOr<Runs> ReadRuns(const SessionArguments& args) {
  if (args.input.empty()) {
    InputJob job;
    ApplyOptions(args, &job);
    return Runs{{std::move(job)}};
  }
  ASSIGN_OR_RETURN(std::vector<InputJob> jobs, ReadInputFile(args.input));
  Runs runs;
  for (InputJob& job : jobs) {
    ApplyOptions(args, &job);
    auto run = std::find_if(runs.begin(), runs.end(), [&](const auto& others) {
      return SameRun(others.front(), job);
    });
    if (run == runs.end()) run = runs.insert(run, std::vector<InputJob>());
    run->push_back(std::move(job));
  }
  return runs;
}

// The prefix tells which API a function such as "hsa_init" or "hipMalloc" is in.
absl::Status AddFunction(const std::string& name, Collected* collected) {
  if (absl::StartsWith(name, "hsa_")) {
    collected->selection.hsa_functions.push_back(name);
    collected->api_domains.insert(TraceDomain::kHsaApi);
  } else if (absl::StartsWith(name, "hip") || absl::StartsWith(name, "__hip")) {
    collected->selection.hip_functions.push_back(name);
    collected->api_domains.insert(TraceDomain::kHipApi);
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "--api-function ", name,
        ": names of HSA functions begin with \"hsa_\", those of HIP with \"hip\""));
  }
  return absl::OkStatus();
}

absl::Status AddFilters(const SessionArguments& args, Collected* collected) {
  Selection& selection = collected->selection;
  if (!args.iterations.empty()) {
    ASSIGN_OR_RETURN(selection.iterations, ParseRanges(args.iterations));
  }
  if (!args.dispatches.empty()) {
    ASSIGN_OR_RETURN(selection.dispatches, ParseRanges(args.dispatches));
  }
  selection.gpus = args.gpus;
  for (const std::string& name : args.api_functions) {
    RETURN_IF_ERROR(AddFunction(name, collected));
  }
  for (const std::string& text : args.periods) {
    ASSIGN_OR_RETURN(const CollectionPeriod period,
                     ParseCollectionPeriod(text, args.period_unit));
    collected->periods.push_back(period);
  }
  return KernelFilter::Create(selection.kernel_include, selection.kernel_exclude)
      .status();
}

absl::StatusOr<const ArchitectureCounters*> Named(const CounterCatalog& catalog,
                                                  const std::string& architecture) {
  const ArchitectureCounters* known = catalog.Find(architecture);
  if (known != nullptr) return known;
  return absl::InvalidArgumentError(
      absl::StrCat("unknown GPU architecture ", architecture,
                   " (--extra-counters can add one); known: ",
                   absl::StrJoin(catalog.Architectures(), ", ")));
}

// The architecture of the GPUs present, to look up sets and blocks, which depend on it.
absl::StatusOr<const ArchitectureCounters*> OnlyArchitecture(
    const CounterCatalog& catalog, const KnownArchitectures& architectures) {
  ASSIGN_OR_RETURN(const std::vector<std::string> present, architectures());
  if (present.size() == 1) return Named(catalog, present[0]);
  return absl::InvalidArgumentError(absl::StrCat(
      "--set and --block depend on the GPU architecture, and ",
      present.empty() ? "which GPUs will be used is not known"
                      : absl::StrCat("there are ", absl::StrJoin(present, " and ")),
      ": choose one with --arch (", absl::StrJoin(catalog.Architectures(), ", "), ")"));
}

absl::StatusOr<std::vector<CounterNames>> Groups(
    const CounterOptions& options, const std::string& architecture,
    const KnownArchitectures& architectures, const CounterCatalog& catalog) {
  const bool names_groups = !options.sets.empty() || !options.blocks.empty();
  if (!architecture.empty()) {
    if (options.pmc.empty() && !names_groups) {
      return absl::InvalidArgumentError(
          "--arch requires counters: specify them with --pmc, --set or --block");
    }
    ASSIGN_OR_RETURN(const auto* counters, Named(catalog, architecture));
    return ResolveCounters(*counters, options);
  }
  RETURN_IF_ERROR(CheckCounters(catalog, options));
  if (names_groups) {
    ASSIGN_OR_RETURN(const auto* counters, OnlyArchitecture(catalog, architectures));
    return ResolveCounters(*counters, options);
  }
  std::vector<CounterNames> groups;
  for (const auto& words : options.pmc) {
    CounterNames group;
    for (const std::string& word : words) {
      for (std::string& name : SplitCounters(word)) group.push_back(std::move(name));
    }
    if (!group.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

// Refuses counters that no GPU can measure in one pass here, not process by process.
absl::Status CheckSinglePass(const FilterSpec& spec, const std::string& architecture,
                             const KnownArchitectures& architectures,
                             const CounterCatalog& catalog) {
  std::vector<std::string> candidates;
  if (!architecture.empty()) {
    candidates = {architecture};
  } else {
    ASSIGN_OR_RETURN(candidates, architectures());
    std::erase_if(candidates, [&](const std::string& name) {
      return catalog.Find(name) == nullptr;
    });
    if (candidates.empty()) candidates = catalog.Architectures();
  }
  absl::Status refused;
  for (const std::string& name : candidates) {
    absl::Status status =
        PlanPasses(*catalog.Find(name), spec.counters, {true, spec.keep_groups})
            .status();
    if (status.ok()) return status;
    // An architecture that lacks a counter does not decide about passes.
    if (refused.ok() || absl::IsNotFound(refused)) refused = status;
  }
  return refused;
}

absl::Status AddCounters(const SessionArguments& args, const Collected& collected,
                         const KnownArchitectures& architectures,
                         const CounterCatalog& catalog, SessionSpec* session) {
  FilterSpec spec;
  ASSIGN_OR_RETURN(spec.counters, Groups(collected.counters, args.architecture,
                                         architectures, catalog));
  // Counters named by --pmc are required; those of sets and blocks are optional.
  CounterNames named;
  for (const auto& words : collected.counters.pmc) {
    for (const std::string& word : words) {
      for (std::string& name : SplitCounters(word)) named.push_back(std::move(name));
    }
  }
  for (const std::string& name : spec.CounterList()) {
    if (std::find(named.begin(), named.end(), name) == named.end()) {
      spec.optional.push_back(name);
    }
  }
  const bool samples = args.device_samples_msec != 0;
  if (spec.counters.empty()) {
    if (!samples && !args.single_pass && !args.counter_instances) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        samples            ? "--device-samples"
        : args.single_pass ? "--single-pass"
                           : "--counter-instances",
        " requires counters: specify them with --pmc, --set, --block or -i"));
  }
  spec.kind = samples ? FilterKind::kCountersSampler : FilterKind::kCounters;
  spec.single_pass = args.single_pass;
  spec.instances = args.counter_instances;
  spec.keep_groups = collected.keep_groups;
  spec.rotation_iterations = collected.group_interval;
  if (samples) {
    spec.sample_interval_ns =
        static_cast<uint64_t>(args.device_samples_msec) * 1'000'000;
    spec.selection.gpus = collected.selection.gpus;
  } else {
    spec.selection = collected.selection;
    spec.selection.hsa_functions.clear();
    spec.selection.hip_functions.clear();
  }
  if (spec.single_pass) {
    RETURN_IF_ERROR(CheckSinglePass(spec, args.architecture, architectures, catalog));
  }
  session->filters.push_back(std::move(spec));
  return absl::OkStatus();
}

absl::Status AddTraces(const SessionArguments& args, const Collected& collected,
                       SessionSpec* session) {
  if (collected.kernel_trace) {
    FilterSpec spec;
    spec.kind = FilterKind::kDispatchTimestamps;
    spec.selection = collected.selection;
    spec.selection.hsa_functions.clear();
    spec.selection.hip_functions.clear();
    session->filters.push_back(std::move(spec));
  }
  if (!collected.api_domains.empty()) {
    FilterSpec spec;
    spec.kind = FilterKind::kApiTrace;
    spec.api_domains.assign(collected.api_domains.begin(), collected.api_domains.end());
    for (TraceDomain domain : collected.implied_domains) {
      if (collected.api_domains.contains(domain)) continue;
      spec.api_domains.push_back(domain);
      spec.optional_domains.push_back(domain);
    }
    spec.arguments = args.api_arguments;
    spec.selection.hsa_functions = collected.selection.hsa_functions;
    spec.selection.hip_functions = collected.selection.hip_functions;
    session->filters.push_back(std::move(spec));
  }
  const auto calls = {TraceDomain::kHsaApi, TraceDomain::kHipApi,
                      TraceDomain::kRcclApi};
  if (args.api_arguments &&
      std::none_of(calls.begin(), calls.end(), [&](TraceDomain domain) {
        return collected.api_domains.contains(domain) ||
               collected.implied_domains.contains(domain);
      })) {
    return absl::InvalidArgumentError(
        "--api-arguments requires calls: add --hip-trace, --hsa-trace, --rccl-trace or "
        "--api-function");
  }
  return absl::OkStatus();
}

// A filter that applies to nothing is an error on the command line; in a file, it is
// reported as ignored.
absl::Status CheckFilters(const SessionArguments& args, const Collected& collected,
                          SessionSpec* session) {
  bool of_dispatches = false, of_gpus = false;
  for (const FilterSpec& filter : session->filters) {
    of_dispatches |= filter.kind == FilterKind::kDispatchTimestamps ||
                     filter.kind == FilterKind::kCounters;
    of_gpus |= filter.kind != FilterKind::kApiTrace;
  }
  const bool named = !args.include.empty() || !args.exclude.empty() ||
                     !args.iterations.empty() || !args.dispatches.empty();
  if (!of_dispatches && named) {
    return absl::InvalidArgumentError(
        "--kernel-include-regex, --kernel-exclude-regex, --kernel-iteration-range and "
        "--dispatch-range apply to dispatches: add --kernel-trace, or --pmc "
        "without --device-samples");
  }
  if (!of_gpus && !args.gpus.empty()) {
    return absl::InvalidArgumentError(
        "--gpu applies to dispatches and samples: add --pmc or --kernel-trace");
  }
  if (!of_dispatches && collected.dispatch_filters()) {
    session->ignored.push_back("kernel_* (no dispatches are collected)");
  }
  if (session->filters.empty() &&
      (!collected.periods.empty() || args.duration_msec != 0)) {
    return absl::InvalidArgumentError(
        "periods and durations require a session: specify what to collect with --pmc, "
        "--set, --block, --kernel-trace, --hip-trace or -i");
  }
  return absl::OkStatus();
}

}  // namespace

namespace {

absl::StatusOr<SessionSpec> InterpretRun(const SessionArguments& args,
                                         const std::vector<InputJob>& jobs,
                                         const KnownArchitectures& architectures,
                                         CounterCatalog* catalog) {
  SessionSpec session;
  Collected collected;
  for (const std::string& file : args.extra_counters) {
    RETURN_IF_ERROR(AddCounterFile(file, catalog, &session));
  }
  for (const InputJob& job : jobs) {
    for (const std::string& file : job.extra_counters) {
      RETURN_IF_ERROR(AddCounterFile(file, catalog, &session));
    }
    AddJob(job, &collected, &session.ignored);
  }
  for (const auto& group : args.pmc) collected.counters.pmc.push_back(group);
  collected.counters.sets = args.sets;
  collected.counters.blocks = args.blocks;
  for (const auto& [wanted, name] :
       {std::pair(args.kernel_trace, "kernel_trace"),
        {args.memory_copy_trace, "memory_copy_trace"},
        {args.hsa_trace, "hsa_trace"},
        {args.hip_trace, "hip_trace"},
        {args.marker_trace, "marker_trace"},
        {args.memory_allocation_trace, "memory_allocation_trace"},
        {args.scratch_memory_trace, "scratch_memory_trace"},
        {args.rccl_trace, "rccl_trace"},
        {args.sys_trace, "sys_trace"},
        {args.runtime_trace, "runtime_trace"}}) {
    if (wanted) AddTrace(name, &collected, &session.ignored);
  }
  RETURN_IF_ERROR(AddFilters(args, &collected));
  RETURN_IF_ERROR(AddCounters(args, collected, architectures, *catalog, &session));
  RETURN_IF_ERROR(AddTraces(args, collected, &session));
  RETURN_IF_ERROR(CheckFilters(args, collected, &session));
  session.periods = std::move(collected.periods);
  session.duration_ns = static_cast<uint64_t>(args.duration_msec) * 1'000'000;
  return session;
}

}  // namespace

absl::StatusOr<std::vector<SessionSpec>> InterpretRuns(
    const SessionArguments& args, const KnownArchitectures& architectures,
    CounterCatalog* catalog) {
  ASSIGN_OR_RETURN(const Runs runs, ReadRuns(args));
  std::vector<SessionSpec> sessions;
  for (const std::vector<InputJob>& jobs : runs) {
    ASSIGN_OR_RETURN(SessionSpec session,
                     InterpretRun(args, jobs, architectures, catalog));
    sessions.push_back(std::move(session));
  }
  return sessions;
}

absl::Status MoreThanOneRun(const std::string& input) {
  return absl::InvalidArgumentError(absl::StrCat(
      input,
      ": its jobs have different filters or periods and need separate runs: give "
      "rocattach-watch a COMMAND to run, or split the jobs into separate files"));
}

absl::StatusOr<SessionSpec> InterpretSession(const SessionArguments& args,
                                             const KnownArchitectures& architectures,
                                             CounterCatalog* catalog) {
  ASSIGN_OR_RETURN(std::vector<SessionSpec> runs,
                   InterpretRuns(args, architectures, catalog));
  if (runs.size() != 1) return MoreThanOneRun(args.input);
  return std::move(runs.front());
}

}  // namespace rocattach
