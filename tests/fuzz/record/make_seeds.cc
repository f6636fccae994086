// Writes seeds for fuzz_collector_memory into a directory: sequences of all commands,
// with records of every kind.
#include <stdio.h>
#include <string.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/fuzz/record/commands.h"
#include "tests/unit/record/fake_collector.h"
#include "userspace/base/file.h"
#include "userspace/stream/writer.h"

namespace rocattach {
namespace {

constexpr uint32_t kAgent = 1;
constexpr uint8_t kAll =
    FakeCollector::kSlots - 1;  // times a record is published, less 1

class Seed {
 public:
  explicit Seed(uint8_t settings = 0x80) { Add(settings); }
  const std::string& bytes() const { return bytes_; }

  template <typename T>
  Seed& Add(const T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Seed& Text(absl::string_view text) {
    bytes_.append(text.data(), text.size());
    return *this;
  }
  Seed& Do(FuzzCommand command) { return Add(command); }
  Seed& Do(FuzzCommand command, uint8_t operand) { return Add(command).Add(operand); }
  Seed& Drain(uint16_t budget = 0) { return Do(FuzzCommand::kDrain).Add(budget); }
  // Sets the word of the control block at this offset.
  Seed& Set(size_t offset, uint64_t value) {
    return Do(FuzzCommand::kSetField)
        .Add(FuzzPart::kControl)
        .Add(static_cast<uint8_t>(offset / sizeof(value)))
        .Add(value);
  }
  Seed& AddTo(FuzzPart part, size_t offset, int8_t value) {
    return Do(FuzzCommand::kAddToField)
        .Add(part)
        .Add(static_cast<uint8_t>(offset / sizeof(uint64_t)))
        .Add(value);
  }
  template <typename Record>
  Seed& Publish(const Record& record, uint8_t times = 0, uint8_t ring = 0) {
    static_assert(sizeof(record) == ROCATTACH_SLOT_BYTES);
    return Do(FuzzCommand::kPublish, ring | kFuzzStamped).Add(times).Add(record);
  }
  Seed& Entry(const std::vector<uint8_t>& bytes) {
    rocattach_entry head;
    memcpy(&head, bytes.data(), sizeof(head));
    const absl::string_view all(reinterpret_cast<const char*>(bytes.data()),
                                bytes.size());
    const absl::string_view rest = all.substr(sizeof(head));
    return Do(FuzzCommand::kAddEntry, static_cast<uint8_t>(head.kind))
        .Add(head.id)
        .Add(head.text_bytes)
        .Add(static_cast<uint8_t>(rest.size()))
        .Text(rest);
  }

  // Adds an agent, a queue, kernels and a function, and arms with rocprofiler-sdk.
  Seed& Arm(uint32_t backend = ROCATTACH_BACKEND_SDK) {
    rocattach_agent_entry agent = {};
    agent.entry.id = kAgent;
    agent.type = 2;
    agent.compute_units = 104;
    agent.wavefront_size = 64;
    Entry(EntryBytes(agent, ROCATTACH_ENTRY_AGENT, {"gfx90a\0MI210", 12}));
    Entry(QueueEntry(1))
        .Entry(KernelEntry(1, "gemm"))
        .Entry(KernelEntry(2, "_Z3addPf"));
    Entry(EntryBytes<rocattach_code_object_entry>(1, ROCATTACH_ENTRY_CODE_OBJECT,
                                                  "memory://1"));
    rocattach_function_entry function = {};
    function.entry.id = 1;
    function.domain = ROCATTACH_PLAN_API_HIP;
    function.function = 7;
    Entry(EntryBytes(function, ROCATTACH_ENTRY_FUNCTION, "hipMalloc"));
    Set(offsetof(rocattach_control, record_kinds), UINT64_MAX);
    Set(offsetof(rocattach_control, armed_ns), uint64_t{6'000'000'000});
    Set(offsetof(rocattach_control, state), ROCATTACH_STATE_ARMED);
    // Two words of 32 bits: the other one is the reason.
    Set(offsetof(rocattach_control, backend),
        backend | uint64_t{ROCATTACH_BACKEND_REASON_DEFAULT} << 32);
    return Drain().Do(FuzzCommand::kLook);
  }
  Seed& StartSession(uint8_t plan) {
    return Do(FuzzCommand::kStart, plan)
        .Do(FuzzCommand::kAnswer, ROCATTACH_PLAN_ERROR_NONE)
        .Do(FuzzCommand::kPoll, 0);
  }

 private:
  std::string bytes_;
};
static_assert(offsetof(rocattach_control, backend) % 8 == 0);
static_assert(offsetof(rocattach_control, backend_reason) ==
              offsetof(rocattach_control, backend) + 4);
static_assert(offsetof(rocattach_control, record_kinds) % 8 == 0);
static_assert(offsetof(rocattach_control, state) % 8 == 0);
static_assert(offsetof(rocattach_control, entry) % 8 == 0);

rocattach_dispatch Dispatch(uint64_t correlation, uint16_t flags = 0,
                            uint32_t kernel = 1) {
  rocattach_dispatch record = FakeCollector::Dispatch(correlation);
  record.flags = flags;
  record.kernel_id = kernel;
  record.agent_id = kAgent;
  record.queue_id = 1;
  record.dispatch_id = correlation;
  record.tid = 11;
  record.grid_x = 64;
  return record;
}

rocattach_copy Copy(uint64_t correlation, uint16_t flags = 0) {
  rocattach_copy record = {};
  record.kind = ROCATTACH_RECORD_COPY;
  record.flags = flags;
  record.correlation_id = correlation;
  record.start_ns = 1000;
  record.end_ns = 2000;
  record.bytes = 4096;
  record.direction = ROCATTACH_COPY_HOST_TO_DEVICE;
  return record;
}

rocattach_clock Clock() {
  rocattach_clock record = {};
  record.kind = ROCATTACH_RECORD_CLOCK;
  record.agent_id = kAgent;
  record.ticks_per_second = 100'000'000;
  return record;
}

rocattach_values Values(uint16_t of, uint64_t operation, uint16_t slot, uint16_t slots,
                        uint16_t count, uint16_t instance_slots = 0) {
  rocattach_values record = {};
  record.kind = ROCATTACH_RECORD_VALUES;
  record.slots = slots;
  record.slot = slot;
  record.count = count;
  record.correlation_id = operation;
  record.agent_id = kAgent;
  record.of = of;
  record.instance_slots = instance_slots;
  for (uint16_t i = 0; i < count; ++i) {
    record.value[i] = {static_cast<uint16_t>(2 * slot + i), 0, 4, 12.5, 1, 9};
  }
  return record;
}

rocattach_instances Instances(uint64_t operation) {
  rocattach_instances record = {};
  record.kind = ROCATTACH_RECORD_INSTANCES;
  record.count = 2;
  record.correlation_id = operation;
  record.value[0] = {0, 5};
  record.value[1] = {uint64_t{1} << ROCATTACH_INSTANCE_COUNTER_SHIFT, 0.5};
  return record;
}

rocattach_sample Sample(uint64_t id) {
  rocattach_sample record = {};
  record.kind = ROCATTACH_RECORD_SAMPLE;
  record.agent_id = kAgent;
  record.sample_id = id;
  record.begin_ns = 1000;
  record.end_ns = 2000;
  record.values = 2;
  record.slots = 1;
  return record;
}

rocattach_api_call ApiCall(uint16_t text_slots) {
  rocattach_api_call record = {};
  record.kind = ROCATTACH_RECORD_API;
  record.flags = text_slots == 0 ? 0 : ROCATTACH_API_TEXT_ARGUMENTS;
  record.domain = ROCATTACH_PLAN_API_HIP;
  record.function = 7;
  record.tid = 11;
  record.begin_ns = 1000;
  record.end_ns = 2000;
  record.text_slots = text_slots;
  if (text_slots == 0) memcpy(record.text, "marker", 6);
  return record;
}

rocattach_text Part(uint16_t slot) {
  rocattach_text record = {};
  record.kind = ROCATTACH_RECORD_TEXT;
  record.slot = slot;
  record.bytes = sizeof(record.text);
  memset(record.text, 'a' + slot, sizeof(record.text));
  record.text[40] = '\n';
  return record;
}

rocattach_memory Memory() {
  rocattach_memory record = {};
  record.kind = ROCATTACH_RECORD_MEMORY;
  record.operation = ROCATTACH_MEMORY_ALLOCATE;
  record.agent_id = kAgent;
  record.end_ns = 10;
  record.bytes = 4096;
  return record;
}

constexpr uint16_t kCounted =
    ROCATTACH_DISPATCH_COUNTED | ROCATTACH_DISPATCH_FOR_COUNTERS;

void PublishCounted(Seed* seed, uint64_t first, uint64_t count, uint16_t flags) {
  for (uint64_t i = first; i < first + count; ++i) {
    seed->Publish(Dispatch(i, flags))
        .Publish(Values(ROCATTACH_RECORD_DISPATCH, i, 0, 2, 2))
        .Publish(Values(ROCATTACH_RECORD_DISPATCH, i, 1, 2, 1));
  }
}

Seed Recorded() {
  Seed seed;
  seed.Arm().Publish(Clock()).Publish(Dispatch(1), 5).Publish(Copy(20), 3, 1);
  seed.Drain(4).Drain().Do(FuzzCommand::kRest, 9).Publish(Dispatch(40), 1);
  seed.Do(FuzzCommand::kSampling).Add(uint16_t{8}).Publish(Dispatch(50), 2).Drain();
  return std::move(seed.Do(FuzzCommand::kLook));
}

Seed Session() {
  Seed seed;
  seed.Arm().StartSession(kFuzzPlanCalls);
  PublishCounted(&seed, 1, 4, kCounted | ROCATTACH_DISPATCH_SELECTED);
  seed.Publish(Copy(9, ROCATTACH_COPY_SELECTED)).Publish(Memory());
  seed.Publish(ApiCall(0)).Publish(ApiCall(2)).Publish(Part(0)).Publish(Part(1));
  seed.Publish(Sample(1), 0, 1)
      .Publish(Values(ROCATTACH_RECORD_SAMPLE, 1, 0, 1, 2), 0, 1);
  seed.Drain(7).Drain().Do(FuzzCommand::kStop).Do(FuzzCommand::kSettle, 0);
  seed.Do(FuzzCommand::kAnswer, 0).Do(FuzzCommand::kPoll, 0).Drain().Drain();
  return seed;
}

// The service decides on dispatches, and there are values of instances.
Seed Undecided() {
  Seed seed;
  seed.Arm().StartSession(kFuzzPlanOfKernels | kFuzzPlanOfNumbers | kFuzzPlanInstances);
  for (uint64_t i = 1; i <= 3; ++i) {
    constexpr uint16_t kUndecided = ROCATTACH_DISPATCH_FOR_COUNTERS_UNDECIDED |
                                    ROCATTACH_DISPATCH_SELECTED |
                                    ROCATTACH_DISPATCH_SELECTED_UNDECIDED;
    seed.Publish(Dispatch(i, kCounted | kUndecided, static_cast<uint32_t>(i)))
        .Publish(Values(ROCATTACH_RECORD_DISPATCH, i, 0, 1, 2, 1))
        .Publish(Instances(i));
  }
  seed.Entry(KernelEntry(3, "another_gemm")).Drain().Drain();
  return std::move(seed.Do(FuzzCommand::kSettle, 1).Drain());
}

// A plan that is not answered, and one that is refused.
Seed Refused() {
  Seed seed;
  seed.Set(offsetof(rocattach_control, entry), ROCATTACH_ENTRY_PATH_LATE);
  seed.Arm(ROCATTACH_BACKEND_HSA_TOOLS);
  seed.StartSession(kFuzzPlanCalls).Do(FuzzCommand::kStart, 0);
  seed.Do(FuzzCommand::kPoll, 200).Do(FuzzCommand::kStart, 1);
  seed.Do(FuzzCommand::kAnswer, ROCATTACH_PLAN_ERROR_CONFLICT);
  seed.Do(FuzzCommand::kPoll, 0).Do(FuzzCommand::kStart, 2).Drain();
  return std::move(seed.Do(FuzzCommand::kLook));
}

// Rings that are mapped, and then get holes.
Seed Busy() {
  Seed seed(kFuzzTakeOver | 0x10);
  seed.Arm();
  for (uint64_t round = 0; round < 3; ++round) {
    seed.Publish(Dispatch(1 + 200 * round), kAll)
        .Publish(Copy(100 + 200 * round), 40, 1);
    seed.Drain(50).Drain();
  }
  seed.StartSession(0);
  PublishCounted(&seed, 1000, 12, kCounted);
  seed.Drain().Publish(Dispatch(2000), kAll).Publish(Dispatch(2100));
  return std::move(seed.Do(FuzzCommand::kPunchHole, 2).Drain());
}

// A ring that is mapped, and then no longer busy.
Seed Quiet() {
  Seed seed;
  seed.Publish(Dispatch(1), kAll).Publish(Dispatch(100), kAll, 1);
  for (int i = 0; i < 70; ++i) seed.Drain();
  return std::move(seed.Publish(Dispatch(200), kAll).Drain());
}

// Operations in flight at the end, some of them published as well.
Seed Unfinished() {
  Seed seed(0);
  seed.Arm().Publish(Dispatch(1), 3);
  for (uint8_t i = 0; i < 4; ++i) {
    rocattach_inflight entry = {};
    entry.kind = i % 2 == 0 ? ROCATTACH_RECORD_DISPATCH : ROCATTACH_RECORD_COPY;
    entry.correlation_id = i + 3u;
    seed.Do(FuzzCommand::kAddInflight, i).Add(entry);
  }
  seed.AddTo(FuzzPart::kFirstRing, offsetof(rocattach_ring, sampled_out), 2);
  seed.AddTo(FuzzPart::kFirstRing, offsetof(rocattach_ring, dispatches_seen), 3);
  return std::move(seed.Drain(3));
}

// Records change, and sessions begin and end, while they are taken.
Seed DuringCalls() {
  Seed seed(kFuzzOneView | 0x40);
  seed.Arm().StartSession(0);
  const auto publish = [&seed] {
    PublishCounted(&seed, 1, 10, kCounted | ROCATTACH_DISPATCH_SELECTED);
    seed.Publish(Copy(50, ROCATTACH_COPY_SELECTED), 4).Publish(Dispatch(60), 5);
  };
  publish();
  seed.Do(FuzzCommand::kDuringCall).Add(FuzzDuringCall::kWrite);
  // An offset within the first ring's records.
  seed.Add(uint32_t{4096 + ROCATTACH_RING_HEADER_BYTES + 40 * ROCATTACH_SLOT_BYTES});
  seed.Add(uint8_t{3}).Text("abc").Drain();
  publish();
  seed.Do(FuzzCommand::kDuringCall).Add(FuzzDuringCall::kStop).Drain();
  publish();
  seed.Do(FuzzCommand::kAnswer, 0).StartSession(1);
  seed.Do(FuzzCommand::kDuringCall).Add(FuzzDuringCall::kStart).Add(uint8_t{4}).Drain();
  return seed;
}

absl::Status Write(const std::string& directory, const char* name, const Seed& seed) {
  auto sink = OpenFileSink(directory + "/" + name, ExistingFile::kTruncate);
  if (!sink.ok()) return sink.status();
  return (*sink)->Write(seed.bytes());
}

int Main(const std::string& directory) {
  absl::Status status = MakeDirectories(directory, 0755);
  status.Update(Write(directory, "recorded", Recorded()));
  status.Update(Write(directory, "session", Session()));
  status.Update(Write(directory, "undecided", Undecided()));
  status.Update(Write(directory, "refused", Refused()));
  status.Update(Write(directory, "busy", Busy()));
  status.Update(Write(directory, "quiet", Quiet()));
  status.Update(Write(directory, "unfinished", Unfinished()));
  status.Update(Write(directory, "during-calls", DuringCalls()));
  if (status.ok()) return 0;
  fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace rocattach

int main(int argc, char** argv) {
  return argc == 2 ? rocattach::Main(argv[1]) : 2;
}
