// What an attach to a running process finds out before it stops a thread.
#ifndef ROCATTACH_INJECTOR_PREPARED_TARGET_H_
#define ROCATTACH_INJECTOR_PREPARED_TARGET_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "injector/code_cave.h"
#include "injector/failure.h"
#include "injector/maps.h"
#include "injector/remote_address.h"
#include "injector/stub.h"
#include "injector/symbol_lookup.h"
#include "injector/target_memory.h"

namespace rocattach {

// The process runs on between the preparation and the stop, and may unmap libraries or
// replace its program, so all of this has to be confirmed once the thread has stopped.
struct PreparedTarget {
  // Bytes of the target as they were.
  struct Sample {
    RemoteAddress address;
    std::string bytes;
  };

  std::string collector_path;  // the one that the target can load
  StubKind stub_kind = StubKind::kByPath;
  std::string why_sent;      // with StubKind::kByDescriptor: why no path will do
  std::optional<Maps> maps;  // of the whole process
  std::optional<TargetMemory> memory;
  LoaderFunctions functions;
  LibcState libc;
  CodeCave cave;
  std::vector<Sample> samples;  // of the functions and of the cave

  bool ready() const { return !samples.empty(); }

  // Reads what StillHolds compares. Everything else is set.
  StepResult TakeSamples();
  // Whether the functions and the cave are in memory as they were.
  bool StillHolds() const;
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_PREPARED_TARGET_H_
