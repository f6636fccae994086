// Programs under a translator (Valgrind, qemu-user): the processor does not execute
// their code where it is mapped; the translator reads it and executes code that it
// makes. It also reads a probe's breakpoint, which only the kernel knows how to pass.
#ifndef ROCATTACH_INJECTOR_PROCESS_TRANSLATION_H_
#define ROCATTACH_INJECTOR_PROCESS_TRANSLATION_H_

#include <sys/types.h>

#include <string>

#include "injector/process/maps.h"

namespace rocattach {

// True if the kernel gave the program no dynamic loader and it is not one itself: the
// processor executes only the program's own code, and code that it makes or loads by
// itself. False if that cannot be read. Does not wait for the process's mappings.
bool LacksLoader(pid_t pid);

// Says in words how it is known that process `pid`, with these mappings and libraries
// among them, does not execute the libraries where they are mapped; empty if it does.
// - It lacks a loader (Valgrind, whose tools are static). A static program that loads
//   libraries by itself looks the same.
// - It has mapped a program or library as a loader maps it, with its data from another
//   part of the file, but without the right to execute any of it (qemu-user). Where
//   that seems to be so, the mappings are read once more.
std::string HowTranslated(pid_t pid, const Maps& maps);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_PROCESS_TRANSLATION_H_
