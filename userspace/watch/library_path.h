// The directories of LD_LIBRARY_PATH: programs that are started from the same shell
// find their libraries there.
#ifndef ROCATTACH_USERSPACE_WATCH_LIBRARY_PATH_H_
#define ROCATTACH_USERSPACE_WATCH_LIBRARY_PATH_H_

#include <string>
#include <vector>

namespace rocattach {

// Of this program's environment, in order.
std::vector<std::string> LibraryPathDirectories();

// The globs under which they contain HSA runtimes, for LibraryScanOptions.
std::vector<std::string> LibraryPathPlaces();

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_LIBRARY_PATH_H_
