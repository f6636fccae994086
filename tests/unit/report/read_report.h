// The report of a recording in memory.
#ifndef ROCATTACH_TESTS_UNIT_REPORT_READ_REPORT_H_
#define ROCATTACH_TESTS_UNIT_REPORT_READ_REPORT_H_

#include "absl/strings/string_view.h"
#include "userspace/report/report.h"
#include "userspace/stream/decoder.h"

namespace rocattach {

inline Report ReadReport(absl::string_view recording) {
  ReportBuilder builder;
  StreamDecoder decoder(&builder);
  decoder.Feed(recording);
  decoder.FinishInput();
  return builder.Finish(decoder.stats());
}

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_REPORT_READ_REPORT_H_
