// Any bytes as a stream: through the scanner, the decoder, the report and the dump. The
// first byte chooses how the bytes are presented: as they are, or as the payloads of
// frames with correct checksums, so that the messages behind the checksums are reached
// too.
#include <google/protobuf/stubs/logging.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tests/fuzz/stream/wrapped_frames.h"
#include "userspace/report/record_printer.h"
#include "userspace/report/report.h"
#include "userspace/report/report_json.h"
#include "userspace/report/report_text.h"
#include "userspace/stream/decoder.h"

namespace rocattach {
namespace {

ReadStats Decode(absl::string_view bytes, size_t step, StreamVisitor* visitor) {
  StreamDecoder decoder(visitor);
  for (size_t at = 0; at < bytes.size(); at += step) {
    decoder.Feed(bytes.substr(at, step));
    Require(decoder.pending_bytes() <= kFrameHeaderBytes + kMaxPayloadBytes);
  }
  decoder.FinishInput();
  Require(decoder.pending_bytes() == 0);
  return decoder.stats();
}

void RunOne(absl::string_view bytes) {
  if (bytes.empty()) return;
  uint8_t mode = static_cast<uint8_t>(bytes[0]);
  bytes.remove_prefix(1);
  std::string wrapped;
  if (mode & 1) {
    wrapped = WrapInFrames(bytes);
    bytes = wrapped;
  }
  ReportBuilder builder;
  ReadStats stats = Decode(bytes, bytes.size() + 1, &builder);
  Require(stats.bytes == bytes.size());
  Require(stats.skipped_bytes <= stats.bytes);
  Require(stats.truncated_bytes <= stats.skipped_bytes);
  Report report = builder.Finish(stats);
  std::string text = FormatReport(report, {80, false, 3});
  // No text of a target may reach a terminal with a control character.
  for (char byte : text) Require(static_cast<uint8_t>(byte) >= 0x20 || byte == '\n');
  (void)FormatReportJson(report);

  // The same bytes in small pieces must give the same result.
  RecordPrinter printer(
      {mode & 2 ? LineWriter::Style::kJson : LineWriter::Style::kText, {}, false},
      [](absl::string_view lines) { Require(lines.back() == '\n'); });
  ReadStats again = Decode(bytes, 1 + mode / 4, &printer);
  Require(again.frames == stats.frames);
  Require(again.skipped_bytes == stats.skipped_bytes);
  Require(again.records[RecordKind::kDispatch] == stats.records[RecordKind::kDispatch]);
  Require(again.missing_frames == stats.missing_frames);
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
