#include "userspace/watch/late/runtime_start.h"

#include <string.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "injector/elf/function_offset.h"
#include "injector/process/denial.h"
#include "injector/process/maps.h"
#include "injector/process/target_memory.h"
#include "userspace/base/status_macros.h"
#include "userspace/watch/discovery/checked_file.h"
#include "userspace/watch/discovery/library_scanner.h"
#include "userspace/watch/late/running_process.h"

namespace rocattach {
namespace {

// Entries of the runtime's core table, which begins with a version of 16 bytes and is
// only ever appended to (hsa_api_trace.h). These functions fail while the runtime is
// not open: hsa_shut_down, hsa_system_get_info, hsa_system_extension_supported,
// hsa_iterate_agents, hsa_agent_get_info, hsa_queue_create.
constexpr size_t kTableVersionBytes = 16;
constexpr std::array<size_t, 6> kSlots = {1, 2, 3, 5, 6, 7};
constexpr size_t kTableBytes = kTableVersionBytes + 8 * sizeof(uint64_t);
// An exported function that jumps through the table.
constexpr char kExported[] = "hsa_system_get_info";

constexpr size_t kExportedBytes = 32;
constexpr size_t kFunctionBytes = 128;
// Read from a function that is called, such as the test itself.
constexpr size_t kCalledBytes = 48;

// Instruction encoding: Intel SDM volume 2, chapter 2.
constexpr uint8_t kMovLoad = 0x8b, kLea = 0x8d, kCall = 0xe8;
constexpr uint8_t kCmpByte = 0x80, kCmpLong = 0x83, kCmpLeft = 0x39, kCmpRight = 0x3b;
constexpr size_t kCallBytes = 5;

using Code = absl::Span<const uint8_t>;

int64_t Int32(const uint8_t* at) {
  int32_t value;
  memcpy(&value, at, sizeof(value));
  return value;
}

// The address that the instruction at code[at] refers to relative to its end, if it
// loads, compares or takes an address; 0 otherwise. Bytes inside of other instructions
// may look like such an instruction: several functions have to agree.
uint64_t Referred(Code code, size_t at, uint64_t address) {
  constexpr size_t kBytes = 6;  // opcode, modrm, displacement
  if (at + kBytes > code.size() || (code[at + 1] & 0xc7) != 0x05) return 0;
  const uint8_t opcode = code[at];
  const bool has_immediate = opcode == kCmpByte || opcode == kCmpLong;
  if (!has_immediate && opcode != kMovLoad && opcode != kLea && opcode != kCmpLeft &&
      opcode != kCmpRight) {
    return 0;
  }
  return address + at + kBytes + (has_immediate ? 1 : 0) +
         static_cast<uint64_t>(Int32(&code[at + 2]));
}

// One copy of the runtime in a process.
class RuntimeImage {
 public:
  using MappingIterator = std::vector<Mapping>::const_iterator;
  // `code` is its executable mapping. False if it does not look like a runtime's.
  bool Find(pid_t pid, const Maps& maps, MappingIterator code);
  // True if the variable is not null; unset if that is unknown.
  std::optional<bool> IsOpen(const TargetMemory& memory) const;

 private:
  bool IsCode(uint64_t address) const {
    return code_begin_ <= address && address < code_end_;
  }
  bool IsData(uint64_t address) const {
    return address % sizeof(uint64_t) == 0 && code_end_ <= address && address < end_;
  }
  bool Read(const TargetMemory& memory, uint64_t address, void* buffer,
            size_t bytes) const {
    return memory.Read(RemoteAddress(address), buffer, bytes).ok();
  }
  // Adds the data that `code` at `address` refers to.
  void AddReferences(Code code, uint64_t address, std::set<uint64_t>* data) const;
  // The data that a function, and those that it calls, refer to.
  std::set<uint64_t> References(const TargetMemory& memory, uint64_t function) const;

