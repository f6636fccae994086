#include "userspace/cli/session_arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "userspace/base/status_macros.h"
#include "userspace/session/counter_request.h"
#include "userspace/session/input_file.h"
#include "userspace/session/kernel_filter.h"
#include "userspace/session/number_ranges.h"

namespace rocattach {
namespace {

// What the options and the input file say together.
struct Collected {
  CounterOptions counters;
  bool keep_groups = false;
  uint64_t group_interval = 1;
  Selection selection;
  std::vector<CollectionPeriod> periods;
  std::set<int> api_domains;
};

// rocprofv3's names; kernels and copies are recorded without a session.
void AddTrace(const std::string& name, Collected* collected,
              std::vector<std::string>* ignored) {
  if (name == "sys_trace" || name == "runtime_trace") {
    collected->api_domains.insert({ROCATTACH_ACTIVITY_DOMAIN_HSA_API,
                                   ROCATTACH_ACTIVITY_DOMAIN_HIP_API,
                                   ROCATTACH_ACTIVITY_DOMAIN_ROCTX});
  } else if (absl::StartsWith(name, "hsa_")) {
    collected->api_domains.insert(ROCATTACH_ACTIVITY_DOMAIN_HSA_API);
  } else if (absl::StartsWith(name, "hip_")) {
    collected->api_domains.insert(ROCATTACH_ACTIVITY_DOMAIN_HIP_API);
  } else if (name == "marker_trace") {
    collected->api_domains.insert(ROCATTACH_ACTIVITY_DOMAIN_ROCTX);
  } else if (name != "kernel_trace" && name != "memory_copy_trace" && name != "stats") {
    ignored->push_back(name);
  }
}

absl::Status AddJob(const InputJob& job, bool first, const std::string& source,
                    Collected* collected, std::vector<std::string>* ignored) {
  Selection& selection = collected->selection;
  if (first) {
    selection.kernel_include = job.kernel_include;
    selection.kernel_exclude = job.kernel_exclude;
    selection.iterations = job.iterations;
    collected->periods = job.periods;
  } else if (selection.kernel_include != job.kernel_include ||
             selection.kernel_exclude != job.kernel_exclude ||
             selection.iterations != job.iterations ||
             collected->periods != job.periods) {
    return absl::InvalidArgumentError(absl::StrCat(
        source,
        ": its jobs have different filters or periods; all jobs are collected in "
        "one run here, so put these into files of their own"));
  }
  for (const CounterNames& group : job.groups) collected->counters.pmc.push_back(group);
  collected->keep_groups |= job.keep_groups;
  collected->group_interval = std::max(collected->group_interval, job.group_interval);
  for (const std::string& trace : job.traces) AddTrace(trace, collected, ignored);
  ignored->insert(ignored->end(), job.ignored.begin(), job.ignored.end());
  return absl::OkStatus();
}

absl::Status ReadInput(const std::string& path, CounterCatalog* catalog,
                       Collected* collected, std::vector<std::string>* ignored) {
  ASSIGN_OR_RETURN(const std::vector<InputJob> jobs, ReadInputFile(path));
  for (size_t i = 0; i < jobs.size(); ++i) {
    for (const std::string& file : jobs[i].extra_counters) {
      RETURN_IF_ERROR(catalog->AddFile(file));
    }
    RETURN_IF_ERROR(AddJob(jobs[i], i == 0, path, collected, ignored));
  }
  return absl::OkStatus();
}

// Sets and blocks differ by architecture.
absl::StatusOr<std::vector<CounterNames>> Groups(const CounterOptions& options,
                                                 const std::string& architecture,
                                                 const CounterCatalog& catalog) {
  RETURN_IF_ERROR(CheckCounters(catalog, options));
  if (options.sets.empty() && options.blocks.empty()) {
    std::vector<CounterNames> groups;
    for (const auto& words : options.pmc) {
      CounterNames group;
      for (const std::string& word : words) {
        for (std::string& name : SplitCounters(word)) group.push_back(std::move(name));
      }
      groups.push_back(std::move(group));
    }
    return groups;
  }
  if (architecture.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--set and --block mean other counters on other GPUs: name one with --arch (",
        absl::StrJoin(catalog.Architectures(), ", "), ")"));
  }
  const ArchitectureCounters* known = catalog.Find(architecture);
  if (known == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the counters of ", architecture, " are not known; there are ",
                     absl::StrJoin(catalog.Architectures(), ", ")));
  }
  return ResolveCounters(*known, options);
}

}  // namespace

