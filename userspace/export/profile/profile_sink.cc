#include "userspace/export/profile/profile_sink.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "userspace/base/status_macros.h"
#include "userspace/export/common/output_file.h"
#include "userspace/export/profile/profile_data.h"
#include "userspace/export/profile/profile_totals.h"

namespace rocattach {
namespace {

using Encode = absl::StatusOr<std::string> (*)(const ProfileData&);

class ProfileSink : public ExportSink {
 public:
  ProfileSink(std::unique_ptr<OutputFile> file, Encode encode)
      : file_(std::move(file)), encode_(encode) {
    file_->Reserve();
  }

  absl::Status OnDispatches(const ExportProcess& process,
                            absl::Span<const rocattach_dispatch> records) override {
    totals_.Add(process, records);
    return absl::OkStatus();
  }
  absl::Status OnCopies(const ExportProcess& process,
                        absl::Span<const rocattach_copy> records) override {
    totals_.Add(process, records);
    return absl::OkStatus();
  }
  absl::Status OnCountedDispatch(const ExportProcess& process,
                                 const CountedDispatch& counted) override {
    totals_.Add(process, counted);
    return absl::OkStatus();
  }
  absl::Status EndProcess(const ExportProcess& process) override {
    totals_.End(process);
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    ASSIGN_OR_RETURN(const std::string bytes, encode_(totals_.data()));
    RETURN_IF_ERROR(file_->Append(bytes));
    return file_->Complete();
  }
  void WritePartial(absl::Span<const ExportProcess* const> open) override {
    for (const ExportProcess* process : open) totals_.End(*process);
    const absl::StatusOr<std::string> bytes = encode_(totals_.data());
    if (bytes.ok() && file_->Append(*bytes).ok()) (void)file_->Flush();
  }
  std::vector<std::string> Files() const override { return {file_->name()}; }

 private:
  const std::unique_ptr<OutputFile> file_;
  const Encode encode_;
  ProfileTotals totals_;
};

absl::StatusOr<std::unique_ptr<ExportSink>> Make(const std::string& path, Encode encode,
                                                 const ExportOptions& options) {
  ASSIGN_OR_RETURN(auto file, OutputFile::Create(path, options));
  return std::make_unique<ProfileSink>(std::move(file), encode);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExportSink>> MakePprofSink(
    const std::string& base, const ExportOptions& options) {
  return Make(absl::StrCat(base, "_results.pb.gz"), EncodePprof, options);
}

absl::StatusOr<std::unique_ptr<ExportSink>> MakeOtlpProfileSink(
    const std::string& base, const ExportOptions& options) {
  return Make(absl::StrCat(base, "_results.otlp.pb"), EncodeOtlpProfile, options);
}

}  // namespace rocattach
