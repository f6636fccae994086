// Locks that the C library keeps for itself.
#ifndef ROCATTACH_INJECTOR_LIBRARY_LOCKS_H_
#define ROCATTACH_INJECTOR_LIBRARY_LOCKS_H_

#include "injector/maps.h"
#include "injector/remote_address.h"

namespace rocattach {

// Whether the futex at `address` is a lock of the C library, the dynamic loader or one
// of malloc's arenas. A thread that waits for such a lock may hold others of them: fork
// holds all arenas before the one that it waits for. dlopen in that thread would wait
// for its own thread. `maps`: of the whole process. A lock of the program that is where
// an arena would be is taken for one, too.
bool IsLibraryLock(const Maps& maps, RemoteAddress address);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_LIBRARY_LOCKS_H_