void AddSessionOptions(CLI::App* app, SessionArguments* args) {
  app->add_option("--pmc", args->pmc,
                  "Hardware counters and metrics to measure on every dispatch; "
                  "repeatable, counters of one --pmc are measured together if possible")
      ->type_name("NAME…");
  app->add_option("--set", args->sets, "A named set of counters; repeatable")
      ->type_name("NAME")
      ->expected(1)
      ->take_all();
  app->add_option("--block", args->blocks,
                  "Counters of a hardware block or of a report section such as 2 or "
                  "5.1; repeatable")
      ->type_name("ID")
      ->expected(1)
      ->take_all();
  app->add_option("--arch", args->architecture,
                  "GPU architecture that --set and --block are of, such as gfx90a")
      ->type_name("NAME");
  app->add_option("-i,--input", args->input,
                  "rocprofv3 input file (JSON, YAML or text) with jobs, counters and "
                  "filters")
      ->type_name("FILE");
  app->add_option("--extra-counters", args->extra_counters,
                  "YAML file with more counters, metrics and sets; repeatable")
      ->type_name("FILE")
      ->expected(1)
      ->take_all();
  app->add_flag("--single-pass", args->single_pass,
                "Refuse counters that take more than one hardware pass");
  app->add_option("--kernel-include-regex", args->include,
                  "Measure only kernels whose name matches; repeatable")
      ->type_name("REGEX")
      ->expected(1)
      ->take_all();
  app->add_option("--kernel-exclude-regex", args->exclude,
                  "Measure no kernels whose name matches; repeatable")
      ->type_name("REGEX")
      ->expected(1)
      ->take_all();
  app->add_option("--kernel-iteration-range", args->iterations,
                  "Which dispatches of each kernel to measure, from 1: \"[1-3],[7]\"")
      ->type_name("RANGES");
  app->add_option("--collection-period", args->periods,
                  "delay:duration:repeat, repeat 0 for ever; repeatable")
      ->type_name("PERIOD")
      ->expected(1)
      ->take_all();
  app->add_option("--collection-period-unit", args->period_unit,
                  "Unit of periods without one: hour, min, sec, msec, usec, nsec")
      ->type_name("UNIT")
      ->capture_default_str();
  app->add_option("--attach-duration-msec", args->duration_msec,
                  "End the session after this long; 0: with the run")
      ->type_name("MSEC");
  app->add_flag("--hsa-trace", args->hsa_trace, "Record calls of the HSA API");
  app->add_flag("--hip-trace", args->hip_trace, "Record calls of the HIP API");
  app->add_flag("--marker-trace", args->marker_trace, "Record ROCTx markers");
}

absl::StatusOr<CounterCatalog> LoadCatalog(const std::vector<std::string>& files) {
  ASSIGN_OR_RETURN(CounterCatalog catalog, CounterCatalog::Builtin());
  for (const std::string& file : files) RETURN_IF_ERROR(catalog.AddFile(file));
  return catalog;
}

absl::StatusOr<SessionWish> InterpretSession(const SessionArguments& args,
                                             CounterCatalog* catalog) {
  SessionWish wish;
  Collected collected;
  if (!args.input.empty()) {
    RETURN_IF_ERROR(ReadInput(args.input, catalog, &collected, &wish.ignored));
  }
  for (const auto& group : args.pmc) collected.counters.pmc.push_back(group);
  collected.counters.sets = args.sets;
  collected.counters.blocks = args.blocks;
  Selection& selection = collected.selection;
  // The command line wins over the file.
  if (!args.include.empty()) selection.kernel_include = args.include;
  if (!args.exclude.empty()) selection.kernel_exclude = args.exclude;
  if (!args.iterations.empty()) {
    ASSIGN_OR_RETURN(selection.iterations, ParseRanges(args.iterations));
  }
  RETURN_IF_ERROR(
      KernelFilter::Create(selection.kernel_include, selection.kernel_exclude)
          .status());
  if (!args.periods.empty()) collected.periods.clear();
  for (const std::string& text : args.periods) {
    ASSIGN_OR_RETURN(const CollectionPeriod period,
                     ParseCollectionPeriod(text, args.period_unit));
    collected.periods.push_back(period);
  }
  if (args.hsa_trace) AddTrace("hsa_trace", &collected, &wish.ignored);
  if (args.hip_trace) AddTrace("hip_trace", &collected, &wish.ignored);
  if (args.marker_trace) AddTrace("marker_trace", &collected, &wish.ignored);

  ASSIGN_OR_RETURN(std::vector<CounterNames> groups,
                   Groups(collected.counters, args.architecture, *catalog));
  if (!groups.empty()) {
    FilterSpec spec;
    spec.kind = FilterKind::kCounters;
    spec.counters = std::move(groups);
    spec.single_pass = args.single_pass;
    spec.keep_groups = collected.keep_groups;
    spec.rotation_iterations = collected.group_interval;
    spec.selection = selection;
    wish.filters.push_back(std::move(spec));
  }
  if (!collected.api_domains.empty()) {
    FilterSpec spec;
    spec.kind = FilterKind::kApiTrace;
    spec.api_domains.assign(collected.api_domains.begin(), collected.api_domains.end());
    wish.filters.push_back(std::move(spec));
  }
  const bool details = !selection.kernel_include.empty() ||
                       !selection.kernel_exclude.empty() ||
                       !selection.iterations.empty() || !collected.periods.empty() ||
                       args.duration_msec != 0 || args.single_pass;
  if (wish.filters.empty() && details) {
    return absl::InvalidArgumentError(
        "filters, periods and durations belong to a session: say what it collects with "
        "--pmc, --set, --block, --hip-trace or -i");
  }
  wish.periods = std::move(collected.periods);
  wish.duration_ns = args.duration_msec * 1'000'000;
  return wish;
}

}  // namespace rocattach
