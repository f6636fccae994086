#include "tests/integration/collector/sdk_run.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/places.h"
#include "tests/simrocm/sdk/counter_names.h"
#include "tests/temporary_directory.h"

namespace rocattach {
namespace {

std::shared_ptr<const CounterCatalog> Catalog() {
  static const auto catalog =
      std::make_shared<const CounterCatalog>(*CounterCatalog::Builtin());
  return catalog;
}

std::string LogIn(const std::string& folder) {
  return folder + "/log";
}

std::string GoIn(const std::string& folder) {
  return folder + "/go";
}

std::vector<LogEvent> ReadLog(const std::string& path) {
  std::vector<LogEvent> events;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    events.push_back({line.substr(0, line.find(' ')), line});
  }
  return events;
}

std::vector<std::string> Environment(const SdkOptions& options,
                                     const std::string& log) {
  std::vector<std::string> environment = options.environment;
  auto add = [&](const std::string& entry) {
    const std::string name = entry.substr(0, entry.find('=') + 1);
    for (const std::string& own : options.environment) {
      if (own.starts_with(name)) return;
    }
    environment.push_back(entry);
  };
  const char* folder = options.with_sdk ? "" : "/register-only";
  for (const std::string& entry :
       {absl::StrCat("LD_LIBRARY_PATH=", SIMROCM_LIBRARY_DIR, folder),
        absl::StrCat("LD_PRELOAD=", testing_support::WithoutBlanks(SIMROCM_BRIDGE_PATH),
                     ":", testing_support::WithoutBlanks(COLLECTOR_PRELOAD_PATH), ":",
                     testing_support::WithoutBlanks(SIMGPU_LIBRARY_PATH)),
        absl::StrCat("SIMGPU_COUNT=", options.gpus),
        absl::StrCat("SIMGPU_ARCH=", options.arch), absl::StrCat("SIMROCM_LOG=", log),
        absl::StrCat("COLLECTOR_TEST_BACKEND=", options.backend),
        absl::StrCat("COLLECTOR_TEST_RECORDING=", options.recording ? 1 : 0),
        std::string("COLLECTOR_TEST_RINGS=40"),
        std::string("COLLECTOR_TEST_WAIT_MSEC=10000")}) {
    add(entry);
  }
  return environment;
}

}  // namespace

uint64_t SdkTarget::Write(const std::vector<FilterSpec>& filters) {
  TargetDescription target;
  for (size_t i = 0; i < result.agents.size(); ++i) {
    if (result.agents[i].type != 2) continue;
    TargetGpu gpu;
    gpu.agent_id = result.agents[i].entry.id;
    gpu.key = absl::StrCat("pci-", result.agents[i].pci_bdf);
    gpu.architecture = result.agent_names[i];
    target.gpus.push_back(gpu);
  }
  target.record_kinds = UINT32_MAX;  // the collector must refuse what it cannot do
  for (uint32_t domain = 0; domain < ROCATTACH_PLAN_API_DOMAINS; ++domain) {
    for (const auto& [name, number] : result.functions[domain]) {
      target.functions.push_back({domain, number, name});
    }
  }
  auto compiled = CompilePlan(static_cast<SessionId>(1), filters, target, Catalog());
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  if (!compiled.ok()) return 0;
  plan = *compiled;
  return memory.control().WritePlan(*plan->image);
}

uint64_t SdkTarget::WriteEmpty() {
  plan = nullptr;
  auto image = std::make_unique<rocattach_plan>();
  image->magic = ROCATTACH_PLAN_MAGIC;
  image->version = ROCATTACH_PLAN_VERSION;
  image->bytes = sizeof(rocattach_plan);
  return memory.control().WritePlan(*image);
}

bool SdkTarget::Answered(uint64_t generation, PlanAnswer* answer) {
  *answer = memory.control().plan_answer();
  return answer->generation == generation;
}

