// Runs a program under simrocm-run with the test tool and reads the output of both.
#ifndef ROCATTACH_TESTS_INTEGRATION_SIMROCM_SIMROCM_SESSION_H_
#define ROCATTACH_TESTS_INTEGRATION_SIMROCM_SIMROCM_SESSION_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/integration/simgpu/run_program.h"
#include "tests/simrocm/counter_truth.h"

namespace rocattach {

// "name key=value key=value"
struct Event {
  std::string name;
  std::map<std::string, std::string> fields;

  std::string Text(const std::string& key) const;
  uint64_t Number(const std::string& key) const;
  double Real(const std::string& key) const;
};

struct SessionResult {
  ProgramResult program;
  std::map<std::string, std::string> printed;  // the program's last line
  std::vector<Event> tool;                     // written by the test tool
  std::vector<Event> log;                      // logged by the simulators

  std::vector<Event> Tool(const std::string& name) const;
  // Names of logged events that are in `names`, in the order of the log.
  std::vector<std::string> LogOrder(const std::vector<std::string>& names) const;
  // The status of a "check" line; -1 if there is none.
  int Check(const std::string& name) const;
};

struct SessionOptions {
  std::string plan;                      // SIMROCM_TOOL
  std::vector<std::string> run_options;  // for simrocm-run
  std::vector<std::string> command;      // the program; empty: the workload
  std::vector<std::string> steps;        // for the workload
  std::map<std::string, std::string> environment;
  bool load_tool = true;  // through ROCP_TOOL_LIBRARIES
};

SessionResult RunSession(const SessionOptions& options);

// Shape of a dispatch that the tool has written ("traced" or "counted").
simrocm::DispatchShape ShapeOf(const Event& dispatch);

// The test tool's file.
std::string ToolPath();

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_INTEGRATION_SIMROCM_SIMROCM_SESSION_H_
