// rocattach counters: lists what can be measured.
#include <stdio.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "userspace/base/json.h"
#include "userspace/base/status_macros.h"
#include "userspace/cli/subcommands.h"
#include "userspace/counters/catalog.h"
#include "userspace/report/table.h"

namespace rocattach {
namespace {

struct CountersArguments {
  std::string architecture;
  std::vector<std::string> extra_counters;
  bool json = false;
  std::string names;  // kind of which only the names are listed; empty: list everything
};

Json GroupsJson(const std::vector<CounterGroup>& groups) {
  Json array = Json::array();
  for (const CounterGroup& group : groups) {
    array.push_back({{"name", group.name},
                     {"description", group.description},
                     {"members", group.members}});
  }
  return array;
}

Json ArchitectureJson(const ArchitectureCounters& known) {
  Json blocks = Json::array(), counters = Json::array(), metrics = Json::array();
  for (const CounterBlock& block : known.blocks()) {
    blocks.push_back({{"name", block.name},
                      {"counters_per_pass", block.counters},
                      {"description", block.description}});
  }
  for (const HardwareCounter& counter : known.counters()) {
    counters.push_back({{"name", counter.name},
                        {"block", counter.block},
                        {"sdk", known.Since(counter.name)},
                        {"description", counter.description}});
  }
  for (const DerivedMetric& metric : known.metrics()) {
    metrics.push_back({{"name", metric.name},
                       {"unit", metric.unit},
                       {"sdk", known.Since(metric.name)},
                       {"expression", metric.text},
                       {"description", metric.description}});
  }
  return {{"architecture", known.name()},
          {"blocks", blocks},
          {"counters", counters},
          {"metrics", metrics},
          {"sets", GroupsJson(known.sets())},
          {"sections", GroupsJson(known.sections())}};
}

// "Waves." and "SQ_WAVES" become "Waves: SQ_WAVES".
std::string Described(absl::string_view description, absl::string_view content) {
  description = absl::StripSuffix(description, ".");
  return absl::StrCat(description, description.empty() ? "" : ": ", content);
}

// The description, with the version of rocprofiler-sdk that it requires if that is not
// the first one.
std::string WithVersion(const ArchitectureCounters& known, const std::string& name,
                        const std::string& description) {
  const std::string since = known.Since(name);
  if (since == kFirstSdk) return description;
  return absl::StrCat(description, " From rocprofiler-sdk ", since, " on.");
}

std::string Text(const ArchitectureCounters& known) {
  std::string out = absl::StrCat(known.name(), "\n");
  auto section = [&](const char* title,
                     const std::vector<std::vector<std::string>>& rows) {
    if (rows.empty()) return;
    Table table({title, "", "description"});
    for (const auto& row : rows) table.Add(row);
    absl::StrAppend(&out, "\n", table.Format(2, 0, "", ""));
  };
  std::vector<std::vector<std::string>> rows;
  for (const CounterBlock& block : known.blocks()) {
    rows.push_back(
        {block.name, absl::StrCat(block.counters, " per pass"), block.description});
  }
  section("block", rows);
  rows.clear();
  for (const HardwareCounter& counter : known.counters()) {
    rows.push_back({counter.name, counter.block,
                    WithVersion(known, counter.name, counter.description)});
  }
  section("counter", rows);
  rows.clear();
  for (const DerivedMetric& metric : known.metrics()) {
    rows.push_back(
        {metric.name, metric.unit,
         WithVersion(known, metric.name,
                     absl::StrCat(Described(metric.description, metric.text), "."))});
  }
  section("metric", rows);
  rows.clear();
  for (const auto* groups : {&known.sets(), &known.sections()}) {
    for (const CounterGroup& group : *groups) {
      rows.push_back({group.name, groups == &known.sets() ? "--set" : "--block",
                      Described(group.description, absl::StrJoin(group.members, " "))});
    }
  }
  section("group", rows);
  return out;
}

// The names of this kind in all these architectures, each once.
std::set<std::string> NamesOf(const std::string& kind, const CounterCatalog& catalog,
                              const std::vector<std::string>& architectures) {
  if (kind == "architectures") return {architectures.begin(), architectures.end()};
  std::set<std::string> names;
  const auto add = [&names](const auto& list) {
    for (const auto& entry : list) names.insert(entry.name);
  };
  for (const std::string& architecture : architectures) {
    const ArchitectureCounters& known = *catalog.Find(architecture);
    if (kind == "counters") {
      add(known.counters());
      add(known.metrics());
    } else if (kind == "sets") {
      add(known.sets());
    } else {
      add(known.blocks());
      add(known.sections());
    }
  }
  return names;
}

absl::StatusOr<CounterCatalog> Catalog(const std::vector<std::string>& files) {
  ASSIGN_OR_RETURN(CounterCatalog catalog, CounterCatalog::Builtin());
  for (const std::string& file : files) RETURN_IF_ERROR(catalog.AddFile(file));
  return catalog;
}

int RunCounters(const CountersArguments& arguments) {
  auto catalog = Catalog(arguments.extra_counters);
  if (!catalog.ok()) {
    fprintf(stderr, "rocattach counters: %s\n",
            std::string(catalog.status().message()).c_str());
    return kExitUnreadable;
  }
  std::vector<std::string> names = catalog->Architectures();
  if (!arguments.architecture.empty()) {
    if (catalog->Find(arguments.architecture) == nullptr) {
      fprintf(stderr, "rocattach counters: unknown GPU architecture %s; known: %s\n",
              arguments.architecture.c_str(), absl::StrJoin(names, ", ").c_str());
      return kExitUsage;
    }
    names = {arguments.architecture};
  }
  std::string out;
  if (!arguments.names.empty()) {
    for (const std::string& name : NamesOf(arguments.names, *catalog, names)) {
      absl::StrAppend(&out, name, "\n");
    }
  } else if (arguments.json) {
    Json json = Json::array();
    for (const std::string& name : names) {
      json.push_back(ArchitectureJson(*catalog->Find(name)));
    }
    out = DumpJson(json) + "\n";
  } else {
    for (const std::string& name : names) {
      absl::StrAppend(&out, out.empty() ? "" : "\n", Text(*catalog->Find(name)));
    }
  }
  if (fwrite(out.data(), 1, out.size(), stdout) != out.size() || fflush(stdout) != 0) {
    perror("rocattach counters: writing the list");
    return kExitUnreadable;
  }
  return kExitOk;
}

}  // namespace

void RegisterCounters(CLI::App* app, std::function<int()>* run) {
  auto arguments = std::make_shared<CountersArguments>();
  CLI::App* command = app->add_subcommand(
      "counters", "List hardware counters, metrics and sets that can be measured");
  command
      ->add_option("--arch", arguments->architecture,
                   "Only this GPU architecture, such as gfx90a")
      ->type_name("NAME");
  command
      ->add_option("--extra-counters", arguments->extra_counters,
                   "YAML file with more counters, metrics and sets; repeatable")
      ->type_name("FILE")
      ->expected(1)
      ->take_all();
  CLI::Option* json =
      command->add_flag("--json", arguments->json, "Print one JSON array");
  command
      ->add_option("--names", arguments->names,
                   "Print only names, one on each line: counters (and metrics), sets, "
                   "blocks (and sections) or architectures")
      ->type_name("KIND")
      ->check(CLI::IsMember({"counters", "sets", "blocks", "architectures"}))
      ->excludes(json);
  command->footer(
      "Examples:\n"
      "  rocattach counters --arch gfx90a | less\n"
      "  rocattach counters --json | jq -r '.[].counters[].name'\n"
      "  rocattach counters --extra-counters mine.yaml --arch gfx1100\n\n"
      "Exit status: 0 success; 2 usage error or unknown architecture; 3 a file cannot "
      "be\n"
      "read.");
  command->callback(
      [run, arguments] { *run = [arguments] { return RunCounters(*arguments); }; });
}

}  // namespace rocattach
