// A conversion from the command line: recordings to files, with messages for users.
#ifndef ROCATTACH_USERSPACE_CLI_CONVERSION_H_
#define ROCATTACH_USERSPACE_CLI_CONVERSION_H_

#include <string>
#include <vector>

#include "userspace/export/export_format.h"

namespace rocattach {

struct ConversionRequest {
  std::vector<std::string> paths;    // recordings; "-" is standard input
  std::vector<std::string> formats;  // names of formats; at least one
  std::string directory = ".";
  std::string file = "%hostname%/%pid%";
  // The last recording is still being made: each process's outputs are completed when
  // that process ends.
  bool when_ended = false;
  // Print neither progress nor the names of outputs.
  bool quiet = false;
  ExportOptions output;
};

// Prints the names of outputs on standard output, then errors on standard error.
// Returns the exit status of `rocattach convert`. SIGINT and SIGTERM end the reading.
int Convert(const ConversionRequest& request);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_CONVERSION_H_
