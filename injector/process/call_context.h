// Checks where hsa_init was called from, to decide whether dlopen may be called.
#ifndef ROCATTACH_INJECTOR_PROCESS_CALL_CONTEXT_H_
#define ROCATTACH_INJECTOR_PROCESS_CALL_CONTEXT_H_

#include <sys/types.h>
#include <sys/user.h>

#include "injector/elf/symbol_lookup.h"
#include "injector/failure.h"
#include "injector/process/maps.h"
#include "injector/process/target_memory.h"

namespace rocattach {

struct CallContext {
  pid_t pid = 0;
  user_regs_struct registers = {};  // the stopped thread's
  const Maps* maps = nullptr;       // the C library and the stack, or more
  const TargetMemory* memory = nullptr;
  const LibcState* libc = nullptr;
};

// dlopen allocates memory, and must not be called from within itself or malloc. Refused
// (kUnsafeContext) are:
// - a signal handler that interrupted the C library, the dynamic loader or another
//   allocator anywhere but in a system call that only waits or sends signals, and any
//   handler of SIGABRT;
// - a call from inside an allocator that the program brings itself (its calls are found
//   by unwinding the stack; where that does not work, by any address of the allocator
//   on it).
// Reads the nearest 32 KiB of the stack, and nothing else in a program with glibc's
// malloc, which calls no other code; that takes some microseconds. The same system call
// reads the address of `_rtld_global` into `*loader_state`, null on failure.
StepResult CheckCallContext(const CallContext& context, RemoteAddress* loader_state);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_PROCESS_CALL_CONTEXT_H_
