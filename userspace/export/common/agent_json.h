// An agent as rocprofiler-sdk writes it in JSON: in the list `agents` of rocprofv3's
// files, and in `extdata` of rocpd's agents, where readers demand every key.
#ifndef ROCATTACH_USERSPACE_EXPORT_COMMON_AGENT_JSON_H_
#define ROCATTACH_USERSPACE_EXPORT_COMMON_AGENT_JSON_H_

#include "schemas/records.pb.h"
#include "userspace/export/common/export_process.h"
#include "userspace/export/common/json_text.h"

namespace rocattach {

// Adds the members to an object. What is not known is 0 or empty; numbers have the
// width that they have in rocprofiler-sdk. `agent` is one of the process's.
void AddAgentMembers(const ExportProcess& process, const v1::Agent& agent,
                     JsonObject* json);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_COMMON_AGENT_JSON_H_
