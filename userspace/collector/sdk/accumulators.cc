#include "userspace/collector/sdk/accumulators.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace rocattach::collector {
namespace {

constexpr char kFileName[] = "counter_defs.yaml";
constexpr size_t kMaxFileBytes = size_t{4} << 20;  // SDK 1.0.0: 280 KB
constexpr size_t kTextBytes = size_t{256} << 10;
constexpr const char* kResolutions[] = {"HIGH_RES", "LOW_RES"};

constexpr char kHead[] =
    "rocprofiler-sdk:\n"
    "  counters-schema-version: 1\n"
    "  counters:\n";

// One line of the file, without its end.
struct Line {
  const char* text;
  size_t bytes;

  bool Is(const char* other) const {
    return bytes == strlen(other) && memcmp(text, other, bytes) == 0;
  }
  // Stores what follows `prefix` in `name`, if it is a plain name that fits; else "".
  void Name(const char* prefix, char (&name)[ROCATTACH_PLAN_NAME_BYTES]) const {
    const size_t skip = strlen(prefix);
    name[0] = '\0';
    if (bytes <= skip || bytes - skip >= sizeof(name) ||
        memcmp(text, prefix, skip) != 0) {
      return;
    }
    for (size_t i = skip; i < bytes; ++i) {
      const char c = text[i];
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '_';
      if (!plain) return;
    }
    memcpy(name, text + skip, bytes - skip);
    name[bytes - skip] = '\0';
  }
  bool Begins(const char* prefix) const {
    return bytes >= strlen(prefix) && memcmp(text, prefix, strlen(prefix)) == 0;
  }
};

// Collects one definition of a counter after the other.
class Writer {
 public:
  Writer(const Architectures& architectures, char* out, size_t room)
      : architectures_(architectures), out_(out), room_(room) {
    if (room > sizeof(kHead)) memcpy(out, kHead, sizeof(kHead));
  }

  void AddLine(const Line& line) {
    if (line.Begins("  - name:")) {
      EndDefinition();
      line.Name("  - name: ", name_);
    } else if (line.Is("    - architectures:")) {
      EndDefinition();
      lists_architectures_ = true;
    } else if (lists_architectures_ && line.Begins("      - ")) {
      char name[ROCATTACH_PLAN_NAME_BYTES];
      line.Name("      - ", name);
      for (uint32_t i = 0; i < architectures_.count; ++i) {
        if (strcmp(architectures_.name[i], name) == 0) on_ |= 1u << i;
      }
    } else {
      lists_architectures_ = false;
      if (line.Is("      block: SQ")) of_sequencer_ = true;
    }
  }

  size_t End() {
    EndDefinition();
    return used_ > sizeof(kHead) - 1 ? used_ : 0;
  }

 private:
  void EndDefinition() {
    constexpr char kFollower[] = "SQ_ACCUM_PREV";
    if (name_[0] != '\0' && on_ != 0 && of_sequencer_ &&
        strncmp(name_, kFollower, strlen(kFollower)) != 0) {
      for (const char* resolution : kResolutions) Write(resolution);
    }
    on_ = 0;
    of_sequencer_ = lists_architectures_ = false;
  }

  void Write(const char* resolution) {
    char name[ROCATTACH_PLAN_NAME_BYTES];
    if (!AccumulatorName(name_, resolution, name)) return;
    char list[Architectures::kMax * 34] = "";
    size_t listed = 0;
    for (uint32_t i = 0; i < architectures_.count; ++i) {
      if ((on_ >> i & 1) == 0) continue;
      listed += static_cast<size_t>(snprintf(list + listed, sizeof(list) - listed,
                                             "%s%s", listed == 0 ? "" : ", ",
                                             architectures_.name[i]));
    }
    if (used_ >= room_) return;
    const int bytes = snprintf(out_ + used_, room_ - used_,
                               "  - name: %s\n"
                               "    description: Summed up over time, for rocattach\n"
                               "    properties: []\n"
                               "    definitions:\n"
                               "    - architectures: [%s]\n"
                               "      expression: accumulate(%s,%s)\n",
                               name, list, name_, resolution);
    // A truncated definition would be a wrong one.
    if (bytes < 0 || static_cast<size_t>(bytes) >= room_ - used_) {
      out_[used_] = '\0';
      room_ = used_;
      return;
    }
    used_ += static_cast<size_t>(bytes);
  }

