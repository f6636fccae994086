// Any bytes as a recording, through every output format at once. The first byte chooses
// how they are presented, as in fuzz_stream, and how outputs are completed. Whatever
// the input, the conversion succeeds, and its outputs are valid in their formats.
#include <google/protobuf/stubs/logging.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "schemas/export/otlp_profile.pb.h"
#include "schemas/export/perfetto.pb.h"
#include "tests/fuzz/stream/wrapped_frames.h"
#include "userspace/base/file.h"
#include "userspace/export/exporter.h"
#include "userspace/stream/decoder.h"

namespace rocattach {
namespace {

constexpr size_t kMaxOutput = 512 << 20;

// In memory if possible: a run writes some twenty files.
const std::string& Directory() {
  // Never freed: it is used when the program exits.
  static const std::string& directory = *new std::string([] {
    const bool memory = access("/dev/shm", W_OK) == 0;
    std::string name =
        std::string(memory ? "/dev/shm" : "/tmp") + "/fuzz_export-XXXXXX";
    Require(mkdtemp(name.data()) != nullptr);
    atexit([] { std::filesystem::remove_all(Directory()); });
    return name;
  }());
  return directory;
}

void CheckOutput(const std::string& path) {
  Require(!absl::EndsWith(path, ".partial"));
  const auto content = ReadFile(path, kMaxOutput);
  Require(content.ok());
  if (absl::EndsWith(path, ".json")) {
    Require(nlohmann::json::accept(*content));
  } else if (absl::EndsWith(path, ".ndjson")) {
    for (const absl::string_view line : absl::StrSplit(*content, '\n')) {
      Require(line.empty() || nlohmann::json::accept(line.begin(), line.end()));
    }
  } else if (absl::EndsWith(path, ".pftrace")) {
    Require(perfetto::Trace().ParseFromString(*content));
  } else if (absl::EndsWith(path, ".otlp.pb")) {
    Require(otlp::ProfilesData().ParseFromString(*content));
  }
}

void RunOne(absl::string_view bytes) {
  if (bytes.empty()) return;
  const uint8_t mode = static_cast<uint8_t>(bytes[0]);
  bytes.remove_prefix(1);
  std::string wrapped;
  if (mode & 1) {
    wrapped = WrapInFrames(bytes);
    bytes = wrapped;
  }
  ExporterOptions options;
  for (const ExportFormat& format : ExportFormats()) options.formats.push_back(&format);
  options.complete_with_process = mode & 2;
  options.output.force = true;
  const bool together = mode & 4;
  options.base_name = [together](const ExportProcess& process) {
    return Directory() + "/" + (together ? "all" : std::to_string(process.number()));
  };
  Exporter exporter(std::move(options));
  StreamDecoder decoder(&exporter);
  decoder.Feed(bytes);
  decoder.FinishInput();
  Require(exporter.Finish().ok());
  Require(exporter.process_errors().empty());
  for (const std::string& file : exporter.Files()) CheckOutput(file);
  for (const auto& entry : std::filesystem::directory_iterator(Directory())) {
    std::filesystem::remove_all(entry);
  }
}

}  // namespace
}  // namespace rocattach

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rocattach::RunOne(absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
