// Converts streams to outputs: in one pass, in any number of formats at once.
#ifndef ROCATTACH_USERSPACE_EXPORT_EXPORTER_H_
#define ROCATTACH_USERSPACE_EXPORT_EXPORTER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/export/common/export_process.h"
#include "userspace/export/common/export_sink.h"
#include "userspace/export/common/launch_links.h"
#include "userspace/export/counter_join.h"
#include "userspace/export/export_format.h"
#include "userspace/export/marker_ranges.h"
#include "userspace/stream/visitor.h"

namespace rocattach {

struct ExporterOptions {
  ExportOptions output;
  std::vector<const ExportFormat*> formats;  // at least one
  // Returns the path of a process's outputs without "_results.json" and so on. If two
  // processes get the same one, the pid is added to outputs that hold one process.
  std::function<std::string(const ExportProcess&)> base_name;
  // Completes an output as soon as its process, or the last process that shares it, has
  // ended: for recordings that go on for weeks. In this case a process whose output
  // cannot be begun is left out, and does not end the conversion of the others.
  bool complete_with_process = false;
};

class Exporter : public StreamVisitor {
 public:
  explicit Exporter(ExporterOptions options) : options_(std::move(options)) {}

  // Errors of processes that were left out because an output could not be begun; only
  // the first ones are kept.
  const std::vector<std::string>& process_errors() const { return process_errors_; }
  // The first error of an output; nothing is written after it.
  const absl::Status& status() const { return status_; }
  // Makes what was written so far visible to readers.
  void Flush();
  // Ends all processes and completes all outputs.
  absl::Status Finish();

  // To be called instead of Finish(): writes what has been converted so far, under the
  // names of partial outputs. Finish() does this after an error.
  void WritePartial();

  // Outputs by their current names: complete ones, and after an error partial ones.
  std::vector<std::string> Files() const;
  // Number of processes with an output.
  uint64_t processes() const { return begun_; }
  // Data that was read but could not be written, as clauses for users; empty if there
  // is none.
  std::vector<std::string> Omissions() const;
  // Number of dispatches of ended processes that were counted but not recorded because
  // of a budget: outputs contain a sample of the dispatches.
  uint64_t sampled_out() const { return sampled_out_; }

  void OnRecording(const FrameContext& at, const v1::StreamHeader* header) override;
  void OnProcess(const FrameContext& at, const v1::Process& process) override;
  void OnAgent(const FrameContext& at, const v1::Agent& agent) override;
  void OnQueue(const FrameContext& at, const v1::Queue& queue) override;
  void OnKernel(const FrameContext& at, const v1::Kernel& kernel) override;
  void OnCodeObject(const FrameContext& at, const v1::CodeObject& object) override;
  void OnSessionPlan(const FrameContext& at, const v1::SessionPlan& plan) override;
  void OnApiFunction(const FrameContext& at, const v1::ApiFunction& function) override;
  void OnThread(const FrameContext& at, const v1::Thread& thread) override;
  void OnDispatches(const FrameContext& at,
                    absl::Span<const rocattach_dispatch> records) override;
  void OnCopies(const FrameContext& at,
                absl::Span<const rocattach_copy> records) override;
  void OnCounters(const FrameContext& at,
                  absl::Span<const CounterRecord> records) override;
  void OnSamples(const FrameContext& at,
                 absl::Span<const CounterRecord> records) override;
  void OnApiCalls(const FrameContext& at,
                  absl::Span<const ApiCallRecord> records) override;
  void OnMemory(const FrameContext& at,
                absl::Span<const MemoryRecord> records) override;
  void OnWindow(const FrameContext& at, const v1::WindowEvent& event) override;
  void OnAccount(const FrameContext& at, const v1::LossAccount& account) override;
  void OnProcessEnd(const FrameContext& at, const v1::ProcessEnd& end) override;

 private:
  // One output: a sink, and whether several processes share it.
  struct Output {
    std::unique_ptr<ExportSink> sink;
    bool shared = false;
    size_t open = 0;  // processes that write to it
    bool as_rocprofv3 = false;
  };
  struct Target {
    explicit Target(uint32_t number) : process(number) {}
    ExportProcess process;
    bool begun = false;
    std::vector<Output*> outputs;       // in the order of the formats
    std::unique_ptr<CounterJoin> join;  // set once it has a plan with counters
    // Recordings number operations and calls separately; in outputs no two records
    // share a correlation id, except for a call and the operations that it submitted.
    LaunchLinks links;
    // ROCTx ranges in rocprofv3's form; null if no output needs them.
    std::unique_ptr<MarkerRanges> ranges;
    uint64_t dispatches = 0;
  };

