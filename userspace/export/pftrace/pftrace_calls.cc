#include "userspace/export/pftrace/pftrace_calls.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/strings/match.h"
#include "schemas/records.pb.h"

namespace rocattach {
namespace {

using perfetto::TrackEvent;

// A damaged record may end before it begins.
uint64_t EndOf(const ApiCallRecord& call) {
  return std::max(call.begin_ns, call.end_ns);
}

std::array<PftraceNumber, 3> NumbersOf(const ApiCallRecord& call) {
  return {{{kArgCorrelationId, call.correlation_id},
           {kArgSession, call.session},
           {kArgAncestorId, call.ancestor_id}}};
}

}  // namespace

void PftraceCalls::Write(absl::Span<const ApiCallRecord> records,
                         const ExportProcess& process, PftraceProcess* names,
                         PftracePackets* packets) {
  names_ = names;
  packets_ = packets;
  calls_.clear();
  markers_.clear();
  for (const ApiCallRecord& call : records) {
    const bool marker = call.domain == v1::API_DOMAIN_MARKER;
    (marker ? markers_ : calls_).push_back(&call);
  }
  SortCalls(&markers_);
  for (const ApiCallRecord* marker : markers_) {
    WriteMarker(*marker, process.FunctionName(marker->domain, marker->function));
  }
  SortCalls(&calls_);
  const Matches& matches = names->matcher()->Match(calls_);
  todo_.resize(calls_.size());
  std::iota(todo_.begin(), todo_.end(), 0);
  for (uint32_t lane = 0; !todo_.empty(); ++lane) WriteLane(lane, matches);
}

void PftraceCalls::WriteMarker(const ApiCallRecord& call, absl::string_view function) {
  PftraceTrackEvent event;
  event.track = names_->MarkerTrack(call.tid);
  uint32_t* open = names_->open_ranges(call.tid);
  if (absl::StartsWith(function, "roctxRangePop")) {
    // A range that was pushed before the recording began cannot be shown.
    if (*open == 0) return;
    --*open;
    packets_->EndSlice(EndOf(call), event.track);
    return;
  }
  const bool push = absl::StartsWith(function, "roctxRangePush");
  if (push) ++*open;
  const auto numbers = NumbersOf(call);
  event.type = push ? TrackEvent::TYPE_SLICE_BEGIN : TrackEvent::TYPE_INSTANT;
  event.time_ns = call.begin_ns;
  event.category = kCategoryMarker;
  event.name_text = call.text.empty() ? function : absl::string_view(call.text);
  event.numbers = absl::MakeConstSpan(numbers).first(2);
  packets_->Track(event);
}

void PftraceCalls::WriteLane(uint32_t lane, const Matches& matches) {
  left_.clear();
  auto match = matches.begin();
  uint32_t tid = 0;
  uint64_t track = 0;
  for (size_t index : todo_) {
    const ApiCallRecord& call = *calls_[index];
    if (track == 0 || call.tid != tid) {
      CloseUntil(std::numeric_limits<uint64_t>::max());
      tid = call.tid;
      track = names_->ThreadTrack(tid, lane);
    }
    CloseUntil(call.begin_ns);
    if (!open_.empty() && EndOf(call) > open_.back().end_ns) {
      left_.push_back(index);  // neither inside the open call nor after it
      continue;
    }
    submitted_.clear();
    while (match != matches.end() && match->first < index) ++match;
    for (; match != matches.end() && match->first == index; ++match) {
      submitted_.push_back(match->second);
    }
    WriteBegin(call, track, submitted_);
    open_.push_back({EndOf(call), track});
  }
  CloseUntil(std::numeric_limits<uint64_t>::max());
  todo_.swap(left_);
}

void PftraceCalls::WriteBegin(const ApiCallRecord& call, uint64_t track,
                              absl::Span<const uint64_t> submitted) {
  const auto numbers = NumbersOf(call);
  PftraceTrackEvent event;
  event.type = TrackEvent::TYPE_SLICE_BEGIN;
  event.time_ns = call.begin_ns;
  event.track = track;
  event.category = call.domain == v1::API_DOMAIN_HSA    ? kCategoryHsa
                   : call.domain == v1::API_DOMAIN_RCCL ? kCategoryRccl
                                                        : kCategoryHip;
  event.name = names_->Function(call.domain, call.function);
  event.numbers = absl::MakeConstSpan(numbers).first(call.ancestor_id == 0 ? 2 : 3);
  event.submitted = submitted;
  const std::vector<ApiArgument> arguments = ArgumentsOf(call);
  event.arguments = arguments;
  packets_->Track(event);
}

void PftraceCalls::CloseUntil(uint64_t time_ns) {
  while (!open_.empty() && open_.back().end_ns <= time_ns) {
    packets_->EndSlice(open_.back().end_ns, open_.back().track);
    open_.pop_back();
  }
}

}  // namespace rocattach
