// The copy of rocprofiler-register in one target.
#ifndef ROCATTACH_INJECTOR_ELF_REGISTER_LIBRARY_H_
#define ROCATTACH_INJECTOR_ELF_REGISTER_LIBRARY_H_

#include <sys/types.h>

#include <string>

#include "injector/failure.h"
#include "injector/process/maps.h"
#include "injector/stub/remote_address.h"

namespace rocattach {

struct RegisterLibrary {
  std::string path;      // in the target's root
  RemoteAddress attach;  // rocprofiler_register_attach
  RemoteAddress detach;  // rocprofiler_register_detach
  // True if it lacks one of these two: this version cannot attach tools.
  bool cannot_attach = false;
  // Its executable mapping.
  RemoteAddress code_begin, code_end;
};

// Finds librocprofiler-register.so among the mappings of `pid`, and its two functions,
// whose code in memory is compared with the file's. kUnsupported: there is none, there
// are two (the choice would be a guess), or the version cannot attach tools. kBadElf:
// it cannot be parsed, or the code in memory is not the file's.
StepResult FindRegisterLibrary(pid_t pid, const Maps& maps, RegisterLibrary* library);

// The first mapping of the code of a library with this name, or with a name that begins
// with it and a dot; null if there is none.
const Mapping* FindMappedLibrary(const Maps& maps, absl::string_view name);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_ELF_REGISTER_LIBRARY_H_
