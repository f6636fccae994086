#include "userspace/export/marker_ranges.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "schemas/records.pb.h"

namespace rocattach {
namespace {

// Maximum number of threads with pushes that could not be kept.
constexpr size_t kMaxThreads = size_t{1} << 16;

}  // namespace

void MarkerRanges::Add(const ExportProcess& process,
                       absl::Span<const ApiCallRecord> calls,
                       std::vector<ApiCallRecord>* out) {
  for (const ApiCallRecord& call : calls) {
    if (call.domain != v1::API_DOMAIN_MARKER) {
      out->push_back(call);
      continue;
    }
    const absl::string_view function = process.FunctionName(call.domain, call.function);
    if (absl::StartsWith(function, "roctxRangePush")) {
      Push(call, out);
    } else if (absl::StartsWith(function, "roctxRangePop")) {
      Pop(call, out);
    } else {
      out->push_back(call);
      if (absl::StartsWith(function, "roctxMark")) {
        out->back().end_ns = call.begin_ns;
      }
    }
  }
}

void MarkerRanges::Push(const ApiCallRecord& call, std::vector<ApiCallRecord>* out) {
  const bool room = open_ < kMaxOpen && text_bytes_ + call.text.size() <= kMaxTextBytes;
  const auto known = threads_.find(call.tid);
  // The ranges inside one that was not kept are not kept either, because a pop ends the
  // innermost range.
  const bool inside = known != threads_.end() && known->second.unkept > 0;
  if (room && !inside) {
    threads_[call.tid].open.push_back(call);
    ++open_;
    text_bytes_ += call.text.size();
    return;
  }
  out->push_back(call);
  if (known != threads_.end() || threads_.size() < kMaxThreads) {
    ++threads_[call.tid].unkept;
  }
}

void MarkerRanges::Pop(const ApiCallRecord& call, std::vector<ApiCallRecord>* out) {
  const auto known = threads_.find(call.tid);
  if (known == threads_.end()) {
    out->push_back(call);  // pushed before the recording began
    return;
  }
  Thread& thread = known->second;
  if (thread.unkept > 0) {
    --thread.unkept;
    out->push_back(call);
  } else {
    ApiCallRecord& range = thread.open.back();
    --open_;
    text_bytes_ -= range.text.size();
    range.end_ns = std::max(range.begin_ns, call.end_ns);
    out->push_back(std::move(range));
    thread.open.pop_back();
  }
  if (thread.open.empty() && thread.unkept == 0) threads_.erase(known);
}

void MarkerRanges::Finish(std::vector<ApiCallRecord>* out) {
  const size_t first = out->size();
  for (auto& [tid, thread] : threads_) {
    for (ApiCallRecord& range : thread.open) out->push_back(std::move(range));
  }
  threads_.clear();
  open_ = text_bytes_ = 0;
  // Sort, so that the order does not depend on hashes.
  std::sort(out->begin() + static_cast<ptrdiff_t>(first), out->end(),
            [](const ApiCallRecord& a, const ApiCallRecord& b) {
              return std::tie(a.begin_ns, a.tid, b.end_ns) <
                     std::tie(b.begin_ns, b.tid, a.end_ns);
            });
}

}  // namespace rocattach
