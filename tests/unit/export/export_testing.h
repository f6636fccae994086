// Shared by the tests of exports: converts recordings in memory.
#ifndef ROCATTACH_TESTS_UNIT_EXPORT_EXPORT_TESTING_H_
#define ROCATTACH_TESTS_UNIT_EXPORT_EXPORT_TESTING_H_

#include <gtest/gtest.h>

#include <string>

#include "tests/temporary_directory.h"
#include "userspace/base/file.h"
#include "userspace/export/exporter.h"
#include "userspace/stream/decoder.h"

namespace rocattach {

// Converts a recording to a format with one file, and returns the content of the file.
inline std::string Converted(const std::string& recording, const char* format) {
  const testing_support::TemporaryDirectory directory;
  ExporterOptions options;
  options.formats = {FindExportFormat(format)};
  const std::string base = directory / "all";
  options.base_name = [&base](const ExportProcess&) { return base; };
  Exporter exporter(std::move(options));
  StreamDecoder decoder(&exporter);
  decoder.Feed(recording);
  decoder.FinishInput();
  EXPECT_TRUE(exporter.Finish().ok()) << exporter.status();
  EXPECT_EQ(exporter.Files().size(), 1u);
  auto content = ReadFile(exporter.Files().at(0), size_t{1} << 30);
  EXPECT_TRUE(content.ok()) << content.status();
  return *content;
}

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_EXPORT_EXPORT_TESTING_H_
