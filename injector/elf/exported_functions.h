// Exported functions of a library in one target.
#ifndef ROCATTACH_INJECTOR_ELF_EXPORTED_FUNCTIONS_H_
#define ROCATTACH_INJECTOR_ELF_EXPORTED_FUNCTIONS_H_

#include <sys/types.h>

#include <initializer_list>
#include <vector>

#include "absl/status/statusor.h"
#include "injector/process/maps.h"
#include "injector/stub/remote_address.h"

namespace rocattach {

// Finds functions of the library whose code is at `mapping` in process `pid`. Returns
// their addresses in the order of `names`; null for one that the library does not
// export. Each address lies in `mapping`, and the code there is the file's; otherwise
// INVALID_ARGUMENT. Other errors come from reading the process and parsing the file.
absl::StatusOr<std::vector<RemoteAddress>> FindExportedFunctions(
    pid_t pid, const Mapping& mapping, std::initializer_list<const char*> names);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_ELF_EXPORTED_FUNCTIONS_H_