  // Returns null once the process has ended, or after an error.
  Target* Find(const FrameContext& at);
  // The same, and opens its outputs. `records`: number that is lost if this fails.
  Target* FindBegun(const FrameContext& at, size_t records);
  absl::Status Begin(Target* target);
  // Closes the outputs that no other process needs.
  void CloseOutputs(Target* target);
  absl::StatusOr<Output*> OpenOutput(const ExportFormat& format, const Target& target);
  void UpdateWorkload(ExportProcess* process, const v1::Workload& workload);
  // Adds an entry, and passes it on if it is new and the process has begun.
  template <typename Entry>
  void Learn(const FrameContext& at, const Entry& entry);
  void Announce(Target* target, const v1::Agent& agent);
  void Announce(Target* target, const v1::Queue& queue);
  void Announce(Target* target, const v1::Kernel& kernel);
  void Announce(Target* target, const v1::CodeObject& object);
  void Announce(Target* target, const v1::SessionPlan& plan);
  void Announce(Target* target, const v1::ApiFunction& function);
  // Sinks look thread names up when they need them.
  void Announce(Target*, const v1::Thread&) {}
  void StartJoin(Target* target);
  void EndTarget(Target* target);
  void EndAll();
  // In the order in which they began, so that outputs do not depend on hashes.
  std::vector<Target*> TargetsInOrder();
  void AddOmissions(const ExportSink& sink);
  // A choice among a process's sinks.
  enum class Sinks { kAll, kAsRecorded, kAsRocprofv3 };
  // Calls `f` with each of the chosen sinks until one fails.
  template <typename F>
  void ForSinks(Target* target, Sinks which, F f) {
    for (Output* output : target->outputs) {
      if (!status_.ok()) return;
      if (which == Sinks::kAll ||
          output->as_rocprofv3 == (which == Sinks::kAsRocprofv3)) {
        status_ = f(output->sink.get());
      }
    }
  }
  template <typename F>
  void ForSinks(Target* target, F f) {
    ForSinks(target, Sinks::kAll, f);
  }
  // Starts to convert the process's records to rocprofv3's form, if an output needs it.
  void StartView(Target* target);
  // Records for the sinks that get them as recorded, except for their correlation ids.
  absl::Span<const rocattach_dispatch> WithOwnIds(const LaunchLinks& links);
  absl::Span<const rocattach_copy> WithOwnIds(const LaunchLinks& links,
                                              absl::Span<const rocattach_copy> records);
  // Writes the operations whose correlation ids are now known.
  void WriteLinked(Target* target);
  // Writes the records that were kept waiting.
  void FinishView(Target* target);

  const ExporterOptions options_;
  absl::Status status_;
  std::shared_ptr<const v1::StreamHeader> header_;
  absl::flat_hash_map<uint32_t, std::unique_ptr<Target>> targets_;  // by stream
  absl::flat_hash_set<uint32_t> ended_;                             // streams
  // By format and base name. A sink of one process is freed when that process ends.
  std::map<std::pair<const ExportFormat*, std::string>, Output> outputs_;
  std::vector<std::string> completed_;  // files
  std::vector<std::string> process_errors_;
  std::vector<std::string> sink_omissions_;  // from finished sinks
  // Kept so that batches allocate little.
  std::vector<rocattach_dispatch> numbered_, own_dispatches_;
  std::vector<rocattach_copy> own_copies_;
  std::vector<ApiCallRecord> calls_;
  std::vector<MemoryRecord> memory_;
  size_t views_ = 0;
  uint32_t next_number_ = 1;
  uint64_t begun_ = 0;
  size_t joins_ = 0;
  size_t name_bytes_ = 0;
  uint64_t late_records_ = 0, ownerless_records_ = 0, crowded_records_ = 0;
  uint64_t entries_omitted_ = 0;
  uint64_t unmatched_ = 0;
  uint64_t sampled_out_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_EXPORTER_H_
