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
  // The last recording is still being made: the outputs of each process are completed
  // when it ends.
  bool when_ended = false;
  // Neither progress nor the names of outputs.
  bool quiet = false;
  ExportOptions output;
};

// Prints the outputs on standard output, then on standard error what went wrong.
// Returns the exit status of `rocattach convert`. SIGINT and SIGTERM end the reading.
int Convert(const ConversionRequest& request);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_CONVERSION_H_