  const Architectures& architectures_;
  char* out_;
  size_t room_;
  size_t used_ = sizeof(kHead) - 1;
  char name_[ROCATTACH_PLAN_NAME_BYTES] = "";  // the counter's; "": not a plain name
  uint32_t on_ = 0;                            // the architectures of the definition
  bool lists_architectures_ = false;
  bool of_sequencer_ = false;
};

// The path where the SDK itself looks. False: not known, or too long.
bool FindFile(const rocattach_sdk_functions& sdk, char (&path)[PATH_MAX]) {
  size_t bytes = 0;
  if (const char* folder = getenv("ROCPROFILER_METRICS_PATH")) {
    bytes = strlen(folder);
    const int end = snprintf(path, sizeof(path), "%s/%s", folder, kFileName);
    return bytes != 0 && end > 0 && static_cast<size_t>(end) < sizeof(path);
  }
  const char* library =
      LibraryOf(reinterpret_cast<const void*>(sdk.query_available_agents));
  if (library == nullptr) return false;
  bytes = strlen(library);
  for (int parents = 0; parents < 2; ++parents) {
    while (bytes != 0 && library[bytes - 1] != '/') --bytes;
    if (bytes == 0) return false;
    --bytes;  // the slash
  }
  const int end = snprintf(path, sizeof(path), "%.*s/share/rocprofiler-sdk/%s",
                           static_cast<int>(bytes), library, kFileName);
  return end > 0 && static_cast<size_t>(end) < sizeof(path);
}

void* Map(size_t bytes) {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory != MAP_FAILED ? memory : nullptr;
}

// The file's text, to be unmapped; nullptr if it cannot be read. Read rather than
// mapped: a file that shrinks meanwhile must not end the process. A file that is not an
// ordinary one cannot block the call; it yields nothing, or more than fits.
char* ReadFile(const char* path, size_t* bytes) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return nullptr;
  char* text = static_cast<char*>(Map(kMaxFileBytes));
  *bytes = 0;
  while (text != nullptr && *bytes < kMaxFileBytes) {
    const ssize_t got = read(fd, text + *bytes, kMaxFileBytes - *bytes);
    if (got <= 0) break;
    *bytes += static_cast<size_t>(got);
  }
  close(fd);
  return text;
}

Architectures ArchitecturesOf(const SdkAgents& agents) {
  Architectures all = {};
  for (uint32_t i = 0; i < agents.count() && all.count < Architectures::kMax; ++i) {
    const SdkAgent& agent = agents.at(i);
    bool added = !agent.gpu || agent.name[0] == '\0';
    for (uint32_t j = 0; j < all.count; ++j) {
      added |= strcmp(all.name[j], agent.name) == 0;
    }
    if (!added) all.name[all.count++] = agent.name;
  }
  return all;
}

}  // namespace

size_t WriteAccumulators(const char* known, size_t bytes,
                         const Architectures& architectures, char* out, size_t room) {
  if (room <= sizeof(kHead)) return 0;
  Writer writer(architectures, out, room);
  while (bytes != 0) {
    const void* end = memchr(known, '\n', bytes);
    // A last line without an end may be half of one.
    if (end == nullptr) break;
    const size_t length = static_cast<size_t>(static_cast<const char*>(end) - known);
    writer.AddLine({known, length});
    known += length + 1;
    bytes -= length + 1;
  }
  return writer.End();
}

void DefineAccumulators(const rocattach_sdk_functions& sdk, const SdkAgents& agents) {
  if (sdk.create_counter != nullptr || sdk.load_counter_definition == nullptr) return;
  const Architectures architectures = ArchitecturesOf(agents);
  char path[PATH_MAX];
  if (architectures.count == 0 || !FindFile(sdk, path)) return;
  size_t bytes = 0;
  char* known = ReadFile(path, &bytes);
  if (known == nullptr) return;
  if (char* text = static_cast<char*>(Map(kTextBytes))) {
    const size_t size =
        bytes < kMaxFileBytes
            ? WriteAccumulators(known, bytes, architectures, text, kTextBytes)
            : 0;
    // Refused if the counters have been looked up already. Then they are not found,
    // and the plan that needs one is refused.
    if (size != 0) {
      sdk.load_counter_definition(text, size,
                                  ROCATTACH_SDK_COUNTER_FLAG_APPEND_DEFINITION);
    }
    munmap(text, kTextBytes);
  }
  munmap(known, kMaxFileBytes);
}

}  // namespace rocattach::collector