  uint64_t exported_ = 0;
  uint64_t code_begin_ = 0, code_end_ = 0;
  uint64_t end_ = 0;  // end of its data
  std::vector<const Mapping*> constant_;
};

bool RuntimeImage::Find(pid_t pid, const Maps& maps, MappingIterator code) {
  const auto& mappings = maps.mappings();
  auto file = CheckedFile::Open(absl::StrCat("/proc/", pid, "/map_files/",
                                             absl::Hex(code->start.value()), "-",
                                             absl::Hex(code->end.value())));
  if (!file.ok()) return false;
  auto offset = FindFunctionFileOffset(file->fd(), kExported);
  if (!offset.ok() || *offset < code->offset) return false;
  code_begin_ = code->start.value();
  code_end_ = code->end.value();
  exported_ = code_begin_ + (*offset - code->offset);
  end_ = code_end_;
  for (auto m = std::next(code); m != mappings.end(); ++m) {
    // A following mapping without a name is the part that is not in the file.
    if (m->start.value() != end_ || !(m->SameFile(*code) || m->path.empty())) break;
    end_ = m->end.value();
    if (!m->writable) constant_.push_back(&*m);
    if (m->path.empty()) break;
  }
  return IsCode(exported_);
}

void RuntimeImage::AddReferences(Code code, uint64_t address,
                                 std::set<uint64_t>* data) const {
  for (size_t at = 0; at < code.size(); ++at) {
    const uint64_t referred = Referred(code, at, address);
    if (referred != 0 && IsData(referred)) data->insert(referred);
  }
}

std::set<uint64_t> RuntimeImage::References(const TargetMemory& memory,
                                            uint64_t function) const {
  std::set<uint64_t> data;
  uint8_t code[kFunctionBytes];
  if (!Read(memory, function, code, sizeof(code))) return data;
  AddReferences(code, function, &data);
  for (size_t at = 0; at + kCallBytes <= sizeof(code); ++at) {
    if (code[at] != kCall) continue;
    const uint64_t called =
        function + at + kCallBytes + static_cast<uint64_t>(Int32(&code[at + 1]));
    uint8_t body[kCalledBytes];
    if (!IsCode(called) || !Read(memory, called, body, sizeof(body))) continue;
    AddReferences(body, called, &data);
  }
  return data;
}

std::optional<bool> RuntimeImage::IsOpen(const TargetMemory& memory) const {
  uint8_t jump[kExportedBytes];
  if (!Read(memory, exported_, jump, sizeof(jump))) return std::nullopt;
  uint64_t table_variable = 0, table = 0;
  for (size_t at = 0; at < sizeof(jump) && table_variable == 0; ++at) {
    if (jump[at] == kMovLoad) table_variable = Referred(jump, at, exported_);
  }
  uint8_t slots[kTableBytes];
  if (!IsData(table_variable) || !Read(memory, table_variable, &table, sizeof(table)) ||
      !Read(memory, table, slots, sizeof(slots))) {
    return std::nullopt;
  }
  std::set<uint64_t> common;
  for (size_t i = 0; i < kSlots.size(); ++i) {
    uint64_t function = 0;
    memcpy(&function, slots + kTableVersionBytes + kSlots[i] * sizeof(function),
           sizeof(function));
    // Only a tool that the runtime has started changes the table.
    if (!IsCode(function)) return std::nullopt;
    std::set<uint64_t> referred = References(memory, function), both;
    std::set_intersection(common.begin(), common.end(), referred.begin(),
                          referred.end(), std::inserter(both, both.end()));
    common = i == 0 ? std::move(referred) : std::move(both);
  }
  if (common.size() != 1) return std::nullopt;
  uint64_t variable = *common.begin(), value = 0;
  // If it is constant, it contains the variable's address.
  const bool indirect = std::any_of(
      constant_.begin(), constant_.end(),
      [variable](const Mapping* m) { return m->Contains(RemoteAddress(variable)); });
  if (indirect && !Read(memory, variable, &variable, sizeof(variable))) {
    return std::nullopt;
  }
  if (!Read(memory, variable, &value, sizeof(value))) return std::nullopt;
  return value != 0;
}

// True for parts of one copy, whose code has been split by a change of protection.
bool AreOneImage(const Mapping& a, const Mapping& b) {
  return a.SameFile(b) && a.start.value() - a.offset == b.start.value() - b.offset;
}

}  // namespace

absl::StatusOr<std::vector<LoadedRuntime>> ReadRuntimes(pid_t pid) {
  auto maps = Maps::Read(pid);
  if (absl::IsPermissionDenied(maps.status())) {
    return absl::PermissionDeniedError(absl::StrCat(
        "the memory of process ", pid, " cannot be read: ", ExplainTraceDenial(pid)));
  }
  if (!maps.ok()) return maps.status();
  const auto& mappings = maps->mappings();
  std::vector<LoadedRuntime> runtimes;
  auto memory = TargetMemory::Open(pid, pid);
  const Mapping* last = nullptr;
  for (auto code = mappings.begin(); code != mappings.end(); ++code) {
    if (!code->executable || !LooksLikeHsaRuntime(code->path)) continue;
    const Mapping* before = std::exchange(last, &*code);
    if (before != nullptr && AreOneImage(*before, *code)) {
      runtimes.back().code_end = code->end;
      continue;
    }
    RuntimeImage image;
    std::optional<bool> open;
    if (memory.ok() && image.Find(pid, *maps, code)) open = image.IsOpen(*memory);
    const RuntimeStart start = !open.has_value() ? RuntimeStart::kUnknown
                               : *open           ? RuntimeStart::kStarted
                                                 : RuntimeStart::kNotStarted;
    runtimes.push_back({code->start, code->end, start});
  }
  return runtimes;
}

absl::StatusOr<RuntimeStart> ReadRuntimeStart(pid_t pid) {
  auto runtimes = ReadRuntimes(pid);
  if (!runtimes.ok()) return runtimes.status();
  if (runtimes->empty()) return RuntimeStart::kNotLoaded;
  for (const RuntimeStart start : {RuntimeStart::kStarted, RuntimeStart::kUnknown}) {
    if (std::any_of(runtimes->begin(), runtimes->end(),
                    [start](const LoadedRuntime& r) { return r.start == start; })) {
      return start;
    }
  }
  return RuntimeStart::kNotStarted;
}

absl::Status CheckRuntimeStarted(pid_t pid) {
  if (auto maps = Maps::Read(pid); maps.ok()) {
    RETURN_IF_ERROR(CheckIsExecuted(pid, *maps));
  }
  auto start = ReadRuntimeStart(pid);
  if (!start.ok()) return start.status();
  switch (*start) {
    case RuntimeStart::kUnknown:
    case RuntimeStart::kStarted:
      return absl::OkStatus();
    case RuntimeStart::kNotLoaded:
      return absl::FailedPreconditionError(absl::StrCat(
          "process ", pid,
          " has not loaded the HSA runtime (libhsa-runtime64.so): it does not use AMD "
          "GPUs, or not yet"));
    case RuntimeStart::kNotStarted:
      break;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "process ", pid,
      " has loaded the HSA runtime, but not started it (hsa_init): it does "
      "not use a GPU yet"));
}

}  // namespace rocattach
