#include "tests/integration/simgpu/run_program.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>

namespace rocattach {
namespace {

// Reads a file in memory: unlike a pipe it holds any amount without a reader.
std::string ReadAll(int fd) {
  std::string text;
  char buffer[4096];
  off_t offset = 0;
  ssize_t got;
  while ((got = pread(fd, buffer, sizeof(buffer), offset)) > 0) {
    text.append(buffer, static_cast<size_t>(got));
    offset += got;
  }
  return text;
}

}  // namespace

ProgramResult RunProgram(const std::vector<std::string>& arguments,
                         const std::map<std::string, std::string>& environment) {
  ProgramResult result;
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  int output = memfd_create("output", MFD_CLOEXEC);
  int errors = memfd_create("errors", MFD_CLOEXEC);
  if (output < 0 || errors < 0) return result;
  pid_t child = fork();
  if (child == 0) {
    for (const auto& [name, value] : environment)
      setenv(name.c_str(), value.c_str(), 1);
    dup2(output, STDOUT_FILENO);
    dup2(errors, STDERR_FILENO);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  if (child > 0 && waitpid(child, &status, 0) == child) {
    if (WIFEXITED(status)) result.exit_status = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  }
  result.output = ReadAll(output);
  result.errors = ReadAll(errors);
  close(output);
  close(errors);
  return result;
}

std::map<std::string, std::string> LastLineFields(const std::string& output) {
  std::map<std::string, std::string> fields;
  std::string line, last;
  std::istringstream lines(output);
  while (std::getline(lines, line)) {
    if (!line.empty()) last = line;
  }
  std::istringstream words(last);
  std::string word;
  while (words >> word) {
    size_t equals = word.find('=');
    if (equals != std::string::npos) {
      fields[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  return fields;
}

}  // namespace rocattach
