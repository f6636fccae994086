// Room for the stub: the zero-filled rest of the last page of a library's code.
//
// A code segment that comes from a file ends somewhere inside a page; the rest of that
// page is mapped, executable, and unused. Writing there copies that one page for this
// process; no mapping is added or changed.
#ifndef ROCATTACH_INJECTOR_STUB_CODE_CAVE_H_
#define ROCATTACH_INJECTOR_STUB_CODE_CAVE_H_

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "injector/elf/library_facts.h"
#include "injector/failure.h"
#include "injector/process/maps.h"
#include "injector/process/target_memory.h"
#include "injector/stub/remote_address.h"

namespace rocattach {

struct CodeCave {
  RemoteAddress address;  // 16-byte aligned
  size_t bytes = 0;       // up to the end of the page
  std::string before;     // present contents: zeros, or what `may_replace` accepted
};

// Finds at least `bytes` zero bytes: first in the library around `window` (so that the
// stub's calls appear to come from the library that contains the window), then in libc,
// ld.so, libstdc++, libhsakmt, then in other libraries. What an earlier attach left
// behind is not zero and is kept, unless `may_replace` accepts it. kNoCave if there is
// no room.
StepResult FindCodeCave(
    pid_t pid, const Maps& maps, const TargetMemory& memory, LibraryCache* cache,
    RemoteAddress window, size_t bytes, CodeCave* cave,
    absl::FunctionRef<bool(absl::string_view)> may_replace = [](absl::string_view) {
      return false;
    });

// Offset of the first free byte in `tail`, aligned for a page-aligned end: after the
// last byte that is not zero. tail.size() if nothing is free.
size_t FreeBytesBegin(absl::string_view tail);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_STUB_CODE_CAVE_H_
