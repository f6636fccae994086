// The facts that an attach has found out about one target.
#ifndef ROCATTACH_INJECTOR_PROCESS_TARGET_FACTS_H_
#define ROCATTACH_INJECTOR_PROCESS_TARGET_FACTS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "injector/elf/symbol_lookup.h"
#include "injector/process/maps.h"
#include "injector/process/target_memory.h"
#include "injector/stub/code_cave.h"
#include "injector/stub/stub.h"

namespace rocattach {

struct TargetFacts {
  // The request's path that the target can load, or the library's name.
  std::string collector_path;
  StubKind stub_kind = StubKind::kByPath;
  std::string why_sent;  // with StubKind::kByDescriptor: why no path can be used
  std::optional<Maps> maps;
  std::optional<TargetMemory> memory;
  LoaderFunctions functions;
  LibcState libc;
  CodeCave cave;
  int64_t clock_offset_ns = 0;  // for the collector's configuration
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_PROCESS_TARGET_FACTS_H_
