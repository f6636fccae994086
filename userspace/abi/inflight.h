// Packs operations in flight into the shared table, and back into records. Used on both
// sides of the shared memory.
#ifndef ROCATTACH_USERSPACE_ABI_INFLIGHT_H_
#define ROCATTACH_USERSPACE_ABI_INFLIGHT_H_

#include <stdint.h>
#include <string.h>

#include "userspace/abi/shared_memory.h"

namespace rocattach::collector {

// Packs all but the kind, which makes the entry valid.
inline void PackCopy(const rocattach_copy& r, rocattach_inflight* entry) {
  entry->flags = r.flags;
  entry->tid = r.tid;
  entry->correlation_id = r.correlation_id;
  entry->enqueue_ns = r.enqueue_ns;
  rocattach_inflight_copy* c = &entry->u.copy;
  c->bytes = r.bytes;
  c->src_address = r.src_address;
  c->dst_address = r.dst_address;
  c->src_agent_id = r.src_agent_id;
  c->dst_agent_id = r.dst_agent_id;
  c->direction = r.direction;
  c->engine = r.engine;
  memset(c->reserved, 0, sizeof(c->reserved));
}

// The part of a record that is known only when the operation has ended.
struct OperationEnd {
  uint16_t flags = 0;  // added to the entry's flags
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
};

inline void UnpackDispatch(const rocattach_inflight& entry, const OperationEnd& end,
                           rocattach_dispatch* r) {
  const rocattach_inflight_dispatch& d = entry.u.dispatch;
  r->kind = ROCATTACH_RECORD_DISPATCH;
  r->flags = static_cast<uint16_t>(entry.flags | end.flags);
  r->kernel_id = d.kernel_id;
  r->correlation_id = entry.correlation_id;
  r->enqueue_ns = entry.enqueue_ns;
  r->start_ns = end.start_ns;
  r->end_ns = end.end_ns;
  r->queue_id = d.queue_id;
  r->tid = entry.tid;
  r->grid_x = d.grid_x;
  r->grid_y = d.grid_y;
  r->grid_z = d.grid_z;
  r->workgroup_x = d.workgroup_x;
  r->workgroup_y = d.workgroup_y;
  r->workgroup_z = d.workgroup_z;
  r->agent_id = d.agent_id;
  r->lds_bytes = d.lds_bytes;
  r->scratch_bytes = d.scratch_bytes;
  r->iteration = d.iteration;
  r->packet_index = d.packet_index;
  r->dispatch_id = d.dispatch_id;
}

inline void UnpackCopy(const rocattach_inflight& entry, const OperationEnd& end,
                       rocattach_copy* r) {
  const rocattach_inflight_copy& c = entry.u.copy;
  r->kind = ROCATTACH_RECORD_COPY;
  r->flags = static_cast<uint16_t>(entry.flags | end.flags);
  r->src_agent_id = c.src_agent_id;
  r->dst_agent_id = c.dst_agent_id;
  r->correlation_id = entry.correlation_id;
  r->enqueue_ns = entry.enqueue_ns;
  r->start_ns = end.start_ns;
  r->end_ns = end.end_ns;
  r->bytes = c.bytes;
  r->tid = entry.tid;
  r->direction = c.direction;
  r->engine = c.engine;
  r->src_address = c.src_address;
  r->dst_address = c.dst_address;
  r->hip_stream = r->pad = 0;
  memset(r->reserved, 0, sizeof(r->reserved));
}

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_ABI_INFLIGHT_H_
