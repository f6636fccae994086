// The interface of every output format: a sink receives the processes, what is known
// about them, and their records, in one pass over the inputs. Its memory may grow with
// the number of processes and names, never with the number of records.
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
  // The dispatch's correlation id for sinks with ExportFormat::as_rocprofv3; also set
  // if the dispatch is not known.
  uint64_t correlation_id = 0;
  // The same for other sinks.
  uint64_t own_id = 0;
};

// True if start and end are present and in order; a target can claim anything.
template <typename Operation>
bool HasTimes(const Operation& r) {
  return (r.flags & (ROCATTACH_DISPATCH_UNTIMED | ROCATTACH_DISPATCH_UNFINISHED)) ==
             0 &&
         r.start_ns != 0 && r.end_ns >= r.start_ns;
}

// Errors are final: after the first one, only WritePartial() and the destructor are
// called, and the output remains as a partial one.
class ExportSink {
 public:
  virtual ~ExportSink() = default;

  // A process begins; its records and entries follow until EndProcess. Several may be
  // open at a time if the format's `many_processes` is set. `process` is valid until
  // then, and gains names meanwhile: an entry normally comes before the first record
  // that needs it, but not in damaged inputs.
  virtual absl::Status BeginProcess(const ExportProcess&) { return absl::OkStatus(); }

  // A new entry was read. Entries known before BeginProcess are passed right after it.
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

  // Records, in the order of the stream; operations may come later than others if they
  // wait for their calls (ExportFormat::as_rocprofv3). dispatch_id is always set: it
  // counts the dispatches of the process from 1, whatever the recording says.
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

  // Makes written data visible to readers, while a recording is followed.
  virtual absl::Status Flush() { return absl::OkStatus(); }

  // Completes the output under its final name. Every process has ended.
  virtual absl::Status Finish() = 0;

  // The conversion ends early: it was interrupted, or this or another output failed.
  // Writes what has been converted, as far as possible, and leaves the files their
  // partial names. `open`: the processes of this sink that have not ended.
  virtual void WritePartial(absl::Span<const ExportProcess* const>) { (void)Flush(); }

  // The files created so far, by their current names.
  virtual std::vector<std::string> Files() const = 0;

  // Data that the sink received but could not write, as clauses for users.
  virtual std::vector<std::string> Omissions() const { return {}; }
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_COMMON_EXPORT_SINK_H_
