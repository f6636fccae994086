// The functions that copy memory.
#include "userspace/collector/hsa/backend.h"
#include "userspace/collector/hsa/hooks.h"

namespace rocattach::collector {
namespace {

// Calls `submit`, and notes the copy before and after it.
template <typename Submit>
hsa_status_t NoteCopy(hsa_agent_t dst_agent, hsa_agent_t src_agent, const void* dst,
                      const void* src, uint64_t bytes, uint16_t direction,
                      hsa_signal_t completion, Submit submit) {
  Process& p = g_process;
  HsaBackend& h = g_hsa;
  RingHandle ring = p.rings.Mine();
  rocattach_copy copy = h.copies.Describe(dst_agent, src_agent, dst, src, bytes, &ring);
  if (direction != ROCATTACH_COPY_UNKNOWN) copy.direction = direction;
  uint32_t op = h.copies.Begin(copy, completion, &ring);
  hsa_status_t status = submit();
  h.copies.Submitted(op, status, copy, &ring);
  p.worker.Nudge();
  return status;
}

// A copy that passes before the collector is armed counts as one unseen packet, a batch as
// well.
bool RecordCopies() {
  HsaBackend& h = g_hsa;
  if (g_process.guard.Ours()) h.live.Arm();
  if (g_process.Live()) return h.recording.Copies();
  if (h.live.IsBeingArmed() && h.recording.Copies()) {
    RingHandle ring = g_process.rings.Mine();
    ring.Count(&rocattach_ring::packets_unseen, uint64_t{1});
  }
  return false;
}

// The same for a copy that is about to use a signal.
bool RecordAsyncCopy(hsa_signal_t completion) {
  if (RecordCopies()) return true;
  if (g_process.Live()) g_hsa.tracker.app_signals().Reused(completion.handle);
  return false;
}

hsa_status_t HookAsyncCopy(void* dst, hsa_agent_t dst_agent, const void* src,
                           hsa_agent_t src_agent, size_t size, uint32_t num_deps,
                           const hsa_signal_t* deps, hsa_signal_t completion) {
  auto submit = [&] {
    return g_hsa.functions.memory_async_copy(dst, dst_agent, src, src_agent, size,
                                             num_deps, deps, completion);
  };
  if (!RecordAsyncCopy(completion)) return submit();
  return NoteCopy(dst_agent, src_agent, dst, src, size, ROCATTACH_COPY_UNKNOWN,
                  completion, submit);
}

hsa_status_t HookAsyncCopyOnEngine(void* dst, hsa_agent_t dst_agent, const void* src,
                                   hsa_agent_t src_agent, size_t size,
                                   uint32_t num_deps, const hsa_signal_t* deps,
                                   hsa_signal_t completion, int engine,
                                   bool force_sdma) {
  auto submit = [&] {
    return g_hsa.functions.memory_async_copy_on_engine(dst, dst_agent, src, src_agent,
                                                       size, num_deps, deps, completion,
                                                       engine, force_sdma);
  };
  if (!RecordAsyncCopy(completion)) return submit();
  return NoteCopy(dst_agent, src_agent, dst, src, size, ROCATTACH_COPY_UNKNOWN,
                  completion, submit);
}

hsa_status_t HookAsyncCopyRect(const hsa_pitched_ptr_t* dst,
                               const hsa_dim3_t* dst_offset,
                               const hsa_pitched_ptr_t* src,
                               const hsa_dim3_t* src_offset, const hsa_dim3_t* range,
                               hsa_agent_t agent, hsa_amd_copy_direction_t direction,
                               uint32_t num_deps, const hsa_signal_t* deps,
                               hsa_signal_t completion) {
  auto submit = [&] {
    return g_hsa.functions.memory_async_copy_rect(dst, dst_offset, src, src_offset,
                                                  range, agent, direction, num_deps,
                                                  deps, completion);
  };
  if (!RecordAsyncCopy(completion) || dst == nullptr || src == nullptr ||
      range == nullptr) {
    return submit();
  }
  // The runtime's directions count from 0, ours from 1, in the same order.
  uint32_t known = static_cast<uint32_t>(direction) + 1;
  bool from_device = direction == hsaDeviceToHost || direction == hsaDeviceToDevice;
  bool to_device = direction == hsaHostToDevice || direction == hsaDeviceToDevice;
  hsa_agent_t none = {};
  uint64_t bytes = uint64_t{range->x} * range->y * range->z;
  return NoteCopy(
      to_device ? agent : none, from_device ? agent : none, dst->base, src->base, bytes,
      known <= ROCATTACH_COPY_DEVICE_TO_DEVICE ? static_cast<uint16_t>(known)
                                               : uint16_t{0},
      completion, submit);
}

hsa_status_t HookAsyncCopyEnable(bool enable) {
  Process& p = g_process;
  HsaBackend& h = g_hsa;
  if (p.Live() && !h.copies.AppEnables(enable, h.recording.Copies())) {
    return HSA_STATUS_SUCCESS;
  }
  return h.functions.async_copy_enable(enable);
}

hsa_status_t HookMemoryCopy(void* dst, const void* src, size_t size) {
  Process& p = g_process;
  HsaBackend& h = g_hsa;
  if (!RecordCopies()) return h.functions.memory_copy(dst, src, size);
  RingHandle ring = p.rings.Mine();
  hsa_agent_t none = {};
  rocattach_copy copy = h.copies.Describe(none, none, dst, src, size, &ring);
  h.copies.DescribePointers(dst, src, &copy);
  copy.engine = ROCATTACH_ENGINE_SYNC;
  copy.start_ns = BootNs();
  hsa_status_t status = h.functions.memory_copy(dst, src, size);
  copy.end_ns = BootNs();
  if (status == HSA_STATUS_SUCCESS) h.copies.Done(&copy, &ring);
  return status;
}

hsa_status_t HookAsyncBatchCopy(const CopyOp* ops, uint32_t count, uint32_t num_deps,
                                const hsa_signal_t* deps) {
  const auto submit = [&] {
    return g_hsa.functions.memory_async_batch_copy(ops, count, num_deps, deps);
  };
  Process& p = g_process;
  HsaBackend& h = g_hsa;
  if (!RecordCopies()) {
    for (uint32_t i = 0, n = p.Live() ? h.copies.KnownOps(ops, count) : 0; i < n; ++i) {
      h.tracker.app_signals().Reused(ops[i].completion.handle);
    }
    return submit();
  }
  RingHandle ring = p.rings.Mine();
  Copies::Batch batch;
  batch.ops = ops;
  batch.count = count;
  h.copies.BeginBatch(&batch, &ring);
  const hsa_status_t status = submit();
  h.copies.BatchSubmitted(batch, status, &ring);
  p.worker.Nudge();
  return status;
}

}  // namespace

void InstallCopyHooks(ApiTableRoot* root, const AmdSlots& slots) {
  ApiTable* amd = root->amd_ext;
  ReplaceEntry(root->core, kCoreMemoryCopy, &HookMemoryCopy);
  ReplaceEntry(amd, slots.profiling_async_copy_enable, &HookAsyncCopyEnable);
  ReplaceEntry(amd, slots.memory_async_copy, &HookAsyncCopy);
  ReplaceEntry(amd, slots.memory_async_copy_on_engine, &HookAsyncCopyOnEngine);
  ReplaceEntry(amd, slots.memory_async_copy_rect, &HookAsyncCopyRect);
  ReplaceEntry(amd, slots.memory_async_batch_copy, &HookAsyncBatchCopy);
}

}  // namespace rocattach::collector
