// Determines from outside where a process's dynamic linker would find a library.
#ifndef ROCATTACH_USERSPACE_WATCH_DISCOVERY_LIBRARY_SEARCH_H_
#define ROCATTACH_USERSPACE_WATCH_DISCOVERY_LIBRARY_SEARCH_H_

#include <string>
#include <vector>

namespace rocattach {

// Path, in the process's root, of the first of `names` that the linker would find for a
// dlopen() in the library `loading`: RPATH of that library, LD_LIBRARY_PATH (from the
// text of /proc/PID/environ), its RUNPATH, the linker's cache, the standard
// directories. `root` is /proc/PID/root. Empty: not found.
std::string FindLibrary(const std::string& root, const std::string& loading,
                        const std::string& environment,
                        const std::vector<std::string>& names);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_DISCOVERY_LIBRARY_SEARCH_H_
