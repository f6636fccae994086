// The interface through which a reader delivers the contents of a stream.
#ifndef ROCATTACH_USERSPACE_STREAM_VISITOR_H_
#define ROCATTACH_USERSPACE_STREAM_VISITOR_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "schemas/records.pb.h"
#include "schemas/stream.pb.h"
#include "userspace/abi/shared_memory.h"
#include "userspace/stream/frame_scanner.h"
#include "userspace/stream/record_counts.h"
#include "userspace/stream/session_records.h"

namespace rocattach {

// A position in the input.
struct FrameContext {
  // Number of the recording, from 0: concatenated files hold several.
  uint32_t recording = 0;
  // Stream of a process within the recording; 0 is the recorder's.
  uint32_t stream = 0;
  uint32_t sequence = 0;
  // Offset of the frame in its file.
  uint64_t offset = 0;
  // True if the frame is a key frame whose contents may be a repetition.
  bool repeated = false;
};

// Reports that something is missing or could not be read.
struct Damage {
  enum class Kind {
    kSkippedBytes,   // bytes that belong to no intact frame
    kMissingFrames,  // a gap in a stream's sequence numbers
    kUndecodable,    // an intact frame whose payload is invalid
    kUnknownFrame,   // a frame of a newer version: skipped
    kNoBeginning,    // the input starts in the middle of a recording
    kNoEnd,          // a recording without its end frame
  };
  Kind kind = Kind::kSkippedBytes;
  uint64_t offset = 0;   // in the file
  uint64_t bytes = 0;    // kSkippedBytes
  uint64_t frames = 0;   // kMissingFrames: missing ones; kSkippedBytes: damaged ones
  uint64_t records = 0;  // records known to be lost
  bool at_end = false;   // kSkippedBytes: up to the end of the input
  uint32_t recording = 0;
  uint32_t stream = 0;
  std::string what;  // one sentence for users
};

// Called for everything in a stream, in its order. Dictionary entries and events can be
// repeated (FrameContext.repeated); records cannot. Messages are valid until the call
// returns.
class StreamVisitor {
 public:
  virtual ~StreamVisitor() = default;
  // A recording begins: `header` is null when its header is missing.
  virtual void OnRecording(const FrameContext&, const v1::StreamHeader* header) {
    (void)header;
  }
  virtual void OnProcess(const FrameContext& at, const v1::Process& m) {
    OnMessage(at, m);
  }
  virtual void OnAgent(const FrameContext& at, const v1::Agent& m) { OnMessage(at, m); }
  virtual void OnQueue(const FrameContext& at, const v1::Queue& m) { OnMessage(at, m); }
  virtual void OnKernel(const FrameContext& at, const v1::Kernel& m) {
    OnMessage(at, m);
  }
  virtual void OnCodeObject(const FrameContext& at, const v1::CodeObject& m) {
    OnMessage(at, m);
  }
  // A batch of records of any kind; the call for its kind follows.
  virtual void OnBatch(const FrameContext&, RecordKind, size_t records) {
    (void)records;
  }
  virtual void OnDispatches(const FrameContext&, absl::Span<const rocattach_dispatch>) {
  }
  virtual void OnCopies(const FrameContext&, absl::Span<const rocattach_copy>) {}
  virtual void OnSessionPlan(const FrameContext& at, const v1::SessionPlan& m) {
    OnMessage(at, m);
  }
  virtual void OnApiFunction(const FrameContext& at, const v1::ApiFunction& m) {
    OnMessage(at, m);
  }
  virtual void OnThread(const FrameContext& at, const v1::Thread& m) {
    OnMessage(at, m);
  }
  // The values of one dispatch, or of one sample, are adjacent and in one call.
  virtual void OnCounters(const FrameContext&, absl::Span<const CounterRecord>) {}
  virtual void OnSamples(const FrameContext&, absl::Span<const CounterRecord>) {}
  virtual void OnApiCalls(const FrameContext&, absl::Span<const ApiCallRecord>) {}
  virtual void OnMemory(const FrameContext&, absl::Span<const MemoryRecord>) {}
  virtual void OnSession(const FrameContext& at, const v1::SessionEvent& m) {
    OnMessage(at, m);
  }
  virtual void OnWindow(const FrameContext& at, const v1::WindowEvent& m) {
    OnMessage(at, m);
  }
  virtual void OnClock(const FrameContext& at, const v1::ClockRelation& m) {
    OnMessage(at, m);
  }
  virtual void OnSampling(const FrameContext& at, const v1::SamplingEvent& m) {
    OnMessage(at, m);
  }
  virtual void OnAccount(const FrameContext& at, const v1::LossAccount& m) {
    OnMessage(at, m);
  }
  virtual void OnProcessEnd(const FrameContext& at, const v1::ProcessEnd& m) {
    OnMessage(at, m);
  }
  virtual void OnSummary(const FrameContext& at, const v1::WatcherSummary& m) {
    OnMessage(at, m);
  }
  virtual void OnStreamEnd(const FrameContext& at, const v1::StreamEnd& m) {
    OnMessage(at, m);
  }
  virtual void OnDamage(const Damage&) {}

 protected:
  // Called for any message whose own method is not overridden.
  virtual void OnMessage(const FrameContext&, const google::protobuf::Message&) {}
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_VISITOR_H_
