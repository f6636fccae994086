// The words in which `rocattach attach` reports the outcome for a process.
#ifndef ROCATTACH_USERSPACE_CLI_ATTACH_WORDS_H_
#define ROCATTACH_USERSPACE_CLI_ATTACH_WORDS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "schemas/stream.pb.h"

namespace rocattach {

// The way in which the collector was loaded, as a word for --json.
std::string EntryOf(const v1::WindowEvent& window);

// Time for which the thread that was entered was stopped. A thread that was blocked in
// a system call would not have run in that time anyway.
uint64_t StoppedNs(const v1::WindowEvent& window);
// ID of that thread; 0: none was stopped.
uint32_t StoppedThread(const v1::WindowEvent& window);
std::string StopText(const v1::WindowEvent& window);

// "loader-busy" for ATTACH_REASON_LOADER_BUSY.
std::string ReasonName(v1::AttachReason reason);

// The reason why a process has no verdict, as a word for --json.
std::string ReasonOf(const absl::Status& status);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_ATTACH_WORDS_H_
