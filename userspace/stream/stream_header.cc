#include "userspace/stream/stream_header.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <random>

#include "absl/strings/strip.h"
#include "userspace/base/file.h"
#include "userspace/base/version.h"
#include "userspace/stream/utf8.h"

namespace rocattach {
namespace {

// Command lines can have megabytes; the stream keeps their beginning.
constexpr size_t kArgumentsLimit = 64 << 10;

std::string RandomId() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) {
    uint32_t word = random();
    id.append(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  return id;
}

}  // namespace

void LimitArguments(google::protobuf::RepeatedPtrField<std::string>* arguments) {
  size_t bytes = 0;
  int keep = 0;
  // Two bytes more for each: its tag and length.
  while (keep < arguments->size() &&
         bytes + arguments->Get(keep).size() + 2 <= kArgumentsLimit) {
    bytes += arguments->Get(keep++).size() + 2;
  }
  arguments->DeleteSubrange(keep, arguments->size() - keep);
}

v1::ClockSnapshot ClockToProto(const ClockSnapshot& clock) {
  v1::ClockSnapshot proto;
  proto.set_boottime_ns(clock.boottime_ns);
  proto.set_monotonic_ns(clock.monotonic_ns);
  proto.set_monotonic_raw_ns(clock.monotonic_raw_ns);
  proto.set_realtime_ns(clock.realtime_ns);
  return proto;
}

v1::StreamHeader MakeStreamHeader(const std::vector<std::string>& recorder_arguments) {
  v1::StreamHeader header;
  header.set_recording_id(RandomId());
  header.set_producer_version(ROCATTACH_VERSION);
  utsname name;
  if (uname(&name) == 0) {
    header.set_hostname(name.nodename);
    header.set_kernel_release(name.release);
    header.set_machine(name.machine);
  }
  if (auto boot_id = ReadFile("/proc/sys/kernel/random/boot_id", 128); boot_id.ok()) {
    header.set_boot_id(std::string(absl::StripSuffix(*boot_id, "\n")));
  }
  header.set_recorder_pid(static_cast<uint32_t>(getpid()));
  for (const std::string& argument : recorder_arguments) {
    header.add_recorder_arguments(argument);
  }
  LimitArguments(header.mutable_recorder_arguments());
  SanitizeStrings(kTextLimit, &header);
  const auto* file = v1::StreamHeader::descriptor()->file();
  for (int i = 0; i < file->dependency_count(); ++i) {
    file->dependency(i)->CopyTo(header.mutable_descriptors()->add_file());
  }
  file->CopyTo(header.mutable_descriptors()->add_file());
  return header;
}

}  // namespace rocattach
