// Names of output files with rocprofv3's keys: %hostname%, %pid%, {pid}, %p, %env{X}% …
#ifndef ROCATTACH_USERSPACE_RECORD_OUTPUT_OUTPUT_PATH_H_
#define ROCATTACH_USERSPACE_RECORD_OUTPUT_OUTPUT_PATH_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "userspace/base/process.h"

namespace rocattach {

// The values of the keys. Values that come from a process are cleaned before they
// become part of a path: no '/', no control characters, never "." or "..".
struct OutputKeys {
  ProcessInfo process;  // the target; all zero for the machine's own file
  std::string hostname;
  std::string launch_date;  // YYYY-MM-DD
  std::string launch_time;  // HH.MM.SS
  std::string working_directory;
  // True if the process is from a recording: nothing is looked up on this machine, and
  // its process group and session, which the recording does not have, are 0.
  bool recorded = false;
  // A variable of the process (or of the service); nullopt if it is not set.
  std::function<std::optional<std::string>(absl::string_view)> environment;
};

// The keys of the machine as it is now, for one process. `process` may be empty.
OutputKeys CurrentOutputKeys(ProcessInfo process);

// Replaces every key in `pattern`. Unknown keys stay as they are; %argN% without such
// an argument vanishes, as in rocprofv3.
std::string ExpandOutputKeys(absl::string_view pattern, const OutputKeys& keys);

// True if the pattern has a key that differs between processes: then every process gets
// a file of its own.
bool NamesOneFilePerProcess(absl::string_view pattern);

// A process's text, cleaned to be one component of a path.
std::string CleanPathPart(absl::string_view text);

// Splits an absolute path in `file`: moves all that precedes the last slash before the
// first key into `directory`. Relative paths are left as they are.
void SplitOffDirectory(std::string* directory, std::string* file);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_OUTPUT_OUTPUT_PATH_H_
