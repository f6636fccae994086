#include "userspace/watch/windows/attach_warm_up.h"

#include <unistd.h>

#include "injector/elf/symbol_lookup.h"
#include "injector/process/maps.h"
#include "injector/process/target_checks.h"
#include "injector/process/target_memory.h"
#include "injector/process/thread_status.h"
#include "injector/stub/code_cave.h"
#include "injector/stub/stub.h"

namespace rocattach {
namespace {

void ReadOwnLibraries(const std::string& collector, LibraryCache* cache) {
  const pid_t pid = getpid();
  auto maps = Maps::ReadFiles(pid, RemoteAddress(reinterpret_cast<uint64_t>(&pid)));
  auto memory = TargetMemory::Open(pid, pid);
  if (!maps.ok() || !memory.ok()) return;
  LoaderFunctions functions;
  LibcState libc;
  CodeCave cave;
  (void)CheckMappings(*maps, collector, false);
  if (!FindLoaderFunctions(pid, *maps, cache, &functions, &libc).ok()) return;
  (void)FindCodeCave(pid, *maps, *memory, cache, functions.dlopen, StubBytes(), &cave);
}

}  // namespace

void WarmUpAttach(const std::string& collector, LibraryCache* cache) {
  const pid_t self = getpid();
  auto status = ReadThreadStatus(self, gettid());
  if (!status.ok()) return;
  (void)CheckIdentity(self, 1);
  (void)CheckNotSecure(self);
  (void)CheckCollector(self, *status, collector);
  ReadOwnLibraries(collector, cache);
}

}  // namespace rocattach
