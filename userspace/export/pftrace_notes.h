// What a trace says of a process itself.
#ifndef ROCATTACH_USERSPACE_EXPORT_PFTRACE_NOTES_H_
#define ROCATTACH_USERSPACE_EXPORT_PFTRACE_NOTES_H_

#include <string>

#include "schemas/stream.pb.h"

namespace rocattach {

// "attached", "missed: …".
std::string VerdictText(const v1::WindowEvent& window);
// "lost: 12 ring full, 3 unseen"; empty if nothing was lost.
std::string LossesText(const v1::LossAccount& account);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_PFTRACE_NOTES_H_
