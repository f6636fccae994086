// A collector's shared memory as a test fills it: the real geometry in a real sealed
// memfd, without a target process.
#ifndef ROCATTACH_TESTS_UNIT_RECORD_FAKE_COLLECTOR_H_
#define ROCATTACH_TESTS_UNIT_RECORD_FAKE_COLLECTOR_H_

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "absl/types/span.h"
#include "tests/unit/record/collector_bytes.h"
#include "userspace/abi/geometry.h"
#include "userspace/abi/shared_memory.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

class FakeCollector {
 public:
  static constexpr uint32_t kRings = 2;
  static constexpr uint32_t kSlots = 64;
  static constexpr uint32_t kInflight = 16;
  static constexpr uint32_t kDictionaryBytes = 4096;

  // The configuration that a service would have used to make this memory.
  static rocattach_collector_config Config() {
    rocattach_collector_config config = {};
    config.size = sizeof(config);
    config.version = ROCATTACH_SHM_VERSION;
    config.ring_count = kRings;
    config.ring_slots = kSlots;
    config.inflight_count = kInflight;
    config.dictionary_bytes = kDictionaryBytes;
    config.collector_path[0] = '/';
    return config;
  }

  explicit FakeCollector(bool seal = true) {
    if (!collector::ComputeGeometry(Config(), &geometry_)) abort();
    fd_.reset(memfd_create(ROCATTACH_SHM_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    const uint64_t bytes = geometry_.total_bytes;
    (void)!ftruncate(fd_.get(), static_cast<off_t>(bytes));
    if (seal) fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    base_ = static_cast<uint8_t*>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0));
    rocattach_control* c = control();
    c->magic = ROCATTACH_SHM_MAGIC;
    c->version = ROCATTACH_SHM_VERSION;
    c->control_bytes = sizeof(*c);
    c->total_bytes = bytes;
    c->rings_offset = geometry_.rings_offset;
    c->ring_stride = geometry_.ring_stride;
    c->ring_count = kRings;
    c->ring_slots = kSlots;
    c->inflight_offset = geometry_.inflight_offset;
    c->inflight_count = kInflight;
    c->inflight_bytes = sizeof(rocattach_inflight);
    c->dictionary_offset = geometry_.dictionary_offset;
    c->dictionary_bytes = kDictionaryBytes;
    c->plan_offset = geometry_.plan_offset;
    c->plan_bytes = sizeof(rocattach_plan);
    // Each ring has had an owner: its page is written before it is in use.
    for (uint32_t i = 0; i < kRings; ++i) ring(i)->owner_tid = i + 1;
    c->rings_used = kRings;
    c->state = ROCATTACH_STATE_LOADED;
  }
  ~FakeCollector() { munmap(base_, geometry_.total_bytes); }

  int fd() const { return fd_.get(); }
  // The true geometry, even after a test has changed the control block.
  const collector::Geometry& geometry() const { return geometry_; }
  absl::Span<uint8_t> bytes() { return {base_, geometry_.total_bytes}; }
  rocattach_control* control() { return reinterpret_cast<rocattach_control*>(base_); }
  rocattach_ring* ring(uint32_t i) {
    return reinterpret_cast<rocattach_ring*>(base_ + geometry_.rings_offset +
                                             i * geometry_.ring_stride);
  }
  rocattach_inflight* inflight(uint32_t i) {
    return reinterpret_cast<rocattach_inflight*>(base_ + geometry_.inflight_offset +
                                                 i * sizeof(rocattach_inflight));
  }

  // Removes the page with the ring's positions.
  void PunchRing(uint32_t i) {
    const uint64_t offset = geometry_.rings_offset + i * geometry_.ring_stride;
    if (fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(offset), 4096) != 0) {
      abort();
    }
  }

  // Fills an entry with a dispatch in flight, as far as the tests look at it. The entry
  // is not valid before its kind is set.
  void FillInflight(uint32_t i, uint64_t correlation) {
    inflight(i)->correlation_id = correlation;
    inflight(i)->enqueue_ns = 1000 * correlation;
    inflight(i)->u.dispatch.kernel_id = 1;
  }
  void AddInflight(uint32_t i, uint64_t correlation) {
    FillInflight(i, correlation);
    inflight(i)->kind = ROCATTACH_RECORD_DISPATCH;
  }

  // In the collector's order: an operation is counted before it is published.
  void Publish(uint32_t ring_index, const void* record) {
    rocattach_ring* r = ring(ring_index);
    uint16_t kind;
    memcpy(&kind, record, sizeof(kind));
    if (kind == ROCATTACH_RECORD_DISPATCH) ++r->dispatches_seen;
    if (kind == ROCATTACH_RECORD_COPY) ++r->copies_seen;
    uint8_t* slots = reinterpret_cast<uint8_t*>(r) + ROCATTACH_RING_HEADER_BYTES;
    memcpy(slots + (r->head & (kSlots - 1)) * ROCATTACH_SLOT_BYTES, record,
           ROCATTACH_SLOT_BYTES);
    __atomic_add_fetch(&r->head, 1, __ATOMIC_RELEASE);
  }
  // Adds an entry to the dictionary; see collector_bytes.h.
  void AddEntry(absl::Span<const uint8_t> entry) {
    rocattach_control* c = control();
    memcpy(base_ + geometry_.dictionary_offset + c->dictionary_used, entry.data(),
           entry.size());
    __atomic_add_fetch(&c->dictionary_used, static_cast<uint32_t>(entry.size()),
                       __ATOMIC_RELEASE);
  }
  rocattach_plan* plan() {
    return reinterpret_cast<rocattach_plan*>(base_ + geometry_.plan_offset);
  }
  void AddGpu(uint32_t id, const std::string& name, const std::string& uuid,
              uint32_t xccs = 0) {
    rocattach_agent_entry agent = {};
    agent.entry.id = id;
    agent.type = 2;
    agent.compute_units = 104;
    agent.simds_per_cu = 4;
    agent.wavefront_size = 64;
    agent.pci_bdf = 0x300;
    agent.xccs = xccs;
    strncpy(agent.uuid, uuid.c_str(), sizeof(agent.uuid) - 1);
    AddEntry(EntryBytes(agent, ROCATTACH_ENTRY_AGENT, name));
  }
  void AddKernel(uint32_t id, const std::string& name) {
    AddEntry(KernelEntry(id, name));
  }
  static rocattach_dispatch Dispatch(uint64_t correlation) {
    rocattach_dispatch record = {};
    record.kind = ROCATTACH_RECORD_DISPATCH;
    record.kernel_id = 1;
    record.correlation_id = correlation;
    record.enqueue_ns = 1000 * correlation;
    record.start_ns = record.enqueue_ns + 100;
    record.end_ns = record.start_ns + 5000;
    return record;
  }

 private:
  collector::Geometry geometry_;
  UniqueFd fd_;
  uint8_t* base_;
};

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_RECORD_FAKE_COLLECTOR_H_
