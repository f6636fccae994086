#include "userspace/export/rocpd/rocpd_sink.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "userspace/base/status_macros.h"
#include "userspace/export/common/output_file.h"
#include "userspace/export/rocpd/rocpd_tables.h"

namespace rocattach {
namespace {

class RocpdSink : public ExportSink {
 public:
  RocpdSink(const std::string& base, const ExportOptions& options)
      : path_(absl::StrCat(base, "_results.db")), options_(options) {}

  absl::Status BeginProcess(const ExportProcess& process) override {
    ASSIGN_OR_RETURN(written_, PrepareOutput(path_, options_));
    ASSIGN_OR_RETURN(tables_, RocpdTables::Create(written_, process, options_));
    return absl::OkStatus();
  }

  absl::Status OnAgent(const ExportProcess& process, const v1::Agent&) override {
    // Each new agent may change the numbers of the others.
    for (const auto& [id, agent] : process.agents()) {
      RETURN_IF_ERROR(tables_->WriteAgent(process, agent));
    }
    return absl::OkStatus();
  }
  absl::Status OnQueue(const ExportProcess&, const v1::Queue& queue) override {
    return tables_->NeedQueue(queue.id());
  }
  absl::Status OnCodeObject(const ExportProcess& process,
                            const v1::CodeObject& object) override {
    return tables_->WriteCodeObject(process, object);
  }
  absl::Status OnKernel(const ExportProcess&, const ExportKernel& kernel) override {
    return tables_->WriteKernel(kernel);
  }

  absl::Status OnDispatches(const ExportProcess& process,
                            absl::Span<const rocattach_dispatch> records) override {
    for (const rocattach_dispatch& record : records) {
      RETURN_IF_ERROR(tables_->WriteDispatch(process, record));
    }
    return Due();
  }
  absl::Status OnCopies(const ExportProcess& process,
                        absl::Span<const rocattach_copy> records) override {
    for (const rocattach_copy& record : records) {
      RETURN_IF_ERROR(tables_->WriteCopy(process, record));
    }
    return Due();
  }
  absl::Status OnCountedDispatch(const ExportProcess& process,
                                 const CountedDispatch& counted) override {
    return tables_->WriteCounted(process, counted);
  }
  absl::Status OnSamples(const ExportProcess& process,
                         absl::Span<const CounterRecord> records) override {
    return tables_->WriteSamples(process, records);
  }
  absl::Status OnApiCalls(const ExportProcess& process,
                          absl::Span<const ApiCallRecord> records) override {
    for (const ApiCallRecord& record : records) {
      RETURN_IF_ERROR(tables_->WriteApiCall(process, record));
    }
    return Due();
  }

  absl::Status OnMemory(const ExportProcess& process,
                        absl::Span<const MemoryRecord> records) override {
    for (const MemoryRecord& record : records) {
      RETURN_IF_ERROR(tables_->WriteMemory(process, record));
    }
    return Due();
  }

  absl::Status EndProcess(const ExportProcess& process) override {
    RETURN_IF_ERROR(tables_->WriteThreadNames(process));
    return tables_->WriteProcess(process);
  }

  absl::Status Flush() override {
    return tables_ == nullptr ? absl::OkStatus() : tables_->Commit();
  }

  absl::Status Finish() override {
    if (tables_ == nullptr) return absl::OkStatus();
    RETURN_IF_ERROR(tables_->Close());
    tables_ = nullptr;
    RETURN_IF_ERROR(CompleteOutput(written_, path_, options_.force));
    written_ = path_;
    return absl::OkStatus();
  }

  std::vector<std::string> Files() const override {
    if (written_.empty()) return {};
    return {written_};
  }

 private:
  // A transaction that grows for hours would delay readers and fill the cache.
  absl::Status Due() { return tables_->CommitIfLarge(); }

  const std::string path_;
  const ExportOptions options_;
  std::string written_;  // the file's current name
  std::unique_ptr<RocpdTables> tables_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ExportSink>> MakeRocpdSink(
    const std::string& base, const ExportOptions& options) {
  return std::make_unique<RocpdSink>(base, options);
}

}  // namespace rocattach
