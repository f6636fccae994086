// From the name of an exported function to its place in the file, which is what a
// uprobe is attached to.
#ifndef ROCATTACH_INJECTOR_FUNCTION_OFFSET_H_
#define ROCATTACH_INJECTOR_FUNCTION_OFFSET_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rocattach {

// Offset in the ELF file `fd` of the first instruction of `function` (for the watcher:
// "hsa_init"). The descriptor stays the caller's and its position does not move; it may
// be of any file that a target mapped, its contents are not trusted.
// INVALID_ARGUMENT: not an ELF file, or a broken one. UNIMPLEMENTED: another class,
// byte order or machine, an IFUNC, no hash table. NOT_FOUND: exports no such function.
// OUT_OF_RANGE: truncated, or beyond the parser's limits.
absl::StatusOr<uint64_t> FindFunctionFileOffset(int fd, absl::string_view function);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_FUNCTION_OFFSET_H_