bool SdkTarget::Logged(const std::string& event) const {
  for (const LogEvent& logged : ReadLog(LogIn(folder))) {
    if (logged.name == event) return true;
  }
  return false;
}

void SdkTarget::Continue() const {
  std::ofstream go(GoIn(folder));
}

std::string LogEvent::Field(const std::string& key) const {
  size_t at = line.find(" " + key + "=");
  if (at == std::string::npos) return "";
  at += key.size() + 2;
  return line.substr(at, line.find(' ', at) - at);
}

std::vector<std::string> SdkResult::LogOrder(
    const std::vector<std::string>& names) const {
  std::vector<std::string> order;
  for (const LogEvent& event : log) {
    if (std::find(names.begin(), names.end(), event.name) != names.end()) {
      order.push_back(event.name);
    }
  }
  return order;
}

SdkResult RunSdk(const SdkOptions& options) {
  SdkResult result;
  const testing_support::TemporaryDirectory folder;
  const std::string log = LogIn(folder.path());
  std::vector<std::string> command = {SIMROCM_WORKLOAD_PATH, "-t",
                                      absl::StrCat(options.threads), "--exit",
                                      options.exit};
  if (!options.command.empty()) command = options.command;
  for (const std::string& step : options.steps) {
    command.push_back(step == "wait" ? "wait:" + GoIn(folder.path()) : step);
  }
  CollectorRunOptions run;
  run.environment = Environment(options, log);
  run.timeout_seconds = options.timeout_seconds;
  bool written = false, described = false;
  run.prepare = [&](CollectorMemory& memory, CollectorResult& so_far) {
    result.backend = memory.control().backend();
    if (result.backend.backend == 0) return false;
    // The dictionary is complete once the backend is known, so it is read after that.
    if (!described) {
      described = true;
      return false;
    }
    SdkTarget target{memory, so_far, folder.path(), nullptr};
    if (!written) {
      written = true;
      if (!options.filters.empty()) {
        result.generation = target.Write(options.filters);
        result.plan = target.plan;
      }
      return true;
    }
    // Called first, since it may end the process.
    if (options.step) options.step(target);
    PlanAnswer answer;
    if (result.generation != 0 && target.Answered(result.generation, &answer)) {
      result.answer = answer;
    }
    return true;
  };
  result.run = RunWithCollector(command, run);
  result.log = ReadLog(log);
  return result;
}

std::vector<std::string> KnownCounters(size_t count, const std::string& arch) {
  const ArchitectureCounters* counters = Catalog()->Find(arch);
  std::vector<std::vector<std::string>> blocks;
  for (const auto& block : simrocm::sdk::kNamedBlocks) {
    if (block.only_gfx90a && arch != "gfx90a") continue;
    std::vector<std::string> names;
    std::istringstream words(block.names);
    for (std::string word; words >> word;) {
      const HardwareCounter* known = counters->FindCounter(word);
      // An accumulator may only follow the counter that it accumulates.
      if (known != nullptr && !known->follows) names.push_back(word);
    }
    blocks.push_back(names);
  }
  std::vector<std::string> mixed;
  for (size_t i = 0; mixed.size() < count && i < 1000; ++i) {
    for (const auto& block : blocks) {
      if (i < block.size() && mixed.size() < count) mixed.push_back(block[i]);
    }
  }
  return mixed;
}

FilterSpec CountersFilter(const std::vector<std::string>& names) {
  FilterSpec spec;
  spec.kind = FilterKind::kCounters;
  spec.counters = {names};
  return spec;
}

simrocm::DispatchShape ShapeOf(const rocattach_dispatch& dispatch) {
  return {{dispatch.grid_x, dispatch.grid_y, dispatch.grid_z},
          {dispatch.workgroup_x, dispatch.workgroup_y, dispatch.workgroup_z},
          dispatch.dispatch_id};
}

std::string CollectorPath() {
  return COLLECTOR_LIBRARY_PATH;
}

}  // namespace rocattach
