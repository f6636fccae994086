// Finds the offset in the file of an exported function by its name; that is where a
// uprobe is attached.
#ifndef ROCATTACH_INJECTOR_ELF_FUNCTION_OFFSET_H_
#define ROCATTACH_INJECTOR_ELF_FUNCTION_OFFSET_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rocattach {

// Offset in the ELF file `fd` of the first instruction of `function` (for the watcher:
// "hsa_init"). The caller keeps the descriptor, whose position does not change; it may
// refer to any file that a target mapped, so its contents are not trusted.
// INVALID_ARGUMENT: not an ELF file, or a broken one. UNIMPLEMENTED: another class,
// byte order or machine, an IFUNC, no hash table. NOT_FOUND: the file exports no such
// function. OUT_OF_RANGE: truncated, or beyond the parser's limits.
absl::StatusOr<uint64_t> FindFunctionFileOffset(int fd, absl::string_view function);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_ELF_FUNCTION_OFFSET_H_
