// The first frame of a recording, and the limits of text in a stream.
#ifndef ROCATTACH_USERSPACE_STREAM_STREAM_HEADER_H_
#define ROCATTACH_USERSPACE_STREAM_STREAM_HEADER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "schemas/stream.pb.h"
#include "userspace/base/clock.h"

namespace rocattach {

// Maximum length of a text field, in bytes.
inline constexpr size_t kTextLimit = 64 << 10;

// Drops arguments from the end until all of them take at most 64 KiB.
void LimitArguments(google::protobuf::RepeatedPtrField<std::string>* arguments);

v1::ClockSnapshot ClockToProto(const ClockSnapshot& clock);

// Fills in all but the clock: a new random id, this machine, this process, the schemas.
v1::StreamHeader MakeStreamHeader(const std::vector<std::string>& recorder_arguments);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_STREAM_HEADER_H_
