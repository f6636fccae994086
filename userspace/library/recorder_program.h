// Where the program `rocattach` is that belongs to this library.
#ifndef ROCATTACH_USERSPACE_LIBRARY_RECORDER_PROGRAM_H_
#define ROCATTACH_USERSPACE_LIBRARY_RECORDER_PROGRAM_H_

#include <string>

#include "absl/status/statusor.h"

namespace rocattach {

// ROCATTACH_PROGRAM if it is set, else where the installation, or the build, has the
// program relative to the file that this code was loaded from. NOT_FOUND names the
// places.
absl::StatusOr<std::string> FindRecorderProgram();

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_RECORDER_PROGRAM_H_
