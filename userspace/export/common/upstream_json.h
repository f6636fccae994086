// Agents, code objects and kernels as rocprofiler-sdk writes them in JSON: in the lists
// of rocprofv3's files, and in `extdata` of rocpd, from which its views take columns.
#ifndef ROCATTACH_USERSPACE_EXPORT_COMMON_UPSTREAM_JSON_H_
#define ROCATTACH_USERSPACE_EXPORT_COMMON_UPSTREAM_JSON_H_

#include <cstdint>

#include "schemas/records.pb.h"
#include "userspace/export/common/export_process.h"
#include "userspace/export/common/json_text.h"

namespace rocattach {

// Adds the members of an agent to an object: all of them, because readers demand every
// key. Unknown values are 0 or empty; numbers have the width that they have in
// rocprofiler-sdk. `agent` must be one of the process's.
void AddAgentMembers(const ExportProcess& process, const v1::Agent& agent,
                     JsonObject* json);

// True if the code object was loaded from memory, not from a file.
bool IsInMemory(const v1::CodeObject& object);

// Each adds the members to an object. Unknown values are 0 or empty. `agent`: the
// handle of the code object's agent.
void AddCodeObjectMembers(const v1::CodeObject& object, uint64_t agent,
                          JsonObject* json);
void AddKernelMembers(const ExportKernel& kernel, JsonObject* json);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_COMMON_UPSTREAM_JSON_H_
