// Statistics of the contents of streams: processes, kernels, copies, losses. `rocattach
// report` and all other summaries are based on it.
#ifndef ROCATTACH_USERSPACE_REPORT_REPORT_H_
#define ROCATTACH_USERSPACE_REPORT_REPORT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "userspace/base/demangler.h"
#include "userspace/base/duration_histogram.h"
#include "userspace/report/gpu_activity.h"
#include "userspace/report/session_counters.h"
#include "userspace/stream/decoder.h"
#include "userspace/stream/launch_order.h"
#include "userspace/stream/visitor.h"

namespace rocattach {

// The dispatches of one kernel; durations are in nanoseconds.
struct KernelReport {
  std::string name;        // demangled; empty: not in the recording
  uint32_t kernel_id = 0;  // one of them, if several share the name
  uint64_t count = 0;
  DurationHistogram durations;  // of operations that have both times
  v1::Kernel kernel;
};

struct CopyReport {
  v1::CopyDirection direction = v1::COPY_DIRECTION_UNKNOWN;
  uint64_t count = 0;
  uint64_t bytes = 0;
  uint64_t timed_bytes = 0;     // of the copies that have times
  DurationHistogram durations;  // of operations that have both times
};

struct MemoryReport {
  uint64_t count = 0;
  uint64_t bytes = 0;  // as far as known
  DurationHistogram durations;
};

struct QueueReport {
  v1::Queue queue;
  uint64_t dispatches = 0;
};

// Counter values of the sessions with the same plan.
struct PlanReport {
  v1::SessionPlan plan;
  std::unique_ptr<SessionCounters> counters;
  // Filled in by ReportBuilder::Finish.
  std::vector<KernelCounters> kernels;
  std::vector<SampledCounter> samples;
};

struct ApiReport {
  std::string function;  // empty: its name is not in the recording
  uint64_t count = 0;
  DurationHistogram durations;  // of operations that have both times
};

struct ProcessReport {
  uint32_t recording = 0;
  uint32_t stream = 0;
  std::optional<v1::Process> process;  // none: its key frame is missing
  // One for each window (a process that shuts HSA down and initialises it again opens
  // another): all facts from its events; later ones override earlier ones.
  std::vector<v1::WindowEvent> windows;
  std::map<uint32_t, v1::Agent> agents;
  std::map<uint32_t, QueueReport> queues;
  std::map<uint32_t, GpuActivity> activity;                      // by agent
  std::map<uint32_t, KernelReport> kernels;                      // by id
  std::map<int, CopyReport> copies;                              // by direction
  std::map<int, MemoryReport> memory;                            // by operation
  std::map<uint32_t, PlanReport> plans;                          // by SessionPlan.id
  std::vector<v1::SessionEvent> sessions;                        // in order
  std::vector<v1::SamplingEvent> sampling;                       // in order
  std::map<std::pair<uint32_t, uint32_t>, ApiReport> api_calls;  // domain, function
  uint64_t counted = 0, samples = 0, api_call_count = 0;         // read
  uint64_t memory_count = 0;                                     // read
  uint64_t unknown_values = 0;  // counter values that no plan explains
  uint64_t dispatches = 0;      // read
  uint64_t copies_count = 0;    // read
  uint64_t untimed = 0;
  uint64_t unfinished = 0;
  LaunchOrder launch_order;
  uint64_t out_of_order = 0;               // found by launch_order in what was read
  uint64_t entries_omitted = 0;            // names beyond what a report keeps in memory
  size_t bytes = 0;                        // approximate memory of its entries
  uint64_t first_ns = 0, last_ns = 0;      // of the operations that have times
  std::optional<v1::LossAccount> account;  // the last one
  std::optional<v1::ProcessEnd> end;

  // The decisive window: the first that was attached, else the last; null if there is
  // none. Its state is the process's verdict.
  const v1::WindowEvent* Verdict() const;
  // Kernels with the same name combined, longest total first.
  std::vector<KernelReport> KernelsByName() const;
  // Records known to be lost: dropped before the stream, or missing from it.
  uint64_t Lost() const;
  // The lost records that were written but are missing from what was read.
  uint64_t MissingFromStream() const;
  // Zero if the final account adds up: seen = delivered + dropped + sampled out.
  int64_t Imbalance() const;
  // True if the process was recorded but has no final account: the recording was
  // truncated while it ran.
  bool LacksAccount() const;
  // Number of dispatches with implausible times, found by the recorder or this reader.
  uint64_t TimesNotBelievable() const;
  // True if the process's own numbers are implausible: its work and losses are unknown.
  bool NotBelievable() const;
  // The kernel driver's evidence of work that was not seen; empty if there is none.
  std::string UnseenWork() const;
  // True if a signal killed the process during its attach.
  bool DiedDuringAttach() const;
};

struct RecordingReport {
  std::optional<v1::StreamHeader> header;  // without descriptors; none: missing
  std::vector<std::unique_ptr<ProcessReport>> processes;  // in the order of appearance
  std::optional<v1::WatcherSummary> summary;
  std::optional<v1::StreamEnd> end;
  bool from_beginning = true;

