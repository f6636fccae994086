#include "tests/integration/simrocm/simrocm_session.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tests/temporary_directory.h"

namespace rocattach {
namespace {

Event ParseEvent(const std::string& line) {
  Event event;
  std::istringstream words(line);
  words >> event.name;
  for (std::string word; words >> word;) {
    size_t equals = word.find('=');
    if (equals == std::string::npos) continue;
    event.fields[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return event;
}

std::vector<Event> ReadEvents(const std::string& path) {
  std::vector<Event> events;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) events.push_back(ParseEvent(line));
  return events;
}

}  // namespace

std::string Event::Text(const std::string& key) const {
  auto found = fields.find(key);
  return found != fields.end() ? found->second : "";
}

uint64_t Event::Number(const std::string& key) const {
  return strtoull(Text(key).c_str(), nullptr, 10);
}

double Event::Real(const std::string& key) const {
  return strtod(Text(key).c_str(), nullptr);
}

std::vector<Event> SessionResult::Tool(const std::string& name) const {
  std::vector<Event> found;
  std::copy_if(tool.begin(), tool.end(), std::back_inserter(found),
               [&](const Event& event) { return event.name == name; });
  return found;
}

std::vector<std::string> SessionResult::LogOrder(
    const std::vector<std::string>& names) const {
  std::vector<std::string> order;
  for (const Event& event : log) {
    if (std::find(names.begin(), names.end(), event.name) != names.end()) {
      order.push_back(event.name);
    }
  }
  return order;
}

int SessionResult::Check(const std::string& name) const {
  for (const Event& event : Tool("check")) {
    if (event.Text("name") == name) return atoi(event.Text("status").c_str());
  }
  return -1;
}

SessionResult RunSession(const SessionOptions& options) {
  const testing_support::TemporaryDirectory folder;
  const std::string log = folder / "log", tool = folder / "tool";
  std::vector<std::string> command = {SIMROCM_RUN, "--log", log};
  if (options.load_tool) {
    command.insert(command.end(), {"--tool", ToolPath()});
  }
  command.insert(command.end(), options.run_options.begin(), options.run_options.end());
  if (options.command.empty()) {
    command.push_back(SIMROCM_WORKLOAD);
  } else {
    command.insert(command.end(), options.command.begin(), options.command.end());
  }
  command.insert(command.end(), options.steps.begin(), options.steps.end());
  std::map<std::string, std::string> environment = options.environment;
  environment["SIMROCM_TOOL"] = options.plan;
  environment["SIMROCM_TOOL_OUTPUT"] = tool;
  SessionResult result;
  result.program = RunProgram(command, environment);
  result.printed = LastLineFields(result.program.output);
  result.tool = ReadEvents(tool);
  result.log = ReadEvents(log);
  return result;
}

simrocm::DispatchShape ShapeOf(const Event& dispatch) {
  simrocm::DispatchShape shape{};
  sscanf(dispatch.Text("grid").c_str(), "%u,%u,%u", &shape.grid[0], &shape.grid[1],
         &shape.grid[2]);
  sscanf(dispatch.Text("group").c_str(), "%u,%u,%u", &shape.workgroup[0],
         &shape.workgroup[1], &shape.workgroup[2]);
  shape.dispatch_id = dispatch.Number("id");
  return shape;
}

std::string ToolPath() {
  return SIMROCM_TEST_TOOL;
}

}  // namespace rocattach
