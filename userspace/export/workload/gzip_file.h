// A file that is compressed with gzip while it is written.
#ifndef ROCATTACH_USERSPACE_EXPORT_WORKLOAD_GZIP_FILE_H_
#define ROCATTACH_USERSPACE_EXPORT_WORKLOAD_GZIP_FILE_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "userspace/export/common/output_file.h"

namespace rocattach {

class GzipFile {
 public:
  static absl::StatusOr<std::unique_ptr<GzipFile>> Create(std::string path,
                                                          const ExportOptions& options);
  ~GzipFile();
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;

  absl::Status Append(absl::string_view text);
  // As OutputFile::Complete().
  absl::Status Complete();
  // Ends the compressed data, and keeps the name of a partial output.
  absl::Status Stop();
  const std::string& name() const { return file_->name(); }

 private:
  struct Stream;  // zlib's

  GzipFile(std::unique_ptr<OutputFile> file, std::unique_ptr<Stream> stream);
  absl::Status Compress(absl::string_view text, int flush);

  const std::unique_ptr<OutputFile> file_;
  const std::unique_ptr<Stream> stream_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_WORKLOAD_GZIP_FILE_H_
