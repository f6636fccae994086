// What a trace says of a process itself.
#ifndef ROCATTACH_USERSPACE_EXPORT_PFTRACE_PFTRACE_NOTES_H_
#define ROCATTACH_USERSPACE_EXPORT_PFTRACE_PFTRACE_NOTES_H_

#include <string>

#include "schemas/stream.pb.h"
#include "userspace/stream/alignment.h"

namespace rocattach {

// "attached", "missed: …".
std::string VerdictText(const v1::WindowEvent& window);
// "lost: 12 ring full, 3 unseen"; empty if nothing was lost.
std::string LossesText(const v1::LossAccount& account);
// How the times of a recording were put on the trace's clock, and how wrong they may be
// where that is known; empty if they are those of that clock.
std::string AlignmentText(const v1::StreamHeader& header, const Alignment& alignment);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_PFTRACE_PFTRACE_NOTES_H_
