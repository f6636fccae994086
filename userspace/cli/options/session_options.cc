// The definitions of the options; session_arguments.cc interprets them.
#include <CLI/CLI.hpp>

#include "userspace/cli/options/help_groups.h"
#include "userspace/cli/options/session_arguments.h"

namespace rocattach {
namespace {

constexpr int64_t kMaxSampleMsec = 3'600'000;

// An option that may be given several times, one value each.
CLI::Option* AddList(CLI::App* app, const std::string& name,
                     std::vector<std::string>* values, const std::string& help,
                     const std::string& type) {
  return app->add_option(name, *values, help + "; repeatable")
      ->type_name(type)
      ->expected(1)
      ->take_all();
}

void AddCounterOptions(CLI::App* app, SessionArguments* args) {
  StartGroup(app, kCounterGroup);
  app->add_option("--pmc", args->pmc,
                  "Hardware counters and metrics to measure on every dispatch; "
                  "repeatable, counters of one --pmc are measured together if possible")
      ->type_name("NAME…");
  AddList(app, "--set", &args->sets, "A named set of counters", "NAME");
  AddList(
      app, "-b,--block", &args->blocks,
      "Counters of a hardware block, or of a report section or metric such as 2, 5.1 "
      "or 5.1.1",
      "ID");
  app->add_option("--arch", args->architecture,
                  "GPU architecture in which counters, sets and blocks are looked up, "
                  "such as gfx90a (default: that of the GPUs present)")
      ->type_name("NAME");
  app->add_option("-i,--input", args->input,
                  "rocprofv3 input file (JSON, YAML or text) with jobs, counters and "
                  "filters")
      ->type_name("FILE");
  AddList(app, "-E,--extra-counters", &args->extra_counters,
          "YAML file with more counters, metrics and sets", "FILE");
  app->add_flag("--single-pass", args->single_pass,
                "Refuse counters that need more than one hardware pass");
  app->add_flag("--counter-instances", args->counter_instances,
                "Record the value of every instance of a counter (XCC, shader engine, "
                "channel …), not only their sum, minimum and maximum");
  app->add_option("--device-samples", args->device_samples_msec,
                  "Sample counters of whole GPUs at this interval instead of measuring "
                  "dispatches")
      ->check(CLI::Range(int64_t{1}, kMaxSampleMsec))
      ->type_name("MSEC");
}

void AddFilterOptions(CLI::App* app, SessionArguments* args) {
  StartGroup(app, kRecordGroup);
  AddList(app, "--gpu", &args->gpus,
          "Only this GPU: index, architecture, part of the product name, UUID or PCI "
          "address",
          "GPU");
  AddList(app, "--kernel-include-regex", &args->include,
          "Only kernels whose name matches", "REGEX");
  AddList(app, "--kernel-exclude-regex", &args->exclude,
          "Exclude kernels whose name matches", "REGEX");
  app->add_option("--kernel-iteration-range", args->iterations,
                  "Dispatches of each kernel to collect, counted from 1: \"[1-3],[7]\"")
      ->type_name("RANGES");
  app->add_option(
         "--dispatch-range", args->dispatches,
         "Dispatches of each process to collect, counted from 1: \"[100-200]\"")
      ->type_name("RANGES");
}

void AddTraceOptions(CLI::App* app, SessionArguments* args) {
  StartGroup(app, kRecordGroup);
  app->add_flag(
      "-s,--sys-trace", args->sys_trace,
      "Record kernels, memory copies and allocations, scratch memory, markers, "
      "and calls of the HIP, RCCL and HSA APIs");
  app->add_flag("-r,--runtime-trace", args->runtime_trace,
                "The same without calls of the HSA API");
  app->add_flag("--kernel-trace", args->kernel_trace,
                "Record kernel dispatches (implied unless --no-recording is given)");
  app->add_flag("--memory-copy-trace", args->memory_copy_trace,
                "Record memory copies (implied unless --no-recording is given)");
  app->add_flag("--memory-allocation-trace", args->memory_allocation_trace,
                "Record memory that is allocated or freed");
  app->add_flag("--scratch-memory-trace", args->scratch_memory_trace,
                "Record scratch memory that the runtime allocates, frees or reclaims");
  app->add_flag("--hsa-trace", args->hsa_trace, "Record calls of the HSA API");
  app->add_flag("--hip-trace,--hip-runtime-trace", args->hip_trace,
                "Record calls of the HIP API");
  app->add_flag("--rccl-trace", args->rccl_trace, "Record calls of the RCCL API");
  app->add_flag("--marker-trace", args->marker_trace, "Record ROCTx markers");
  app->add_flag("--api-arguments", args->api_arguments,
                "With each call record its arguments");
  AddList(app, "--api-function", &args->api_functions,
          "Record calls of this HSA or HIP function only", "NAME");
  app->add_flag("--stats", args->stats,
                "Accepted as in rocprofv3: 'rocattach report' always has statistics");
}

}  // namespace

void AddSessionOptions(CLI::App* app, SessionArguments* args) {
  AddTraceOptions(app, args);
  AddFilterOptions(app, args);
  AddCounterOptions(app, args);
  StartGroup(app, kSessionGroup);
  CLI::Option* period = AddList(app, "-P,--collection-period", &args->periods,
                                "Collect periodically: wait DELAY, collect for "
                                "DURATION, REPEAT times (0: forever)",
                                "DELAY:DURATION:REPEAT");
  app->add_option("--collection-period-unit", args->period_unit,
                  "Unit of --collection-period values without one: hour, min, "
                  "sec, msec, usec or nsec")
      ->needs(period)
      ->type_name("UNIT")
      ->capture_default_str();
  app->add_option("--attach-duration-msec", args->duration_msec,
                  "End the session after this time; 0: when the run ends")
      ->check(CLI::Range(int64_t{0}, kMaxDurationMsec))
      ->type_name("MSEC");
}

}  // namespace rocattach
