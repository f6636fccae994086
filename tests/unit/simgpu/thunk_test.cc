// The front end: what callers of each version of its interface see.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <hsa/amd_hsa_queue.h>
#include <hsa/amd_hsa_signal.h>
#include <hsa/hsa.h>
#include <hsakmt.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/simgpu/thunk_later.h"

namespace {

// A library of abi_caller.c.
class Caller {
 public:
  explicit Caller(const std::string& interface)
      : library_(dlopen(
            (SIMGPU_TEST_CALLERS "/libsimgpu_caller_" + interface + ".so").c_str(),
            RTLD_LAZY | RTLD_LOCAL)) {
    EXPECT_NE(library_, nullptr) << dlerror();
  }
  ~Caller() { dlclose(library_); }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  template <typename... Arguments>
  int Call(const char* function, Arguments... arguments) const {
    auto* call = reinterpret_cast<int (*)(Arguments...)>(dlsym(library_, function));
    EXPECT_NE(call, nullptr) << function;
    return call == nullptr ? -1 : call(arguments...);
  }

 private:
  void* const library_;
};

// What a caller is given, with what lies behind it.
class Filled {
 public:
  Filled() : bytes_(1024, 0xee) {}
  uint8_t* data() { return bytes_.data(); }
  uint32_t Word(size_t offset) const {
    uint32_t word = 0;
    memcpy(&word, &bytes_[offset], sizeof(word));
    return word;
  }
  size_t size() const {
    size_t size = bytes_.size();
    while (size > 0 && bytes_[size - 1] == 0xee) --size;
    return size;
  }

 private:
  std::vector<uint8_t> bytes_;
};

class SimgpuThunk : public testing::Test {
 protected:
  SimgpuThunk() {
    setenv("SIMGPU_COUNT", "2", 1);
    EXPECT_EQ(hsaKmtOpenKFD(), HSAKMT_STATUS_SUCCESS);
  }
  ~SimgpuThunk() override {
    EXPECT_EQ(hsaKmtCloseKFD(), HSAKMT_STATUS_SUCCESS);
    unsetenv("SIMGPU_COUNT");
  }

