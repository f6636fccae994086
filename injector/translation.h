// Programs whose code the processor does not execute where it is mapped: a translator
// (Valgrind, qemu-user) reads it and executes code of its own making. It also reads a
// probe's breakpoint, which only the kernel knows how to pass.
#ifndef ROCATTACH_INJECTOR_TRANSLATION_H_
#define ROCATTACH_INJECTOR_TRANSLATION_H_

#include <sys/types.h>

#include <string>

#include "injector/maps.h"

namespace rocattach {

// The kernel gave the program no dynamic loader, and it is none itself: the processor
// executes nothing but its own code and what it makes or loads by itself. False if that
// cannot be read. Does not wait for the process's mappings.
bool LacksLoader(pid_t pid);

// How it is known that process `pid`, which has these mappings and libraries among them,
// does not execute the libraries where they are mapped, in words; empty: it does.
// - It lacks a loader (Valgrind, whose tools are static). A static program that loads
//   libraries by itself looks the same.
// - It has mapped a program or library as a loader maps it, with its data at another
//   place of the file, and without the right to execute any of it (qemu-user). Where
//   that seems to be so, mappings are read once more.
std::string HowTranslated(pid_t pid, const Maps& maps);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_TRANSLATION_H_
