// The words in which `rocattach attach` reports what became of a process.
#ifndef ROCATTACH_USERSPACE_CLI_ATTACH_WORDS_H_
#define ROCATTACH_USERSPACE_CLI_ATTACH_WORDS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "schemas/stream.pb.h"

namespace rocattach {

// How the collector got in, in words for --json.
std::string EntryOf(const v1::WindowEvent& window);

// How long the thread that was entered stood still. One that was blocked in a system
// call would not have run meanwhile.
uint64_t StoppedNs(const v1::WindowEvent& window);
// The thread that was; 0: none.
uint32_t StoppedThread(const v1::WindowEvent& window);
std::string StopText(const v1::WindowEvent& window);

// "loader-busy" for ATTACH_REASON_LOADER_BUSY.
std::string ReasonName(v1::AttachReason reason);

// Why a process has no verdict, as a word for --json.
std::string ReasonOf(const absl::Status& status);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_ATTACH_WORDS_H_
