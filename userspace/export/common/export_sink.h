// What every output format implements: it is told the processes, what is known about
// them, and their records, in one pass over the inputs. A sink keeps in memory what
// grows with the number of processes and names, never what grows with records.
#ifndef ROCATTACH_USERSPACE_EXPORT_COMMON_EXPORT_SINK_H_
#define ROCATTACH_USERSPACE_EXPORT_COMMON_EXPORT_SINK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "schemas/records.pb.h"
#include "userspace/abi/records.h"
#include "userspace/export/common/export_process.h"
#include "userspace/stream/session_records.h"

namespace rocattach {

// A dispatch that was counted, with the values of one pass.
struct CountedDispatch {
  // Null when the dispatch itself is not in the recording, or came too long before or
  // after its values.
  const rocattach_dispatch* dispatch = nullptr;
  // All with the same operation; never empty.
  absl::Span<const CounterRecord> values;
  // Of the dispatch, as sinks that are told records as rocprofv3 has them have it; also
  // where the dispatch is not known.
  uint64_t correlation_id = 0;
  // The same as other sinks have it.
  uint64_t own_id = 0;
};

// Start and end are present and in order; a target can claim anything.
template <typename Operation>
bool HasTimes(const Operation& r) {
  return (r.flags & (ROCATTACH_DISPATCH_UNTIMED | ROCATTACH_DISPATCH_UNFINISHED)) ==
             0 &&
         r.start_ns != 0 && r.end_ns >= r.start_ns;
}

// Errors are final: after the first one, only WritePartial() and the destructor are
// called, and the output stays behind as a partial one.
class ExportSink {
 public:
  virtual ~ExportSink() = default;

  // A process begins; its records and entries follow until EndProcess. Several may be
  // open at a time if the format's `many_processes` is set. `process` lives until then,
  // and learns names meanwhile: an entry is normally there before the first record that
  // needs it, but not in damaged inputs.
  virtual absl::Status BeginProcess(const ExportProcess&) { return absl::OkStatus(); }

  // Something new was learned. What was known before BeginProcess follows it.
  virtual absl::Status OnAgent(const ExportProcess&, const v1::Agent&) {
    return absl::OkStatus();
  }
  virtual absl::Status OnQueue(const ExportProcess&, const v1::Queue&) {
    return absl::OkStatus();
  }
  virtual absl::Status OnCodeObject(const ExportProcess&, const v1::CodeObject&) {
    return absl::OkStatus();
  }
  virtual absl::Status OnKernel(const ExportProcess&, const ExportKernel&) {
    return absl::OkStatus();
  }
  virtual absl::Status OnSessionPlan(const ExportProcess&, const v1::SessionPlan&) {
    return absl::OkStatus();
  }
  virtual absl::Status OnApiFunction(const ExportProcess&, const v1::ApiFunction&) {
    return absl::OkStatus();
  }

  // Records, in the order of the stream; operations may come later than others if their
  // calls are looked for (ExportFormat::as_rocprofv3). dispatch_id is always set: it counts the
  // dispatches of the process from 1, whatever the recording says.
  virtual absl::Status OnDispatches(const ExportProcess&,
                                    absl::Span<const rocattach_dispatch>) {
    return absl::OkStatus();
  }
  virtual absl::Status OnCopies(const ExportProcess&,
                                absl::Span<const rocattach_copy>) {
    return absl::OkStatus();
  }
  virtual absl::Status OnCountedDispatch(const ExportProcess&, const CountedDispatch&) {
    return absl::OkStatus();
  }
  // The values of whole samples.
  virtual absl::Status OnSamples(const ExportProcess&,
                                 absl::Span<const CounterRecord>) {
    return absl::OkStatus();
  }
  virtual absl::Status OnApiCalls(const ExportProcess&,
                                  absl::Span<const ApiCallRecord>) {
    return absl::OkStatus();
  }

  virtual absl::Status OnMemory(const ExportProcess&, absl::Span<const MemoryRecord>) {
    return absl::OkStatus();
  }

  // No more records of this process follow; process.end() says how it ended, if that is
  // known.
  virtual absl::Status EndProcess(const ExportProcess&) { return absl::OkStatus(); }

  // While a recording is followed: makes what was written visible to readers.
  virtual absl::Status Flush() { return absl::OkStatus(); }

  // Completes the output under its final name. Every process has ended.
  virtual absl::Status Finish() = 0;

  // The conversion ends early: it was interrupted, or this or another output failed.
  // Writes what there is, as far as that is possible, and leaves the files the names of
  // partial ones. `open`: the processes of this sink that have not ended.
  virtual void WritePartial(absl::Span<const ExportProcess* const>) { (void)Flush(); }

  // The files that it has created so far, by the names that they have now.
  virtual std::vector<std::string> Files() const = 0;

  // What it could not write although it was told, as clauses for users.
  virtual std::vector<std::string> Omissions() const { return {}; }
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_COMMON_EXPORT_SINK_H_
