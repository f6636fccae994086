// Puts the times of recordings from different machines, or from different boots of one
// machine, on one clock.
#ifndef ROCATTACH_USERSPACE_STREAM_ALIGNMENT_H_
#define ROCATTACH_USERSPACE_STREAM_ALIGNMENT_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "schemas/stream.pb.h"

namespace rocattach {

// Relation of a recording's clock (CLOCK_BOOTTIME) to the clock of another recording.
struct Alignment {
  // Added to the recording's times, modulo 2^64.
  uint64_t offset_ns = 0;
  // True if both recordings have the same clock.
  bool same_clock = false;
  // False if a recording lacks the clock readings that are needed.
  bool known = false;

  // Converts a time of the recording to the other clock; 0 (not known) stays 0.
  uint64_t Shifted(uint64_t time_ns) const {
    return time_ns == 0 ? 0 : time_ns + offset_ns;
  }
};

// Aligns `other` with `base`: they have the same clock if both were recorded in the
// same boot of one machine; otherwise their times of day are assumed to agree.
Alignment Align(const v1::StreamHeader& base, const v1::StreamHeader& other);

// Shifts every time in a message, whatever its type.
void ShiftTimes(const Alignment& alignment, google::protobuf::Message* message);

// True if the field is a time that ShiftTimes() shifts, rather than a duration or a
// time of another clock.
bool IsShiftedField(const google::protobuf::FieldDescriptor& field);

// Returns the uncompressed payload of a frame with its times shifted; nothing if it
// cannot be decoded, or would no longer fit into a frame.
std::optional<std::string> ShiftPayload(const Alignment& alignment, uint8_t frame_type,
                                        absl::string_view payload);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_ALIGNMENT_H_
