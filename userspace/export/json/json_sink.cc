#include "userspace/export/json/json_sink.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/status_macros.h"
#include "userspace/export/common/output_file.h"
#include "userspace/export/json/json_process.h"

namespace rocattach {
namespace {

class JsonSink : public ExportSink {
 public:
  JsonSink(std::string directory, std::unique_ptr<OutputFile> file,
           std::shared_ptr<CounterFacts> facts)
      : directory_(std::move(directory)),
        file_(std::move(file)),
        facts_(std::move(facts)) {
    file_->Reserve();
    file_->buffer()->append("{\"rocprofiler-sdk-tool\":[");
  }

  absl::Status BeginProcess(const ExportProcess& process) override {
    processes_[process.number()] =
        std::make_unique<JsonProcess>(directory_, facts_.get());
    return absl::OkStatus();
  }
  absl::Status OnDispatches(const ExportProcess& process,
                            absl::Span<const rocattach_dispatch> records) override {
    return AddAll(process, records);
  }
  absl::Status OnCopies(const ExportProcess& process,
                        absl::Span<const rocattach_copy> records) override {
    return AddAll(process, records);
  }
  absl::Status OnApiCalls(const ExportProcess& process,
                          absl::Span<const ApiCallRecord> records) override {
    return AddAll(process, records);
  }
  absl::Status OnMemory(const ExportProcess& process,
                        absl::Span<const MemoryRecord> records) override {
    return AddAll(process, records);
  }
  absl::Status OnCountedDispatch(const ExportProcess& process,
                                 const CountedDispatch& counted) override {
    return processes_.at(process.number())->Add(process, counted);
  }

  absl::Status EndProcess(const ExportProcess& process) override {
    if (!first_) file_->buffer()->push_back(',');
    first_ = false;
    file_->buffer()->push_back('\n');
    RETURN_IF_ERROR(processes_.at(process.number())->WriteTo(process, file_.get()));
    processes_.erase(process.number());
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    file_->buffer()->append("\n]}\n");
    return file_->Complete();
  }

  void WritePartial(absl::Span<const ExportProcess* const> open) override {
    for (const ExportProcess* process : open) (void)EndProcess(*process);
    file_->buffer()->append("\n]}\n");
    (void)file_->Flush();
  }

  std::vector<std::string> Files() const override { return {file_->name()}; }

 private:
  template <typename Record>
  absl::Status AddAll(const ExportProcess& process, absl::Span<const Record> records) {
    JsonProcess* json = processes_.at(process.number()).get();
    for (const Record& record : records) RETURN_IF_ERROR(json->Add(process, record));
    return absl::OkStatus();
  }

  const std::string directory_;
  std::unique_ptr<OutputFile> file_;
  const std::shared_ptr<CounterFacts> facts_;
  absl::flat_hash_map<uint32_t, std::unique_ptr<JsonProcess>> processes_;
  bool first_ = true;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ExportSink>> MakeJsonSink(const std::string& base,
                                                         const ExportOptions& options) {
  const size_t slash = base.rfind('/');
  std::string directory = slash == std::string::npos ? "." : base.substr(0, slash);
  ASSIGN_OR_RETURN(auto file,
                   OutputFile::Create(absl::StrCat(base, "_results.json"), options));
  return std::make_unique<JsonSink>(std::move(directory), std::move(file),
                                    options.counter_facts);
}

}  // namespace rocattach
