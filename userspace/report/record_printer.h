// `rocattach dump`: every record of a stream as a line.
#ifndef ROCATTACH_USERSPACE_REPORT_RECORD_PRINTER_H_
#define ROCATTACH_USERSPACE_REPORT_RECORD_PRINTER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "userspace/base/demangler.h"
#include "userspace/report/line_writer.h"
#include "userspace/stream/visitor.h"

namespace rocattach {

struct PrinterOptions {
  LineWriter::Style style = LineWriter::Style::kText;
  // Print only these types ("dispatch", "window", …); empty: all. See RecordTypes().
  std::vector<std::string> types;
  // Write each line immediately instead of many together.
  bool flush_lines = false;
};

class RecordPrinter : public StreamVisitor {
 public:
  // `write` is called with whole lines.
  RecordPrinter(PrinterOptions options, std::function<void(absl::string_view)> write);
  ~RecordPrinter() override { Flush(); }

  // All types, in the order of the manual.
  static std::vector<std::string> RecordTypes();

  void Flush();

  void OnRecording(const FrameContext& at, const v1::StreamHeader* header) override;
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
  void OnDamage(const Damage& damage) override;

 private:
  // Begins a line with the type and the place; false if the type is not wanted.
  bool Begin(absl::string_view type, uint32_t recording, uint32_t stream);
  void End();
  // Prints a message with its fields as they are.
  void OnMessage(const FrameContext& at,
                 const google::protobuf::Message& message) override;
  // Prints a line for each record, with the fields that `fields(record)` adds. `Kind`
  // is one of those in record_kinds.h.
  template <typename Kind, typename Fields>
  void Records(const FrameContext& at, absl::Span<const typename Kind::Record> records,
               Fields fields);
  const std::string& KernelName(uint32_t stream, uint32_t kernel_id) const;
  // Prints the times, which dispatches and copies have in common.
  template <typename Operation>
  void Times(const Operation& operation);
  void Flags(uint16_t flags);
  // Prints the fields that the values of dispatches and samples have in common.
  void Value(const FrameContext& at, const CounterRecord& record);

  PrinterOptions options_;
  std::function<void(absl::string_view)> write_;
  absl::flat_hash_set<std::string> wanted_;
  std::string buffer_;
  LineWriter line_;
  // Names of the current recording's kernels: stream << 32 | id.
  absl::flat_hash_map<uint64_t, std::string> kernel_names_;
  // By stream, so that one process's names cannot use up the time of others.
  absl::flat_hash_map<uint32_t, Demangler> demanglers_;
  // Names of a plan's counters: stream << 32 | plan.
  absl::flat_hash_map<uint64_t, std::vector<std::string>> counter_names_;
  // By stream, domain and function.
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, std::string> function_names_;
  size_t kernel_name_bytes_ = 0;  // all names together
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_RECORD_PRINTER_H_
