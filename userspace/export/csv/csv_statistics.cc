#include "userspace/export/csv/csv_statistics.h"

#include <algorithm>
#include <vector>

#include "userspace/base/status_macros.h"

namespace rocattach {

absl::Status WriteStatistics(const NamedStatistics::Names& names, CsvFile* file) {
  using Entry = NamedStatistics::Names::value_type;
  std::vector<const Entry*> rows;
  double total = 0;
  for (const Entry& entry : names) {
    if (entry.second.calls() == 0) continue;
    rows.push_back(&entry);
    total += static_cast<double>(entry.second.total());
  }
  if (rows.empty()) return absl::OkStatus();
  std::stable_sort(rows.begin(), rows.end(), [](const Entry* a, const Entry* b) {
    return a->second.total() > b->second.total();
  });
  RETURN_IF_ERROR(file->Begin());
  for (const Entry* entry : rows) {
    const DurationStatistics& s = entry->second;
    const double share = total > 0 ? 100 * static_cast<double>(s.total()) / total : 0;
    file->Row()
        .Text(entry->first)
        .Number(s.calls())
        .Number(s.total())
        .Real(s.average())
        .Real(share)
        .Number(s.min())
        .Number(s.max())
        .Real(s.deviation())
        .End();
    RETURN_IF_ERROR(file->Written());
  }
  return absl::OkStatus();
}

}  // namespace rocattach