  const Caller debian_{"2022"}, of_2024_{"2024"}, of_2025_{"2025"};
};

// Offsets of one field in each layout.
struct Field {
  const char* name;
  size_t debian, of_2024, of_2025;
  uint32_t value;
};

TEST_F(SimgpuThunk, NodesHaveTheLayoutOfTheirCaller) {
  Filled debian, of_2024, of_2025;
  ASSERT_EQ(debian_.Call("caller_node", 2u, debian.data()), 0);
  ASSERT_EQ(of_2024_.Call("caller_node", 2u, of_2024.data()), 0);
  ASSERT_EQ(of_2025_.Call("caller_node", 2u, of_2025.data()), 0);
  EXPECT_EQ(debian.size(), sizeof(HsaNodeProperties));
  EXPECT_EQ(of_2024.size(), 360u);
  EXPECT_EQ(of_2025.size(), 368u);
  const std::vector<Field> fields = {
      {"NumFComputeCores", 4, 4, 4, 416},   {"NumMemoryBanks", 8, 8, 12, 3},
      {"WaveFrontSize", 44, 44, 52, 64},    {"NumSIMDPerCU", 60, 60, 68, 4},
      {"EngineId", 68, 68, 76, 0x0a002446},  // 9.0.10, firmware 70
      {"LocationId", 76, 80, 88, 0x2300},   {"DrmRenderMinor", 96, 100, 108, 129},
      {"NumSdmaEngines", 312, 316, 324, 2}, {"SGPRSizePerCU", 340, 344, 352, 16384},
      {"NumXcc", 344, 348, 356, 1},         {"KFDGpuID", 348, 352, 360, 0x1002},
      {"FamilyID", 352, 356, 364, 141},
  };
  for (const Field& field : fields) {
    EXPECT_EQ(debian.Word(field.debian), field.value) << field.name;
    EXPECT_EQ(of_2024.Word(field.of_2024), field.value) << field.name;
    EXPECT_EQ(of_2025.Word(field.of_2025), field.value) << field.name;
  }
  // What only they have.
  EXPECT_EQ(of_2024.Word(72), 0u) << "OverrideEngineId";
  EXPECT_EQ(of_2025.Word(8), 0u) << "NumNeuralCores";
  EXPECT_EQ(of_2025.Word(36), 0u) << "Capability2";
  EXPECT_EQ(of_2025.Word(80), 0u) << "OverrideEngineId";
}

TEST_F(SimgpuThunk, LinksHaveTheLayoutOfTheirCaller) {
  Filled debian, of_2024, of_2025;
  ASSERT_EQ(debian_.Call("caller_links", 1u, 2u, debian.data()), 0);
  ASSERT_EQ(of_2024_.Call("caller_links", 1u, 2u, of_2024.data()), 0);
  ASSERT_EQ(of_2025_.Call("caller_links", 1u, 2u, of_2025.data()), 0);
  EXPECT_EQ(debian.size(), 2 * sizeof(HsaIoLinkProperties));
  EXPECT_EQ(of_2024.size(), 2 * 52u);
  EXPECT_EQ(of_2025.size(), 2 * 52u);
  // NodeTo of each: the CPU and the other GPU.
  const size_t to = offsetof(HsaIoLinkProperties, NodeTo);
  EXPECT_EQ(debian.Word(48 + to), 2u);
  EXPECT_EQ(of_2024.Word(52 + to), 2u);
  EXPECT_EQ(of_2025.Word(52 + to), 2u);
  EXPECT_EQ(of_2025.Word(44), 0u) << "RecSdmaEngIdMask";
}

TEST_F(SimgpuThunk, TheDriverIsAsOldAsItsCaller) {
  uint32_t version[2] = {};
  ASSERT_EQ(debian_.Call("caller_version", &version[0]), 0);
  EXPECT_EQ(version[0], 1u);
  EXPECT_EQ(version[1], 11u);
  ASSERT_EQ(of_2025_.Call("caller_version", &version[0]), 0);
  EXPECT_EQ(version[0], 1u);
  EXPECT_EQ(version[1], 14u) << "the first with the age of events";
}

TEST_F(SimgpuThunk, ARuntimeIsEnabledOnceAndDisabledAsOftenAsOneLikes) {
  EXPECT_EQ(debian_.Call("caller_enable"), HSAKMT_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(debian_.Call("caller_disable"), HSAKMT_STATUS_NOT_SUPPORTED);
  uint32_t capabilities = 1;
  EXPECT_EQ(hsaKmtGetRuntimeCapabilities(&capabilities), HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(capabilities, 0u);
  EXPECT_EQ(of_2025_.Call("caller_disable"), HSAKMT_STATUS_SUCCESS) << "not enabled";
  EXPECT_EQ(of_2025_.Call("caller_enable"), HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(of_2024_.Call("caller_enable"), HSAKMT_STATUS_UNAVAILABLE) << "it is";
  EXPECT_EQ(hsaKmtGetRuntimeCapabilities(&capabilities), HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(capabilities, SIMGPU_CORE_DUMPS_BY_DRIVER);
  EXPECT_EQ(of_2025_.Call("caller_disable"), HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(of_2025_.Call("caller_disable"), HSAKMT_STATUS_SUCCESS) << "twice";
  EXPECT_EQ(of_2024_.Call("caller_enable"), HSAKMT_STATUS_SUCCESS) << "and again";
  EXPECT_EQ(of_2024_.Call("caller_disable"), HSAKMT_STATUS_SUCCESS);
}

TEST_F(SimgpuThunk, AForkedChildHasNoRuntime) {
  ASSERT_EQ(of_2025_.Call("caller_enable"), HSAKMT_STATUS_SUCCESS);
  const pid_t child = fork();
  if (child == 0) {
    int wrong =
        of_2025_.Call("caller_enable") != HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
    // What a runtime's destructor does there.
    wrong += 2 * (of_2025_.Call("caller_disable") != HSAKMT_STATUS_SUCCESS);
    wrong += 4 * (hsaKmtOpenKFD() != HSAKMT_STATUS_SUCCESS);
    wrong += 8 * (of_2025_.Call("caller_enable") != HSAKMT_STATUS_SUCCESS);
    _exit(wrong);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(of_2025_.Call("caller_disable"), HSAKMT_STATUS_SUCCESS);
}

TEST_F(SimgpuThunk, WaitsTellTheAgeOfAnEvent) {
  HsaEventDescriptor descriptor = {};
  descriptor.EventType = HSA_EVENTTYPE_SIGNAL;
  HsaEvent* event = nullptr;
  ASSERT_EQ(hsaKmtCreateEvent(&descriptor, false, false, &event), 0);
  uint64_t age = 1;
  EXPECT_EQ(hsaKmtWaitOnEvent_Ext(event, 0, &age), HSAKMT_STATUS_WAIT_TIMEOUT);
  hsaKmtSetEvent(event);
  EXPECT_EQ(hsaKmtWaitOnEvent_Ext(event, 0, &age), HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(age, 2u);
  uint64_t ages[] = {2};
  EXPECT_EQ(hsaKmtWaitOnMultipleEvents_Ext(&event, 1, true, 0, ages),
            HSAKMT_STATUS_WAIT_TIMEOUT);
  ages[0] = 1;
  EXPECT_EQ(hsaKmtWaitOnMultipleEvents_Ext(&event, 1, true, 0, ages),
            HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(ages[0], 2u);
  EXPECT_EQ(hsaKmtWaitOnEvent_Ext(nullptr, 0, &age), HSAKMT_STATUS_INVALID_HANDLE);
  EXPECT_EQ(hsaKmtWaitOnMultipleEvents_Ext(nullptr, 1, true, 0, ages),
            HSAKMT_STATUS_INVALID_HANDLE);
  EXPECT_EQ(hsaKmtDestroyEvent(event), HSAKMT_STATUS_SUCCESS);
}

TEST_F(SimgpuThunk, MemoryIsAlignedAndCounted) {
  uint64_t before = 0, after = 0;
  ASSERT_EQ(hsaKmtAvailableMemory(1, &before), HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(before, uint64_t{64} << 30) << "nothing is allocated";
  HsaMemFlags flags = {};
  void* memory = nullptr;
  ASSERT_EQ(hsaKmtAllocMemoryAlign(1, 8192, 2 << 20, flags, &memory), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % (2 << 20), 0u);
  ASSERT_EQ(hsaKmtAvailableMemory(1, &after), HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(after, before - 8192);
  ASSERT_EQ(hsaKmtAvailableMemory(2, &after), HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(after, before) << "the other GPU's";
  EXPECT_EQ(hsaKmtAvailableMemory(0, &after), HSAKMT_STATUS_INVALID_PARAMETER);
  EXPECT_EQ(hsaKmtAllocMemoryAlign(1, 8192, 12288, flags, &memory),
            HSAKMT_STATUS_INVALID_PARAMETER)
      << "no power of two";
  EXPECT_EQ(hsaKmtAllocMemoryAlign(9, 8192, 4096, flags, &memory),
            HSAKMT_STATUS_INVALID_PARAMETER);
  EXPECT_EQ(hsaKmtFreeMemory(memory, 8192), HSAKMT_STATUS_SUCCESS);
}

TEST_F(SimgpuThunk, CopyQueuesOfAnEngine) {
  std::vector<uint8_t> ring(4096);
  HsaQueueResource resource = {};
  const auto create = [&](uint32_t engine) {
    return hsaKmtCreateQueueExt(
        1, static_cast<HSA_QUEUE_TYPE>(SIMGPU_QUEUE_SDMA_BY_ENGINE), 100,
        HSA_QUEUE_PRIORITY_NORMAL, engine, ring.data(), ring.size(), nullptr,
        &resource);
  };
  ASSERT_EQ(create(4), HSAKMT_STATUS_SUCCESS) << "2 engines, and 3 between GPUs";
  EXPECT_NE(resource.Queue_DoorBell_aql, nullptr);
  EXPECT_EQ(hsaKmtDestroyQueue(resource.QueueId), HSAKMT_STATUS_SUCCESS);
  EXPECT_EQ(create(5), HSAKMT_STATUS_INVALID_PARAMETER);
}

TEST_F(SimgpuThunk, DevicesHaveHandles) {
  void *first = nullptr, *second = nullptr;
  ASSERT_EQ(hsaKmtGetAMDGPUDeviceHandle(1, &first), HSAKMT_STATUS_SUCCESS);
  ASSERT_EQ(hsaKmtGetAMDGPUDeviceHandle(2, &second), HSAKMT_STATUS_SUCCESS);
  EXPECT_NE(first, second);
  EXPECT_EQ(hsaKmtGetAMDGPUDeviceHandle(0, &first), HSAKMT_STATUS_INVALID_PARAMETER);
  simgpu_drm_gpu_info info;
  ASSERT_EQ(amdgpu_query_gpu_info(second, &info), 0);
  EXPECT_EQ(info.counter_khz, 25000u);
  EXPECT_EQ(info.family_id, 141u);
  EXPECT_EQ(info.device_id, 0x740fu);
  EXPECT_LT(amdgpu_query_gpu_info(nullptr, &info), 0);
  static_assert(offsetof(simgpu_drm_gpu_info, counter_khz) == 72);
  static_assert(sizeof(simgpu_drm_gpu_info) == 416);
  bool model = true;
  EXPECT_EQ(hsaKmtModelEnabled(&model), HSAKMT_STATUS_SUCCESS);
  EXPECT_FALSE(model);
}

// A queue whose first packet is a dispatch without a kernel, as a runtime makes it.
struct FaultyQueue {
  explicit FaultyQueue(HsaEvent* event) {
    inactive.kind = AMD_SIGNAL_KIND_USER;
    queue.queue_inactive_signal.handle = reinterpret_cast<uint64_t>(&inactive);
    HsaQueueResource resource = {};
    resource.Queue_read_ptr_aql =
        reinterpret_cast<HSAuint64*>(const_cast<uint64_t*>(&queue.read_dispatch_id));
    resource.ErrorReason = &reason;
    EXPECT_EQ(
        hsaKmtCreateQueueExt(1, HSA_QUEUE_COMPUTE_AQL, 100, HSA_QUEUE_PRIORITY_NORMAL,
                             0, ring, sizeof(ring), event, &resource),
        HSAKMT_STATUS_SUCCESS);
    id = resource.QueueId;
    for (auto& packet : ring) packet.header = HSA_PACKET_TYPE_INVALID;
    ring[0].grid_size_x = ring[0].grid_size_y = ring[0].grid_size_z = 1;
    ring[0].workgroup_size_x = ring[0].workgroup_size_y = 1;
    ring[0].workgroup_size_z = 1;
    __atomic_store_n(&ring[0].header, HSA_PACKET_TYPE_KERNEL_DISPATCH,
                     __ATOMIC_RELEASE);
    __atomic_store_n(&queue.write_dispatch_id, 1, __ATOMIC_RELEASE);
    __atomic_store_n(resource.Queue_DoorBell_aql, 0, __ATOMIC_RELEASE);
  }
  ~FaultyQueue() { EXPECT_EQ(hsaKmtDestroyQueue(id), HSAKMT_STATUS_SUCCESS); }
  FaultyQueue(const FaultyQueue&) = delete;
  FaultyQueue& operator=(const FaultyQueue&) = delete;

  int64_t Inactive() const {
    return __atomic_load_n(&inactive.value, __ATOMIC_ACQUIRE);
  }

  alignas(64) amd_signal_t inactive = {};
  alignas(64) amd_queue_t queue = {};
  alignas(64) hsa_kernel_dispatch_packet_t ring[64] = {};
  volatile int64_t reason = 0;
  HSA_QUEUEID id = 0;
};

TEST_F(SimgpuThunk, ErrorsOfQueuesReachTheRuntimeThatEnabledThem) {
  HsaEventDescriptor descriptor = {};
  descriptor.EventType = HSA_EVENTTYPE_SIGNAL;
  HsaEvent* event = nullptr;
  ASSERT_EQ(hsaKmtCreateEvent(&descriptor, false, false, &event), 0);
  ASSERT_EQ(of_2025_.Call("caller_enable"), HSAKMT_STATUS_SUCCESS);
  {
    const FaultyQueue faulty(event);
    uint64_t age = 1;
    ASSERT_EQ(hsaKmtWaitOnEvent_Ext(event, HSA_EVENTTIMEOUT_INFINITE, &age),
              HSAKMT_STATUS_SUCCESS);
    EXPECT_EQ(faulty.reason, 1 << 17) << "the dispatch's code is invalid";
    EXPECT_EQ(faulty.Inactive(), 0);
  }
  ASSERT_EQ(of_2025_.Call("caller_disable"), HSAKMT_STATUS_SUCCESS);
  {
    const FaultyQueue faulty(event);
    while (faulty.Inactive() == 0) std::this_thread::yield();
    EXPECT_EQ(faulty.Inactive(), 8) << "the packet processor's number for it";
    EXPECT_EQ(faulty.reason, 0);
  }
  EXPECT_EQ(hsaKmtDestroyEvent(event), HSAKMT_STATUS_SUCCESS);
}

}  // namespace
