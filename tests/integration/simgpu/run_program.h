// Runs a program to its end and keeps what it printed.
#ifndef ROCATTACH_TESTS_INTEGRATION_SIMGPU_RUN_PROGRAM_H_
#define ROCATTACH_TESTS_INTEGRATION_SIMGPU_RUN_PROGRAM_H_

#include <map>
#include <string>
#include <vector>

namespace rocattach {

struct ProgramResult {
  int exit_status = -1;  // -1 if a signal ended it
  int signal = 0;
  std::string output;  // standard output
  std::string errors;  // standard error
};

// Runs `arguments` (the first is the program, looked up in PATH) with `environment`
// added to this process's.
ProgramResult RunProgram(const std::vector<std::string>& arguments,
                         const std::map<std::string, std::string>& environment = {});

// The fields of the last line: "a=1 b=x" gives {a: 1, b: x}.
std::map<std::string, std::string> LastLineFields(const std::string& output);

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_INTEGRATION_SIMGPU_RUN_PROGRAM_H_