  // Records known to be lost, of processes with plausible numbers.
  uint64_t Lost() const;
  // Reasons why the losses are not fully known, each as a clause; empty if they are.
  std::vector<std::string> WhyIncomplete() const;
};

struct Report {
  std::vector<RecordingReport> recordings;
  std::vector<Damage> damages;  // the first ones
  uint64_t damages_omitted = 0;
  uint64_t entries_omitted = 0;  // beyond what a report keeps in memory
  ReadStats stats;

  // True if data is damaged, was lost, or may be missing.
  bool HasLosses() const;
};

// True if a recording had lost anything before it was recovered.
bool LostInRecovery(const v1::Recovery& recovery);

// Builds a report from the streams that it visits.
class ReportBuilder : public StreamVisitor {
 public:
  // Call it after the last input, with the decoder's statistics.
  Report Finish(const ReadStats& stats);

  void OnRecording(const FrameContext& at, const v1::StreamHeader* header) override;
  void OnProcess(const FrameContext& at, const v1::Process& process) override;
  void OnAgent(const FrameContext& at, const v1::Agent& agent) override;
  void OnQueue(const FrameContext& at, const v1::Queue& queue) override;
  void OnKernel(const FrameContext& at, const v1::Kernel& kernel) override;
  void OnDispatches(const FrameContext& at,
                    absl::Span<const rocattach_dispatch> records) override;
  void OnCopies(const FrameContext& at,
                absl::Span<const rocattach_copy> records) override;
  void OnSessionPlan(const FrameContext& at, const v1::SessionPlan& plan) override;
  void OnApiFunction(const FrameContext& at, const v1::ApiFunction& function) override;
  void OnCounters(const FrameContext& at,
                  absl::Span<const CounterRecord> records) override;
  void OnSamples(const FrameContext& at,
                 absl::Span<const CounterRecord> records) override;
  void OnApiCalls(const FrameContext& at,
                  absl::Span<const ApiCallRecord> records) override;
  void OnMemory(const FrameContext& at,
                absl::Span<const MemoryRecord> records) override;
  void OnSession(const FrameContext& at, const v1::SessionEvent& event) override;
  void OnWindow(const FrameContext& at, const v1::WindowEvent& event) override;
  void OnSampling(const FrameContext& at, const v1::SamplingEvent& event) override;
  void OnAccount(const FrameContext& at, const v1::LossAccount& account) override;
  void OnProcessEnd(const FrameContext& at, const v1::ProcessEnd& end) override;
  void OnSummary(const FrameContext& at, const v1::WatcherSummary& summary) override;
  void OnStreamEnd(const FrameContext& at, const v1::StreamEnd& end) override;
  void OnDamage(const Damage& damage) override;

 private:
  ProcessReport* Find(const FrameContext& at);
  // False if the process's part of the report, or the whole report, has no room for
  // `bytes` more.
  bool Room(ProcessReport* process, size_t bytes);
  // Splits records into operations and adds these; returns the number of operations.
  uint64_t AddValues(ProcessReport* process, absl::Span<const CounterRecord> records,
                     size_t (SessionCounters::*add)(absl::Span<const CounterRecord>));
  // Null if there is no room for another one.
  GpuActivity* ActivityOf(ProcessReport* process, uint32_t agent_id);
  static void FinishSessions(ProcessReport* process);

  Report report_;
  absl::flat_hash_map<uint32_t, ProcessReport*> by_stream_;  // in the current recording
  // By stream, so that one process's names cannot use up the time of others.
  absl::flat_hash_map<uint32_t, Demangler> demanglers_;
  std::unique_ptr<ProcessReport> overflow_;  // receives data that has no room
  size_t bytes_ = 0;                         // of entries
  size_t processes_ = 0;
  size_t kept_intervals_ = 0;  // of all GPUs
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_REPORT_H_
