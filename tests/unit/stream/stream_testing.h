// Helpers of the stream's tests: made-up records, and a visitor that keeps everything.
#ifndef ROCATTACH_TESTS_UNIT_STREAM_STREAM_TESTING_H_
#define ROCATTACH_TESTS_UNIT_STREAM_STREAM_TESTING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "userspace/stream/decoder.h"
#include "userspace/stream/visitor.h"
#include "userspace/stream/writer.h"

namespace rocattach {

// Returns `count` dispatches like those of a busy process: a few kernels on two queues,
// times with jitter. Deterministic.
std::vector<rocattach_dispatch> RegularDispatches(size_t count, uint32_t seed = 1);
// Returns dispatches with random values in every field, extremes included.
std::vector<rocattach_dispatch> RandomDispatches(size_t count, std::mt19937_64* random);
std::vector<rocattach_copy> RandomCopies(size_t count, std::mt19937_64* random);

// All fields that a stream contains, as text, so that failures are readable.
std::string Describe(const rocattach_dispatch& record);
std::string Describe(const rocattach_copy& record);

// Keeps all that it is given. Keys are (recording, stream).
class KeepingVisitor : public StreamVisitor {
 public:
  using Key = std::pair<uint32_t, uint32_t>;
  struct Stream {
    std::vector<v1::Process> processes;
    std::map<uint32_t, v1::Agent> agents;
    std::map<uint32_t, v1::Queue> queues;
    std::map<uint32_t, v1::Kernel> kernels;
    std::map<uint32_t, v1::CodeObject> code_objects;
    std::vector<rocattach_dispatch> dispatches;
    std::vector<rocattach_copy> copies;
    std::vector<v1::WindowEvent> windows;
    std::vector<v1::ClockRelation> clocks;
    std::vector<v1::LossAccount> accounts;
    std::vector<v1::ProcessEnd> ends;
    std::vector<v1::SessionEvent> sessions;
    std::vector<v1::SamplingEvent> sampling;
  };

  void OnRecording(const FrameContext& at, const v1::StreamHeader* header) override;
  void OnProcess(const FrameContext& at, const v1::Process& process) override;
  void OnAgent(const FrameContext& at, const v1::Agent& agent) override;
  void OnQueue(const FrameContext& at, const v1::Queue& queue) override;
  void OnKernel(const FrameContext& at, const v1::Kernel& kernel) override;
  void OnCodeObject(const FrameContext& at, const v1::CodeObject& object) override;
  void OnDispatches(const FrameContext& at,
                    absl::Span<const rocattach_dispatch> records) override;
  void OnCopies(const FrameContext& at,
                absl::Span<const rocattach_copy> records) override;
  void OnWindow(const FrameContext& at, const v1::WindowEvent& event) override;
  void OnClock(const FrameContext& at, const v1::ClockRelation& clock) override;
  void OnSampling(const FrameContext& at, const v1::SamplingEvent& event) override;
  void OnAccount(const FrameContext& at, const v1::LossAccount& account) override;
  void OnProcessEnd(const FrameContext& at, const v1::ProcessEnd& end) override;
  void OnSession(const FrameContext& at, const v1::SessionEvent& event) override;
  void OnSummary(const FrameContext& at, const v1::WatcherSummary& summary) override;
  void OnStreamEnd(const FrameContext& at, const v1::StreamEnd& end) override;
  void OnDamage(const Damage& damage) override;

  // The number of dispatches in all streams.
  size_t dispatch_count() const;
  bool HasDamage(Damage::Kind kind) const;

  std::map<Key, Stream> streams;
  std::vector<v1::StreamHeader> headers;
  uint32_t recordings = 0;
  std::vector<v1::WatcherSummary> summaries;
  std::vector<v1::StreamEnd> stream_ends;
  std::vector<Damage> damages;
};

// Reads `bytes` at once.
ReadStats ReadBytes(absl::string_view bytes, KeepingVisitor* visitor);

// The offsets of all frames, and the end of the last one.
std::vector<size_t> FrameOffsets(absl::string_view bytes);

// A writer into memory, uncompressed unless `level` is set.
std::unique_ptr<StreamWriter> MakeWriter(std::string* out, int level = 0);

// A small recording with some of everything: two processes, one of them refused.
std::string SampleRecording(int level = 0);

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_STREAM_STREAM_TESTING_H_
