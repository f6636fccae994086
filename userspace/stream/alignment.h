// Times of recordings of different machines, or of different boots of one, on one
// clock.
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

// How the clock of a recording (CLOCK_BOOTTIME) relates to that of another.
struct Alignment {
  // To be added to its times, modulo 2^64.
  uint64_t offset_ns = 0;
  // Both have the same clock.
  bool same_clock = false;
  // Not: the recording does not say.
  bool known = false;

  // A time of the recording on the other clock; 0 (not known) stays 0.
  uint64_t Shifted(uint64_t time_ns) const {
    return time_ns == 0 ? 0 : time_ns + offset_ns;
  }
};

// From `other` to `base`: the same clock if both were recorded in one boot of a
// machine, else by what both machines took for the time of day.
Alignment Align(const v1::StreamHeader& base, const v1::StreamHeader& other);

// Shifts every time in a message, whatever its type.
void ShiftTimes(const Alignment& alignment, google::protobuf::Message* message);

// Whether a field is a time that ShiftTimes() shifts; else it is a duration, or a time
// of another clock.
bool IsShiftedField(const google::protobuf::FieldDescriptor& field);

// The uncompressed payload of a frame with its times shifted; nothing if it cannot be
// decoded, or would no longer fit into a frame.
std::optional<std::string> ShiftPayload(const Alignment& alignment, uint8_t frame_type,
                                        absl::string_view payload);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_ALIGNMENT_H_
