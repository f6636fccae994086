// Finds the functions that the stub calls in one target.
#ifndef ROCATTACH_INJECTOR_ELF_SYMBOL_LOOKUP_H_
#define ROCATTACH_INJECTOR_ELF_SYMBOL_LOOKUP_H_

#include <sys/types.h>

#include <memory>
#include <vector>

#include "injector/elf/library_facts.h"
#include "injector/failure.h"
#include "injector/process/maps.h"
#include "injector/process/target_memory.h"
#include "injector/stub/remote_address.h"

namespace rocattach {

struct LoaderFunctions {
  RemoteAddress dlopen;
  RemoteAddress dlsym;
  RemoteAddress dlerror;
  RemoteAddress errno_location;
  // Null where libpthread is not loaded (glibc before 2.34): there is one thread only.
  RemoteAddress mutex_trylock;
  RemoteAddress mutex_unlock;
};

// The places in a glibc that CheckCallContext and FindLoaderLocks read; null or empty
// if they were not found.
struct LibcState {
  RemoteAddress loader_state_slot;  // holds the address of ld.so's _rtld_global
  RemoteAddress malloc_slot;        // holds the address of the malloc that is in use
  std::vector<RemoteAddress> signal_returns;  // code that signal handlers return to
  std::shared_ptr<const LibraryFacts> facts;  // the library's with the first slot
};

// Finds them in the target's libc.so.6 and, for a glibc before 2.34, in its libdl and
// libpthread. Each address lies in an executable mapping of the library that has it.
// kNoDlopen: no glibc, or two of them (dlmopen, LD_AUDIT), so that the choice would be
// a guess. kBadElf: a library that cannot be parsed. `state` may be null.
StepResult FindLoaderFunctions(pid_t pid, const Maps& maps, LibraryCache* cache,
                               LoaderFunctions* functions, LibcState* state = nullptr);

// True if the code in memory at each function is that of its file in `maps`, which
// verifies the cached facts of that file. Mappings without facts are not trusted.
bool HaveTheirCode(const LoaderFunctions& functions, const Maps& maps,
                   const TargetMemory& memory);

// True for the file names of glibc's C library: libc.so.6, libc-2.31.so.
bool IsLibcName(absl::string_view basename);
// The same for libc, libdl and libpthread.
bool IsGlibcLibrary(absl::string_view basename);
// The same for them and the dynamic loader: ld-linux-x86-64.so.2, ld-2.31.so.
bool IsLoaderOrGlibc(absl::string_view basename);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_ELF_SYMBOL_LOOKUP_H_
