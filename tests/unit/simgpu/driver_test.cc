// The driver as a runtime sees it: ioctls and the topology.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <hsa/amd_hsa_queue.h>
#include <hsa/amd_hsa_signal.h>
#include <hsa/hsa.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/await.h"
#include "tests/simgpu/kfd_later.h"
#include "tests/unit/simgpu/core.h"

namespace {

constexpr uint32_t kGpu = 0x1001;
// As runtimes before Linux 6.12 call it, whatever the headers of this machine have.
constexpr unsigned long kCreateQueue =
    _IOC(_IOC_READ | _IOC_WRITE, AMDKFD_IOCTL_BASE, 0x02, 88);

class SimgpuDriver : public testing::Test {
 protected:
  SimgpuDriver() {
    setenv("SIMGPU_COUNT", "2", 1);
    fd_ = simgpu_driver_open(O_RDWR | O_CLOEXEC);
    EXPECT_GE(fd_, 0);
  }
  ~SimgpuDriver() override {
    close(fd_);
    unsetenv("SIMGPU_COUNT");
  }

  template <typename Arguments>
  static int Ask(unsigned long request, Arguments* arguments) {
    return simgpu_driver_ioctl(request, arguments);
  }
  static int Enable(bool enable) {
    simgpu_kfd_runtime_enable arguments = {0, enable ? 1u : 0u, 0};
    return Ask(AMDKFD_IOWR(SIMGPU_KFD_RUNTIME_ENABLE, simgpu_kfd_runtime_enable),
               &arguments);
  }
  static std::string Read(const std::string& path) {
    char* text = nullptr;
    size_t bytes = 0;
    const simgpu_path found = simgpu_topology_at(
        ("/sys/class/kfd/kfd/topology/" + path).c_str(), &text, &bytes);
    std::string read(text, bytes);
    free(text);
    return found == SIMGPU_PATH_FILE ? read : "";
  }

