// From where hsa_init was called, as far as that says whether dlopen may be called.
#ifndef ROCATTACH_INJECTOR_CALL_CONTEXT_H_
#define ROCATTACH_INJECTOR_CALL_CONTEXT_H_

#include <sys/types.h>
#include <sys/user.h>

#include "injector/failure.h"
#include "injector/maps.h"
#include "injector/symbol_lookup.h"
#include "injector/target_memory.h"

namespace rocattach {

struct CallContext {
  pid_t pid = 0;
  user_regs_struct registers = {};  // of the stopped thread
  const Maps* maps = nullptr;       // the C library and the stack, or more
  const TargetMemory* memory = nullptr;
  const LibcState* libc = nullptr;
};

// dlopen allocates memory and must not be called again inside itself or malloc. Refused
// (kUnsafeContext) are:
// - a signal handler that interrupted the C library, the dynamic loader or another
//   allocator anywhere but in a system call that only waits or sends signals, and any
//   handler of SIGABRT;
// - a call from inside an allocator that the program brings itself (its calls are found
//   by unwinding the stack; where that does not work, by any address of the allocator
//   on it).
// Looks at the nearest 32 KiB of the stack; of a program with glibc's malloc, which
// calls nobody, only at those, which costs some microseconds. With the same call it
// reads the address of `_rtld_global`, null if it cannot.
StepResult CheckCallContext(const CallContext& context, RemoteAddress* loader_state);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_CALL_CONTEXT_H_
