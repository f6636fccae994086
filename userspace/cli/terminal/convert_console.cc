#include "userspace/cli/terminal/convert_console.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "userspace/base/human.h"

namespace rocattach {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(200);
constexpr size_t kBarWidth = 30;

uint64_t AllRecords(const ReadStats& stats) {
  uint64_t records = 0;
  ForEachRecordKind([&](auto kind) { records += stats.records[kind.kKind]; });
  return records;
}

}  // namespace

ConvertProgress::ConvertProgress(const std::vector<std::string>& paths)
    : terminal_(isatty(STDERR_FILENO)) {
  for (const std::string& path : paths) {
    struct stat info;
    if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
      total_bytes_ = 0;
      return;
    }
    total_bytes_ += static_cast<uint64_t>(info.st_size);
  }
}

ConvertProgress::~ConvertProgress() {
  if (visible_) fprintf(stderr, "\r\033[K");
}

void ConvertProgress::Update(const ReadStats& stats) {
  const Clock::time_point now = Clock::now();
  if (!terminal_ || now - shown_ < kInterval) return;
  shown_ = now;
  visible_ = true;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  fprintf(stderr, "\r\033[K%s",
          Line(stats.bytes, total_bytes_, AllRecords(stats), seconds).c_str());
}

std::string ConvertProgress::Line(uint64_t bytes, uint64_t total_bytes,
                                  uint64_t records, double seconds) {
  const double rate = seconds > 0 ? static_cast<double>(records) / seconds : 0;
  std::string counted = absl::StrCat(HumanCount(records), " records, ",
                                     HumanCount(static_cast<uint64_t>(rate)), "/s");
  if (total_bytes == 0) return counted;
  const double part =
      std::min(1.0, static_cast<double>(bytes) / static_cast<double>(total_bytes));
  const size_t filled = static_cast<size_t>(part * kBarWidth);
  std::string bar(kBarWidth, ' ');
  std::fill_n(bar.begin(), filled, '=');
  if (filled < kBarWidth) bar[filled] = '>';
  std::string line =
      absl::StrFormat("[%s] %3d %%  %s", bar, static_cast<int>(part * 100), counted);
  if (part > 0) {
    const double left = seconds * (1 - part) / part;
    absl::StrAppend(&line, ", ", HumanDuration(static_cast<uint64_t>(left * 1e9)),
                    " left");
  }
  return line;
}

std::vector<std::string> MissingFromInput(const ReadStats& before,
                                          const ReadStats& after) {
  std::vector<std::string> missing;
  auto add = [&](uint64_t count, const char* what) {
    if (count > 0) missing.push_back(absl::StrCat(HumanCount(count), what));
  };
  add(after.skipped_bytes - before.skipped_bytes, " bytes outside intact frames");
  add(after.missing_frames - before.missing_frames, " missing frames");
  add(after.undecodable_frames - before.undecodable_frames, " invalid frames");
  add(after.lost_records - before.lost_records, " records in damaged frames");
  add(after.unknown_frames - before.unknown_frames, " frames of a newer version");
  if (after.recordings - before.recordings >
      after.recordings_ended - before.recordings_ended) {
    missing.push_back("its end");
  }
  return missing;
}

}  // namespace rocattach
