// Conversion from the structs of the other parts to the messages of the stream.
#ifndef ROCATTACH_USERSPACE_RECORD_DRAIN_CONVERT_H_
#define ROCATTACH_USERSPACE_RECORD_DRAIN_CONVERT_H_

#include "absl/strings/string_view.h"
#include "injector/outcome.h"
#include "schemas/records.pb.h"
#include "schemas/stream.pb.h"
#include "userspace/abi/shared_memory.h"
#include "userspace/base/process.h"

namespace rocattach {

// Fills in what was read from /proc; the caller adds start_ns, window_id, seen_ns and
// the rest.
v1::Process ProcessToProto(const ProcessInfo& info);

// Convert dictionary entries of a collector. `text` is the entry's text, already
// bounded: an agent's is "name\0product".
v1::Agent AgentToProto(const rocattach_agent_entry& entry, absl::string_view text);
v1::Queue QueueToProto(const rocattach_queue_entry& entry);
v1::Kernel KernelToProto(const rocattach_kernel_entry& entry, absl::string_view text);
v1::CodeObject CodeObjectToProto(const rocattach_code_object_entry& entry,
                                 absl::string_view text);

// Fills in stage, reason, errno, retryable, target_modified, detail and three times.
void FillOutcome(const AttachOutcome& outcome, v1::WindowEvent* event);

// The collector's description of itself in the control block. `control` is a private
// copy.
v1::Collector CollectorToProto(const rocattach_control& control);

// Returns how a process ended, from the status word of wait(2).
v1::ProcessEnd EndFromWaitStatus(int wait_status);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_DRAIN_CONVERT_H_
