// Makes attaches fast from the first one on.
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_ATTACH_WARM_UP_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_ATTACH_WARM_UP_H_

#include <string>

#include "injector/elf/library_facts.h"

namespace rocattach {

// Performs the steps of an attach on the calling process, as far as they change
// nothing, so that the first held thread does not wait for page faults, heap growth and
// the parsing of libraries. Called by each thread that attaches, before its first
// window. `collector` is the path of the collector's file. Errors are ignored: they
// will occur again in an attach, and are reported then.
void WarmUpAttach(const std::string& collector, LibraryCache* cache);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_ATTACH_WARM_UP_H_