  int fd_;
};

TEST_F(SimgpuDriver, KnowsItsFile) {
  EXPECT_TRUE(simgpu_file_is(fd_));
  EXPECT_FALSE(simgpu_file_is(0));
  EXPECT_FALSE(simgpu_file_is(-1));
  const int render = simgpu_driver_open_render(1, O_RDWR);
  EXPECT_TRUE(simgpu_file_is(render));
  close(render);
  EXPECT_EQ(simgpu_driver_open_render(2, O_RDWR), -1);
  EXPECT_EQ(errno, ENOENT);
}

TEST_F(SimgpuDriver, AForkedChildOpensItAgain) {
  ASSERT_EQ(Enable(true), 0);
  const pid_t child = fork();
  if (child == 0) {
    int wrong = simgpu_file_is(fd_) || !simgpu_file_is_inherited(fd_);
    const int own = simgpu_driver_open(O_RDWR);
    wrong += 2 * !simgpu_file_is(own);
    wrong += 4 * (Enable(true) != 0);
    _exit(wrong);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Enable(false), 0);
}

TEST_F(SimgpuDriver, ARuntimeIsEnabledOnceAndMayBeDisabledRepeatedly) {
  EXPECT_EQ(Enable(false), 0) << "not enabled";
  EXPECT_EQ(Enable(true), 0);
  EXPECT_EQ(Enable(true), EBUSY);
  EXPECT_EQ(Enable(false), 0);
  EXPECT_EQ(Enable(false), 0);
}

TEST_F(SimgpuDriver, RefusesUnknownCalls) {
  uint64_t nothing[32] = {};
  EXPECT_EQ(Ask(AMDKFD_IOC_CRIU_OP, nothing), ENOTTY);
  EXPECT_EQ(Ask(AMDKFD_IOWR(0x7f, uint64_t), nothing), ENOTTY);
  EXPECT_EQ(Ask(AMDKFD_IOWR(0x02, uint64_t), nothing), EINVAL) << "too little";
  EXPECT_FALSE(simgpu_driver_may_be(0));
  EXPECT_TRUE(simgpu_driver_may_be(AMDKFD_IOC_GET_VERSION));
}

TEST_F(SimgpuDriver, AllocatesAndMaps) {
  kfd_ioctl_get_available_memory_args available = {};
  available.gpu_id = kGpu;
  ASSERT_EQ(Ask(AMDKFD_IOC_AVAILABLE_MEMORY, &available), 0);
  const uint64_t before = available.available;
  void* const reserved =
      mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  kfd_ioctl_alloc_memory_of_gpu_args allocate = {};
  allocate.va_addr = reinterpret_cast<uintptr_t>(reserved);
  allocate.size = 8192;
  allocate.gpu_id = kGpu;
  allocate.flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM;
  ASSERT_EQ(Ask(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &allocate), 0);
  ASSERT_EQ(Ask(AMDKFD_IOC_AVAILABLE_MEMORY, &available), 0);
  EXPECT_EQ(available.available, before - 8192);
  uint32_t gpus[] = {kGpu, kGpu + 1};
  kfd_ioctl_map_memory_to_gpu_args map = {};
  map.handle = allocate.handle;
  map.device_ids_array_ptr = reinterpret_cast<uintptr_t>(gpus);
  map.n_devices = 2;
  ASSERT_EQ(Ask(AMDKFD_IOC_MAP_MEMORY_TO_GPU, &map), 0);
  EXPECT_EQ(map.n_success, 2u);
  // The GPU is a thread of this process, so its address is valid here.
  static_cast<char*>(reserved)[8191] = 1;
  char* const other =
      static_cast<char*>(mmap(nullptr, 8192, PROT_READ, MAP_SHARED, fd_,
                              static_cast<off_t>(allocate.mmap_offset)));
  ASSERT_NE(other, MAP_FAILED);
  EXPECT_EQ(other[8191], 1);
  kfd_ioctl_free_memory_of_gpu_args release = {allocate.handle};
  EXPECT_EQ(Ask(AMDKFD_IOC_FREE_MEMORY_OF_GPU, &release), 0);
  EXPECT_NE(Ask(AMDKFD_IOC_MAP_MEMORY_TO_GPU, &map), 0);
  munmap(other, 8192);
  munmap(reserved, 8192);
  allocate.gpu_id = kGpu + 2;
  EXPECT_EQ(Ask(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &allocate), EINVAL) << "no such GPU";
  allocate.gpu_id = kGpu;
  allocate.size = uint64_t{65} << 30;
  EXPECT_EQ(Ask(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &allocate), ENOMEM);
}

TEST_F(SimgpuDriver, WaitsTellTheAgeOfAnEvent) {
  kfd_ioctl_create_event_args create = {};
  create.auto_reset = 1;
  ASSERT_EQ(Ask(AMDKFD_IOC_CREATE_EVENT, &create), 0);
  EXPECT_NE(create.event_page_offset, 0u);
  kfd_event_data data = {};
  data.event_id = create.event_id;
  auto* const signal = reinterpret_cast<simgpu_kfd_signal_event*>(&data);
  signal->last_age = 1;
  kfd_ioctl_wait_events_args wait = {};
  wait.events_ptr = reinterpret_cast<uintptr_t>(&data);
  wait.num_events = 1;
  EXPECT_EQ(Ask(AMDKFD_IOC_WAIT_EVENTS, &wait), 0);
  EXPECT_EQ(wait.wait_result, static_cast<uint32_t>(KFD_IOC_WAIT_RESULT_TIMEOUT));
  kfd_ioctl_set_event_args set = {create.event_id, 0};
  EXPECT_EQ(Ask(AMDKFD_IOC_SET_EVENT, &set), 0);
  EXPECT_EQ(Ask(AMDKFD_IOC_WAIT_EVENTS, &wait), 0);
  EXPECT_EQ(wait.wait_result, static_cast<uint32_t>(KFD_IOC_WAIT_RESULT_COMPLETE));
  EXPECT_EQ(signal->last_age, 2u);
  kfd_ioctl_destroy_event_args destroy = {create.event_id, 0};
  EXPECT_EQ(Ask(AMDKFD_IOC_DESTROY_EVENT, &destroy), 0);
  EXPECT_EQ(Ask(AMDKFD_IOC_WAIT_EVENTS, &wait), EIO);
  wait.num_events = 0;
  EXPECT_EQ(Ask(AMDKFD_IOC_WAIT_EVENTS, &wait), EINVAL);
}

// A queue as a runtime makes it, whose first packet is a dispatch without a kernel.
struct FaultyQueue {
  explicit FaultyQueue(int fd, uint32_t event) {
    inactive.kind = AMD_SIGNAL_KIND_USER;
    queue.queue_inactive_signal.handle = reinterpret_cast<uint64_t>(&inactive);
    area.error_payload = reinterpret_cast<uintptr_t>(&reason);
    area.error_event = event;
    kfd_ioctl_create_queue_args create = {};
    create.ring_base_address = reinterpret_cast<uintptr_t>(ring);
    create.ring_size = sizeof(ring);
    create.gpu_id = kGpu;
    create.queue_type = KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
    create.read_pointer_address =
        reinterpret_cast<uintptr_t>(const_cast<uint64_t*>(&queue.read_dispatch_id));
    create.ctx_save_restore_address = reinterpret_cast<uintptr_t>(&area);
    EXPECT_EQ(simgpu_driver_ioctl(kCreateQueue, &create), 0);
    id = create.queue_id;
    void* const page =
        mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
             static_cast<off_t>(create.doorbell_offset & ~uint64_t{8191}));
    EXPECT_NE(page, MAP_FAILED);
    doorbells = static_cast<uint64_t*>(page);
    for (auto& packet : ring) packet.header = HSA_PACKET_TYPE_INVALID;
    ring[0].grid_size_x = ring[0].grid_size_y = ring[0].grid_size_z = 1;
    ring[0].workgroup_size_x = ring[0].workgroup_size_y = 1;
    ring[0].workgroup_size_z = 1;
    __atomic_store_n(&ring[0].header, HSA_PACKET_TYPE_KERNEL_DISPATCH,
                     __ATOMIC_RELEASE);
    __atomic_store_n(&queue.write_dispatch_id, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&doorbells[create.doorbell_offset % 8192 / 8], 0,
                     __ATOMIC_RELEASE);
  }
  ~FaultyQueue() {
    kfd_ioctl_destroy_queue_args destroy = {id, 0};
    EXPECT_EQ(simgpu_driver_ioctl(AMDKFD_IOC_DESTROY_QUEUE, &destroy), 0);
    EXPECT_EQ(simgpu_driver_ioctl(AMDKFD_IOC_DESTROY_QUEUE, &destroy), EINVAL);
    munmap(doorbells, 8192);
  }
  FaultyQueue(const FaultyQueue&) = delete;
  FaultyQueue& operator=(const FaultyQueue&) = delete;

