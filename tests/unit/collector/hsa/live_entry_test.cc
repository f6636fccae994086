// Late attach: one of the program's threads arms the collector while others call the
// runtime. Also, another tool puts the runtime's tables back as they were before it
// came, so that our functions are missing from them for a while.
#include "userspace/collector/hsa/live_entry.h"

#include <gtest/gtest.h>
#include <hsa/hsa_ven_amd_loader.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "tests/await.h"
#include "tests/unit/collector/hsa/fake_hsa.h"
#include "tests/unit/collector/hsa/table_runtime/table_runtime.h"
#include "userspace/collector/hsa/backend.h"

namespace rocattach::collector {
namespace {

constexpr uint64_t kKernel = 0x7f0000001000;
constexpr uint64_t kOldKernel = 0x7f0000002000;  // its executable has been destroyed
constexpr hsa_agent_t kGpu = {7};

// AMD's own attributes are not values of the enumerations: never load them as such.
template <typename Attribute>
uint32_t Number(const Attribute& attribute) {
  uint32_t number;
  static_assert(sizeof(number) == sizeof(attribute));
  memcpy(&number, &attribute, sizeof(number));
  return number;
}

// State of the fake runtime.
struct {
  bool open, knows_pool;
} runtime_state;

hsa_status_t SystemInfo(hsa_system_info_t attribute, void* value) {
  if (!runtime_state.open) return HSA_STATUS_ERROR_NOT_INITIALIZED;
  if (Number(attribute) == HSA_SYSTEM_INFO_VERSION_MAJOR ||
      Number(attribute) == HSA_SYSTEM_INFO_VERSION_MINOR) {
    *static_cast<uint16_t*>(value) = 1;
    return HSA_STATUS_SUCCESS;
  }
  *static_cast<uint64_t*>(value) =
      Number(attribute) == HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY ? 1'000'000'000
                                                               : BootNs();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t PointerInfo(const void* pointer, hsa_amd_pointer_info_t* info,
                         void* (*)(size_t), uint32_t*, hsa_agent_t**) {
  if (!runtime_state.knows_pool) return HSA_STATUS_SUCCESS;
  info->type = HSA_EXT_POINTER_TYPE_HSA;
  info->hostBaseAddress = const_cast<void*>(pointer);
  info->sizeInBytes = size_t{1} << 30;
  return HSA_STATUS_SUCCESS;
}

// Called while the collector is being armed, and after it has read an executable's
// kernels.
std::function<void()> while_arming, after_kernels;

hsa_status_t IterateAgents(hsa_status_t (*visit)(hsa_agent_t, void*), void* data) {
  if (const auto run = std::exchange(while_arming, nullptr)) run();
  return visit(kGpu, data);
}

hsa_status_t AgentInfo(hsa_agent_t, hsa_agent_info_t attribute, void* value) {
  if (Number(attribute) == HSA_AGENT_INFO_DEVICE) {
    *static_cast<hsa_device_type_t*>(value) = HSA_DEVICE_TYPE_GPU;
  }
  return HSA_STATUS_SUCCESS;
}

// One executable with one kernel.
hsa_status_t IterateExecutables(hsa_status_t (*visit)(hsa_executable_t, void*),
                                void* data) {
  return visit({1}, data);
}

hsa_status_t LoaderTable(uint16_t, uint16_t, size_t, void* table) {
  auto* loader = static_cast<hsa_ven_amd_loader_1_03_pfn_t*>(table);
  loader->hsa_ven_amd_loader_iterate_executables = &IterateExecutables;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t IterateSymbols(hsa_executable_t executable, hsa_agent_t agent,
                            hsa_status_t (*visit)(hsa_executable_t, hsa_agent_t,
                                                  hsa_executable_symbol_t, void*),
                            void* data) {
  const hsa_status_t status = visit(executable, agent, {1}, data);
  if (const auto run = std::exchange(after_kernels, nullptr)) run();
  return status;
}

hsa_status_t SymbolInfo(hsa_executable_symbol_t, hsa_executable_symbol_info_t attribute,
                        void* value) {
  if (Number(attribute) == HSA_EXECUTABLE_SYMBOL_INFO_TYPE) {
    *static_cast<hsa_symbol_kind_t*>(value) = HSA_SYMBOL_KIND_KERNEL;
  } else if (Number(attribute) == HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT) {
    *static_cast<uint64_t*>(value) = kKernel;
  }
  return HSA_STATUS_SUCCESS;
}

// Number of times that each profiling switch was set.
struct {
  int queues, copies;
} profiling;

hsa_status_t EnableProfiler(hsa_queue_t*, int) {
  ++profiling.queues;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t EnableCopyTimes(bool) {
  ++profiling.copies;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t FailToCreate(hsa_agent_t, QueueDescriptor*, uint32_t) {
  return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
}

// Calls of the runtime that reserve a packet, before and after the collector was armed.
struct {
  std::atomic<int> unarmed, armed;
} reserved;

uint64_t AddWriteIndex(const hsa_queue_t*, uint64_t) {
  ++(g_process.phase == kPhaseArmed ? reserved.armed : reserved.unarmed);
  return 0;
}

constexpr Upcalls kUpcalls = {[] {}, [](void*) {}, [] {}, [] {}};

class LiveEntryTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(runtime_.loaded() && other_.loaded()) << dlerror();
    slots_ = runtime_.Slots();
    runtime_state = {true, true};
    profiling = {};
    while_arming = after_kernels = nullptr;
    reserved.unarmed = reserved.armed = 0;
    new (&g_process) Process();
    new (&g_queues) QueueRegistry();
    new (&g_old_queues) OldQueues();
    new (&g_hsa) HsaBackend();
    ASSERT_EQ(g_process.SetUp(SmallConfig(), &kUpcalls), 0);
    ASSERT_EQ(g_hsa.Init(), 0);
    ring_ = g_process.rings.Mine();
    PutTablesBack();
    ASSERT_STREQ(g_hsa.live.Install(runtime_.window(), /*late=*/true), nullptr);
    g_process.phase = kPhaseLoaded;
    if (armed_) Arm();
  }
  void TearDown() override {
    testing_support::Await([] { return !g_process.worker.running(); },
                           "the end of the worker");
    g_process.rings.Forget();
    g_process.memory.Discard();
  }

  void Arm() {
    HsaBackend& h = g_hsa;
    pool_.resize(SmallConfig().inflight_count);
    h.tracker.signals().Adopt(pool_.data());
    h.tracker.clocks().Init(&h.functions);
    h.agents.Load(h.functions, &g_process.dictionary, &g_process.agent_ids);
    h.executables.Init(&h.functions, &h.agents, &g_process.dictionary, &h.kernels);
    h.executables.LoadedBefore();
    h.old_queues.Begin(/*late=*/true);
    g_process.phase = kPhaseArmed;
  }

  ApiTable* core() { return runtime_.root().core; }
  void* entry(uint32_t slot) { return core()->slots[slot]; }
  template <typename F>
  void Set(uint32_t slot, F* function) {
    core()->slots[slot] = reinterpret_cast<void*>(function);
  }
  // Restores the tables like a tool that saved them before it came. Entries not set
  // below are fakes.
  void PutTablesBack() {
    for (ApiTable* table : {core(), runtime_.root().amd_ext}) {
      const uint32_t entries = (table->version.minor_id - 16) / 8;
      for (uint32_t i = 0; i < entries; ++i) table->slots[i] = runtime_.function();
    }
    Set(kCoreQueueAddWriteIndexRelaxed, &AddWriteIndex);
    Set(kCoreSystemGetInfo, &SystemInfo);
    Set(kCoreIterateAgents, &IterateAgents);
    Set(kCoreAgentGetInfo, &AgentInfo);
    Set(kCoreExecutableSymbolGetInfo, &SymbolInfo);
    Set(kCoreSystemGetMajorExtensionTable, &LoaderTable);
    Set(kCoreExecutableIterateAgentSymbols, &IterateSymbols);
    ApiTable* amd = runtime_.root().amd_ext;
    amd->slots[slots_.at("pointer_info")] = reinterpret_cast<void*>(&PointerInfo);
    amd->slots[slots_.at("profiling_set_profiler_enabled")] =
        reinterpret_cast<void*>(&EnableProfiler);
    amd->slots[slots_.at("queue_create")] = reinterpret_cast<void*>(&FailToCreate);
    amd->slots[slots_.at("profiling_async_copy_enable")] =
        reinterpret_cast<void*>(&EnableCopyTimes);
    amd->slots[slots_.at("profiling_convert_tick_to_system_domain")] =
        reinterpret_cast<void*>(FakeHsaFunctions().convert_tick);
  }
  // Runs rounds of the worker: it finds the tables changed and stores our functions.
  void Rounds(int count = 3) {
    for (int i = 0; i < count; ++i) {
      g_hsa.Tick(&ring_);
      usleep(5000);
    }
  }

  // Rings as the application does, through the table.
  void Ring(const amd_queue_t& queue, uint64_t index) {
    reinterpret_cast<decltype(&hsa_signal_store_relaxed)>(
        entry(kCoreSignalStoreRelaxed))(queue.hsa_queue.doorbell_signal,
                                        static_cast<hsa_signal_value_t>(index));
  }
  uint64_t Reserve(FakeGpu* gpu) {
    reinterpret_cast<decltype(&hsa_queue_add_write_index_relaxed)>(
        entry(kCoreQueueAddWriteIndexRelaxed))(&gpu->amd().hsa_queue, 1);
    return gpu->Reserve();
  }
  void Launch(FakeGpu* gpu) {
    const uint64_t index = Reserve(gpu);
    gpu->Write(index, kKernel);
    Ring(gpu->amd(), index);
    gpu->RunUnrung();
  }
  Queue* Track(amd_queue_t* queue) {
    queue->hsa_queue.id = 9;
    queue->hsa_queue.features = HSA_QUEUE_FEATURE_KERNEL_DISPATCH;
    Queue* q = g_hsa.queues.Add();
    g_hsa.Track(q, &queue->hsa_queue, g_hsa.agents.at(0), /*intercepted=*/false,
                /*profiled=*/true, /*first=*/0);
    return q;
  }
  uint64_t Sum(uint64_t rocattach_ring::*field) const {
    const Memory& memory = g_process.memory;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < memory.geometry().ring_count; ++i) {
      sum += memory.ring(i)->*field;
    }
    return sum;
  }
  uint64_t Unseen() const { return Sum(&rocattach_ring::packets_unseen); }

  bool armed_ = true;  // SetUp() arms the collector
  const TableRuntime runtime_{"752"}, other_{"744"};
  std::map<std::string, uint32_t> slots_;
  std::vector<amd_signal_t> pool_;
  RingHandle ring_;
};

// A queue whose memory is unmapped when it is destroyed, with one dispatch in flight.
class MappedQueue {
 public:
  MappedQueue() {
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    queue_ = static_cast<amd_queue_t*>(memory);
    auto* packets = reinterpret_cast<hsa_kernel_dispatch_packet_t*>(
        static_cast<char*>(memory) + kBytes / 2);
    doorbell_.kind = AMD_SIGNAL_KIND_DOORBELL;
    doorbell_.queue_ptr = queue_;
    queue_->hsa_queue.base_address = packets;
    queue_->hsa_queue.size = 64;
    queue_->hsa_queue.doorbell_signal.handle = reinterpret_cast<uint64_t>(&doorbell_);
    packets[0].header = HSA_PACKET_TYPE_KERNEL_DISPATCH;
    packets[0].kernel_object = kKernel;
    packets[0].workgroup_size_x = 64;
    packets[0].grid_size_x = 64;
    queue_->write_dispatch_id = 1;
  }
  amd_queue_t* get() { return queue_; }
  void Destroy() { munmap(queue_, kBytes); }

 private:
  static constexpr size_t kBytes = 8192;
  amd_queue_t* queue_;
  amd_signal_t doorbell_ = {};
};

TEST_F(LiveEntryTest, AQueueThatIsDestroyedUnseenIsNotRead) {
  MappedQueue queue;
  Queue* q = Track(queue.get());
  Ring(*queue.get(), 0);
  ASSERT_EQ(Sum(&rocattach_ring::dispatches_seen), 1u);
  PutTablesBack();
  queue.Destroy();
  Rounds();
  EXPECT_NE(entry(kCoreQueueDestroy), runtime_.function()) << "ours are there again";
  EXPECT_TRUE(q->lost);
  EXPECT_EQ(g_hsa.queues.Find(q->doorbell.handle), nullptr);
  g_hsa.End(/*in_use=*/true);
  const auto records = AllDispatches(g_process.memory);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_NE(records[0].flags & ROCATTACH_DISPATCH_UNFINISHED, 0);
  EXPECT_EQ(Unseen(), 1u) << "what else it was given is not known";
}

// The other tool calls the runtime's functions as they were before our attach.
TEST_F(LiveEntryTest, AQueueThatAnotherToolDestroysUnseenIsNotRead) {
  MappedQueue queue;
  Queue* q = Track(queue.get());
  Ring(*queue.get(), 0);
  core()->slots[kCoreQueueDestroy] = other_.function();
  Rounds();
  EXPECT_FALSE(q->lost) << "it may as well be above us";
  queue.Destroy();
  Rounds();
  EXPECT_TRUE(q->lost);
  EXPECT_EQ(entry(kCoreQueueDestroy), other_.function());
  g_hsa.End(/*in_use=*/true);
  EXPECT_EQ(AllDispatches(g_process.memory).size(), 1u);
}

int64_t last_store = -1;
void RecordStore(hsa_signal_t, hsa_signal_value_t value) {
  last_store = value;
}

// After the end the other producer rings without us, and only for an earlier packet.
TEST_F(LiveEntryTest, ARingThatWaitsAtTheEndOfTheProcessIsPassedOn) {
  FakeGpu gpu(16);
  Track(&gpu.amd());
  g_hsa.functions.signal_store_screlease = &RecordStore;
  gpu.Reserve();  // not written yet
  const uint64_t second = gpu.Reserve();
  gpu.Write(second, kKernel);
  Ring(gpu.amd(), second);
  EXPECT_EQ(last_store, -1);
  g_hsa.End(/*in_use=*/true);
  EXPECT_EQ(last_store, static_cast<int64_t>(second));
}

TEST_F(LiveEntryTest, AQueueDestroyedUnseenIsNotReadAtTheEndOfTheProcess) {
  MappedQueue queue;
  Track(queue.get());
  Ring(*queue.get(), 0);
  PutTablesBack();
  queue.Destroy();
  g_hsa.End(/*in_use=*/true);
  EXPECT_EQ(AllDispatches(g_process.memory).size(), 1u);
  EXPECT_EQ(Unseen(), 1u);
}

TEST_F(LiveEntryTest, AQueueIsTrackedAgainWhenItIsUsed) {
  FakeGpu gpu(16);
  Queue* q = Track(&gpu.amd());
  Launch(&gpu);
  PutTablesBack();
  Rounds(1);
  for (int i = 0; i < 3; ++i) Launch(&gpu);  // without our functions
  Rounds();
  EXPECT_TRUE(q->lost);
  EXPECT_EQ(Unseen(), 0u);
  Launch(&gpu);
  EXPECT_FALSE(q->lost);
  EXPECT_EQ(Unseen(), 3u);
  EXPECT_EQ(Sum(&rocattach_ring::dispatches_seen), 2u);
  Rounds();
  EXPECT_EQ(AllDispatches(g_process.memory).size(), 2u)
      << "the one that was in flight has ended meanwhile";
}

TEST_F(LiveEntryTest, DetectsAnotherQueueAtTheSameAddress) {
  FakeGpu gpu(16);
  Queue* q = Track(&gpu.amd());
  Launch(&gpu);
  PutTablesBack();
  Rounds();
  gpu.amd().hsa_queue.id = 10;
  Reserve(&gpu);
  EXPECT_EQ(q->amd, nullptr);
  EXPECT_EQ(g_hsa.queues.FindByHandle(&gpu.amd().hsa_queue), nullptr);
  EXPECT_EQ(Unseen(), 1u);
}

// The signal may have been destroyed, and its memory may belong to another one.
TEST_F(LiveEntryTest, SignalsOfTheApplicationAreNotReadAfterwards) {
  FakeGpu gpu(16);
  Track(&gpu.amd());
  amd_signal_t signal = {};
  signal.value = 1;
  const uint64_t index = Reserve(&gpu);
  gpu.Write(index, kKernel, &signal);
  Ring(gpu.amd(), index);
  ASSERT_EQ(g_hsa.tracker.app_signals().tracked(), 1u);
  PutTablesBack();
  Rounds(1);
  EXPECT_EQ(g_hsa.tracker.app_signals().tracked(), 0u);
  signal.start_ts = 1;
  signal.end_ts = 2;
  signal.value = 0;
  Rounds();
  const auto records = AllDispatches(g_process.memory);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_NE(records[0].flags & ROCATTACH_DISPATCH_UNTIMED, 0);
}

TEST_F(LiveEntryTest, KernelsAreReadAgain) {
  HsaBackend& h = g_hsa;
  const uint32_t before = h.kernels.Find(kKernel);
  ASSERT_NE(before, 0u);
  h.kernels.Insert(kOldKernel, 1000);
  PutTablesBack();
  Rounds();
  EXPECT_EQ(h.kernels.Find(kOldKernel), 0u);
  EXPECT_EQ(h.kernels.Find(kKernel), 0u);
  EXPECT_TRUE(h.live.IsReady()) << "on a thread of the application";
  EXPECT_NE(h.kernels.Find(kKernel), 0u);
  EXPECT_NE(h.kernels.Find(kKernel), before);
  EXPECT_EQ(h.kernels.Find(kOldKernel), 0u);
}

// Functions that the tool had not replaced are still ours.
TEST_F(LiveEntryTest, OwnFunctionsAreNotMistakenForRuntimeFunctions) {
  const HsaFunctions before = g_hsa.functions;
  void* ours = entry(kCoreQueueDestroy);
  for (CoreSlot slot : {kCoreQueueCreate, kCoreSignalStoreRelaxed, kCoreShutDown}) {
    core()->slots[slot] = runtime_.function();
  }
  Rounds();
  EXPECT_EQ(entry(kCoreQueueDestroy), ours);
  EXPECT_NE(entry(kCoreQueueCreate), runtime_.function());
  EXPECT_EQ(g_hsa.functions.queue_destroy, before.queue_destroy);
  EXPECT_EQ(g_hsa.functions.executable_freeze, before.executable_freeze);
  EXPECT_EQ(g_hsa.functions.memory_free, before.memory_free);
}

// The tool's function may call ours.
TEST_F(LiveEntryTest, AToolAboveUsStaysThere) {
  const HsaFunctions before = g_hsa.functions;
  PutTablesBack();
  core()->slots[kCoreMemoryFree] = other_.function();
  Rounds();
  EXPECT_NE(entry(kCoreQueueCreate), runtime_.function());
  EXPECT_EQ(entry(kCoreMemoryFree), other_.function());
  EXPECT_EQ(g_hsa.functions.memory_free, before.memory_free);
}

// The tool may have switched times off; a copy would get those of an earlier one.
TEST_F(LiveEntryTest, TimesAreSwitchedOnAgain) {
  FakeGpu gpu(16);
  Track(&gpu.amd());
  amd_signal_t signals[2] = {};
  const auto copy = [&](amd_signal_t* signal) {
    g_hsa.copies.Begin({}, {reinterpret_cast<uint64_t>(signal)}, &ring_);
  };
  Launch(&gpu);
  copy(&signals[0]);
  EXPECT_EQ(profiling.queues, 0);  // Track() was told that they are on
  EXPECT_EQ(profiling.copies, 1);
  PutTablesBack();
  Rounds();
  Launch(&gpu);
  copy(&signals[1]);
  EXPECT_EQ(profiling.queues, 1);
  EXPECT_EQ(profiling.copies, 2);
}

// After a failure the descriptors may contain anything.
TEST_F(LiveEntryTest, QueuesOfABatchThatFailedAreNotFollowed) {
  ApiTable* amd = runtime_.root().amd_ext;
  QueueDescriptor descriptors[2] = {};
  for (QueueDescriptor& d : descriptors) {
    d.version = 1;
    d.queue = reinterpret_cast<hsa_queue_t*>(0x1000);  // not mapped
  }
  const auto create =
      reinterpret_cast<AmdQueueCreate>(amd->slots[slots_.at("queue_create")]);
  EXPECT_EQ(create(kGpu, descriptors, 2), HSA_STATUS_ERROR_OUT_OF_RESOURCES);
}

// The memory of our signals is gone, too.
TEST_F(LiveEntryTest, ARuntimeThatWasStartedAgainUnseenIsForgotten) {
  FakeGpu gpu(16);
  Queue* q = Track(&gpu.amd());
  Launch(&gpu);
  PutTablesBack();
  runtime_state.knows_pool = false;
  Rounds();
  EXPECT_EQ(g_process.phase, kPhaseUnloaded);
  EXPECT_FALSE(g_hsa.tracker.signals().ready());
  EXPECT_EQ(q->amd, nullptr);
  EXPECT_NE(entry(kCoreQueueCreate), runtime_.function());
}

// In these tests the program's first call arms the collector.
class ArmingTest : public LiveEntryTest {
 protected:
  ArmingTest() { armed_ = false; }

  static bool IsAsleep(pid_t tid) {
    std::ifstream stat("/proc/self/task/" + std::to_string(tid) + "/stat");
    std::string number, name;
    char state = 0;
    stat >> number >> name >> state;
    return state == 'S';
  }
  // Two threads reserve a packet, the second one while the first is arming. Arming ends
  // when `goes_on` returns true.
  void ReserveTwice(const std::function<bool(pid_t other)>& goes_on) {
    FakeGpu first(16), second(16);
    std::thread other;
    while_arming = [&] {
      std::atomic<pid_t> tid = 0;
      other = std::thread([&] {
        tid = gettid();
        Reserve(&second);
      });
      testing_support::Await([&] { return tid != 0 && goes_on(tid); },
                             "the other thread to wait or to reserve a packet");
    };
    Reserve(&first);
    other.join();
    EXPECT_EQ(g_process.phase, kPhaseArmed);
    EXPECT_EQ(reserved.unarmed + reserved.armed, 2);
  }
  // One thread reserves a packet and keeps arming until another one has made a call.
  void ArmDuring(const std::function<void()>& call,
                 std::function<void()>* step = &while_arming) {
    std::thread other;
    std::atomic<bool> returned = false;
    *step = [&] {
      other = std::thread([&] {
        call();
        returned = true;
      });
      testing_support::Await([&] { return returned.load(); },
                             "the other thread's call to return");
    };
    FakeGpu gpu(16);
    Reserve(&gpu);
    other.join();
    EXPECT_EQ(g_process.phase, kPhaseArmed);
  }
};

// The other thread either waits, or its packet is counted.
TEST_F(ArmingTest, NoPacketPassesUncountedDuringArming) {
  ReserveTwice([](pid_t other) {
    return IsAsleep(other) || reserved.unarmed + reserved.armed != 0;
  });
  EXPECT_EQ(static_cast<int>(Unseen()), reserved.unarmed);
}

// The arming thread may wait for something that the other thread holds.
TEST_F(ArmingTest, CreatingAQueueDoesNotWaitForEver) {
  ArmDuring([this] {
    hsa_queue_t* queue = nullptr;
    reinterpret_cast<decltype(&hsa_queue_create)>(entry(kCoreQueueCreate))(
        kGpu, 16, HSA_QUEUE_TYPE_SINGLE, nullptr, nullptr, 0, 0, &queue);
  });
}

TEST_F(ArmingTest, ACopyThatStopsWaitingIsCounted) {
  ArmDuring([this] {
    char from = 1, to = 0;
    reinterpret_cast<decltype(&hsa_memory_copy)>(entry(kCoreMemoryCopy))(&to, &from, 1);
  });
  EXPECT_EQ(Unseen(), 1u);
}

TEST_F(ArmingTest, KernelsThatAreLoadedMeanwhileAreReadAfterwards) {
  ArmDuring(
      [this] {
        reinterpret_cast<decltype(&hsa_executable_freeze)>(
            entry(kCoreExecutableFreeze))({7}, nullptr);
      },
      &after_kernels);
  EXPECT_TRUE(g_hsa.live.KernelsAreLost());
  FakeGpu gpu(16);
  Reserve(&gpu);
  EXPECT_FALSE(g_hsa.live.KernelsAreLost());
}

// The arming thread may wait for something that the other thread holds.
TEST_F(ArmingTest, ReservingAPacketDoesNotWaitForEver) {
  ReserveTwice([](pid_t) { return reserved.unarmed != 0; });
  EXPECT_EQ(Unseen(), 1u);
}

// Functions called during arming may be another tool's, which call the runtime.
TEST_F(ArmingTest, AThreadDoesNotWaitForItself) {
  FakeGpu gpu(16);
  while_arming = [&] { Reserve(&gpu); };
  Reserve(&gpu);
  EXPECT_EQ(reserved.unarmed, 1);
  EXPECT_EQ(reserved.armed, 1);
  EXPECT_EQ(Unseen(), 1u);
}

}  // namespace
}  // namespace rocattach::collector