  int64_t Inactive() const {
    return __atomic_load_n(&inactive.value, __ATOMIC_ACQUIRE);
  }

  alignas(64) amd_signal_t inactive = {};
  alignas(64) amd_queue_t queue = {};
  alignas(64) hsa_kernel_dispatch_packet_t ring[64] = {};
  simgpu_kfd_save_area area = {};
  volatile int64_t reason = 0;
  uint64_t* doorbells;
  uint32_t id = 0;
};

TEST_F(SimgpuDriver, ErrorsOfQueuesReachTheRuntimeThatEnabledThem) {
  const uint32_t event = simgpu_event_create(SIMGPU_EVENT_SIGNAL, true);
  ASSERT_EQ(Enable(true), 0);
  {
    const FaultyQueue faulty(fd_, event);
    EXPECT_EQ(simgpu_event_wait(&event, nullptr, 1, true, /*milliseconds=*/60'000),
              SIMGPU_WAIT_DONE)
        << "the error of the queue has not come";
    EXPECT_EQ(faulty.reason, 1 << 17) << "the dispatch's code is invalid";
    EXPECT_EQ(faulty.Inactive(), 0);
  }
  ASSERT_EQ(Enable(false), 0);
  {
    const FaultyQueue faulty(fd_, event);
    rocattach::testing_support::Await([&] { return faulty.Inactive() != 0; },
                                      "the error of the queue");
    EXPECT_EQ(faulty.Inactive(), 8) << "the packet processor's number for it";
    EXPECT_EQ(faulty.reason, 0);
  }
  simgpu_event_destroy(event);
}

TEST_F(SimgpuDriver, DescribesTheMachine) {
  EXPECT_EQ(Read("nodes/0/gpu_id"), "0\n");
  EXPECT_EQ(Read("nodes/2/gpu_id"), "4098\n");
  EXPECT_EQ(Read("nodes/3/gpu_id"), "");
  EXPECT_EQ(Read("nodes/1/name"), "aldebaran\n");
  const std::string gpu = Read("nodes/1/properties");
  for (const char* line :
       {"\nsimd_count 416\n", "\nwave_front_size 64\n", "\ngfx_target_version 90010\n",
        "\nnum_sdma_engines 2\n", "\nlocation_id 768\n", "\ndrm_render_minor 128\n"}) {
    EXPECT_NE(gpu.find(line), std::string::npos) << line << gpu;
  }
  EXPECT_NE(Read("nodes/2/io_links/1/properties").find("node_to 1\n"),
            std::string::npos);
  EXPECT_NE(Read("nodes/1/mem_banks/0/properties").find("68719476736"),
            std::string::npos);
  EXPECT_EQ(Read("nodes/1/caches/2/properties"), "");
}

TEST_F(SimgpuDriver, FoldersListTheirEntries) {
  const auto list = [](const char* path) {
    char* text = nullptr;
    size_t bytes = 0;
    EXPECT_EQ(simgpu_topology_at(path, &text, &bytes), SIMGPU_PATH_FOLDER) << path;
    std::string names(text, bytes);
    free(text);
    return names;
  };
  EXPECT_EQ(list("/sys/devices/virtual/kfd/kfd/topology/nodes"),
            std::string("0\0001\0002\0", 6));
  EXPECT_EQ(list("/sys/class/kfd/kfd/topology/nodes/1/p2p_links/"), "");
  for (const char* absent :
       {"/sys/class/kfd/kfd/proc", "/sys/class/kfd/x", "/sys/module/amdgpu/x",
        "/sys/class/kfd/kfd/topology/nodes/-1", "/sys/class/kfd/kfd/topology/nodes/1x",
        "/sys/class/kfd/kfd/topology/nodes/1/mem_banks/1",
        "/sys/class/kfd/kfd/topology/generation_id/x"}) {
    EXPECT_EQ(simgpu_topology_at(absent, nullptr, nullptr), SIMGPU_PATH_ABSENT)
        << absent;
  }
  for (const char* other : {"/sys/class", "/sys/class/kfdx", "/proc/self/maps", "", "/",
                            "sys/class/kfd", "/dev/kfd"}) {
    EXPECT_EQ(simgpu_topology_at(other, nullptr, nullptr), SIMGPU_PATH_OTHER) << other;
  }
}

}  // namespace
