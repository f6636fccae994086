#include "userspace/stream/writer.h"

#include <algorithm>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/status_macros.h"
#include "userspace/stream/frame.h"
#include "userspace/stream/stream_header.h"
#include "userspace/stream/utf8.h"

namespace rocattach {
namespace {

constexpr size_t kDetailLimit = 4 << 10;
// A plan that names every counter of an architecture takes about 100 KiB.
constexpr size_t kMaxPlanBytes = 512 << 10;
// Time without records after which a stream's encoders are freed.
constexpr uint64_t kIdleNs = 1'000'000'000;

// Writes a message after all records so far. `keep` stores what later key frames repeat
// of it, and runs after a key frame that precedes the message has been written.
absl::Status WriteInOrder(ProcessStream* stream, v1::FrameType type,
                          const google::protobuf::Message& message, FrameWriter* frames,
                          absl::FunctionRef<void()> keep) {
  absl::Status status = frames->CutBatches(stream);
  const absl::Status prepared = frames->Prepare(stream);
  keep();
  status.Update(frames->WriteMessage(stream, prepared, type, 0, message));
  return status;
}

}  // namespace

StreamWriter::StreamWriter(std::unique_ptr<Sink> sink, WriterOptions options)
    : options_(std::move(options)), frames_(std::move(sink), options_) {}

StreamWriter::~StreamWriter() {
  if (!closed_) (void)FlushAll();
}

absl::StatusOr<std::unique_ptr<StreamWriter>> StreamWriter::Create(
    std::unique_ptr<Sink> sink, WriterOptions options) {
  std::unique_ptr<StreamWriter> writer(
      new StreamWriter(std::move(sink), std::move(options)));
  RETURN_IF_ERROR(writer->frames_.WriteStreamHeader());
  return writer;
}

ProcessStream* StreamWriter::Find(StreamId stream) const {
  auto it = streams_.find(stream);
  return it == streams_.end() ? nullptr : it->second.get();
}

absl::Status StreamWriter::NotFound(StreamId stream) const {
  return absl::NotFoundError(
      absl::StrCat(sink().name(), ": stream ", stream, " is not open"));
}

StreamId StreamWriter::OpenProcess(v1::Process process) {
  LimitArguments(process.mutable_arguments());
  SanitizeStrings(kTextLimit, &process);
  // Replacing bytes with U+FFFD can make arguments longer again.
  LimitArguments(process.mutable_arguments());
  StreamId id = next_stream_++;
  streams_[id] = std::make_unique<ProcessStream>(id, std::move(process));
  frames_.CountStream();
  return id;
}

absl::Status StreamWriter::AddEntries(StreamId id, size_t limit,
                                      v1::Dictionary entries) {
  ProcessStream* stream = Find(id);
  if (stream == nullptr) return NotFound(id);
  SanitizeStrings(limit, &entries);
  if (entries.session_plans_size() > 0 && entries.ByteSizeLong() > kMaxPlanBytes) {
    return absl::InvalidArgumentError("the session's plan is too large for the stream");
  }
  stream->AddEntries(entries);
  return absl::OkStatus();
}

absl::Status StreamWriter::AddAgent(StreamId id, v1::Agent agent) {
  v1::Dictionary entries;
  *entries.add_agents() = std::move(agent);
  return AddEntries(id, kTextLimit, std::move(entries));
}

absl::Status StreamWriter::SetWorkload(StreamId id, v1::Workload workload) {
  ProcessStream* stream = Find(id);
  if (stream == nullptr) return NotFound(id);
  SanitizeStrings(kDetailLimit, &workload);
  stream->SetWorkload(std::move(workload));
  return absl::OkStatus();
}

absl::Status StreamWriter::AddQueue(StreamId id, v1::Queue queue) {
  v1::Dictionary entries;
  *entries.add_queues() = std::move(queue);
  return AddEntries(id, kTextLimit, std::move(entries));
}

absl::Status StreamWriter::AddKernel(StreamId id, v1::Kernel kernel) {
  v1::Dictionary entries;
  *entries.add_kernels() = std::move(kernel);
  return AddEntries(id, kTextLimit, std::move(entries));
}

absl::Status StreamWriter::AddCodeObject(StreamId id, v1::CodeObject code_object) {
  v1::Dictionary entries;
  *entries.add_code_objects() = std::move(code_object);
  return AddEntries(id, kTextLimit, std::move(entries));
}

absl::Status StreamWriter::AddSessionPlan(StreamId id, v1::SessionPlan plan) {
  v1::Dictionary entries;
  *entries.add_session_plans() = std::move(plan);
  return AddEntries(id, kDetailLimit, std::move(entries));
}

absl::Status StreamWriter::AddApiFunction(StreamId id, v1::ApiFunction function) {
  v1::Dictionary entries;
  *entries.add_api_functions() = std::move(function);
  return AddEntries(id, kDetailLimit, std::move(entries));
}

absl::Status StreamWriter::AddThread(StreamId id, v1::Thread thread) {
  v1::Dictionary entries;
  *entries.add_threads() = std::move(thread);
  return AddEntries(id, kDetailLimit, std::move(entries));
}

absl::Status StreamWriter::AddWindowEvent(StreamId id, v1::WindowEvent event) {
  ProcessStream* stream = Find(id);
  if (stream == nullptr) return NotFound(id);
  SanitizeStrings(kDetailLimit, &event);
  v1::Event wrapped;
  *wrapped.mutable_window() = event;
  return WriteInOrder(stream, v1::FRAME_TYPE_EVENT, wrapped, &frames_,
                      [&] { stream->AddWindow(event); });
}

absl::Status StreamWriter::AddClock(StreamId id, const rocattach_clock& clock) {
  ProcessStream* stream = Find(id);
  if (stream == nullptr) return NotFound(id);
  v1::Event event;
  v1::ClockRelation* relation = event.mutable_clock();
  relation->set_agent_id(clock.agent_id);
  relation->set_gpu_ticks(clock.gpu_ticks);
  relation->set_boottime_ns(clock.boottime_ns);
  relation->set_ticks_per_second(clock.ticks_per_second);
  // The order relative to records does not matter: the relation contains its times.
  absl::Status prepared = frames_.Prepare(stream);
  stream->AddClock(*relation);
  return frames_.WriteMessage(stream, prepared, v1::FRAME_TYPE_EVENT, 0, event);
}

absl::Status StreamWriter::AddSessionEvent(StreamId id, v1::SessionEvent event) {
  ProcessStream* stream = Find(id);
  if (stream == nullptr) return NotFound(id);
  SanitizeStrings(kDetailLimit, &event);
  return WriteInOrder(stream, v1::FRAME_TYPE_SESSION, event, &frames_, [] {});
}

absl::Status StreamWriter::AddSamplingEvent(StreamId id, v1::SamplingEvent event) {
  ProcessStream* stream = Find(id);
  if (stream == nullptr) return NotFound(id);
  SanitizeStrings(kDetailLimit, &event);
  v1::Event wrapped;
  *wrapped.mutable_sampling() = event;
  return WriteInOrder(stream, v1::FRAME_TYPE_EVENT, wrapped, &frames_,
                      [&] { stream->SetSampling(event); });
}

absl::Status StreamWriter::SetAccount(StreamId id, v1::LossAccount account) {
  ProcessStream* stream = Find(id);
  if (stream == nullptr) return NotFound(id);
  absl::Status status = frames_.CutBatches(stream);
  account.clear_dropped_writer();
  stream->given = account;
  stream->whole = account;
  AddCounts(stream->AllCounts(), &*stream->whole);
  account = stream->account_part.Of(account);
  AddCounts(stream->counts, &account);
  if (stream->account) {
    v1::LossAccount before = *stream->account;
    before.set_time_ns(account.time_ns());
    if (before.SerializeAsString() == account.SerializeAsString()) return status;
  }
  absl::Status prepared = frames_.Prepare(stream);
  stream->account = account;
  status.Update(
      frames_.WriteMessage(stream, prepared, v1::FRAME_TYPE_ACCOUNT, 0, account));
  return status;
}

absl::Status StreamWriter::EndProcess(StreamId id, v1::ProcessEnd end) {
  auto it = streams_.find(id);
  if (it == streams_.end()) return NotFound(id);
  std::unique_ptr<ProcessStream> stream = std::move(it->second);
  streams_.erase(it);
  v1::Event event;
  *event.mutable_end() = end;
  absl::Status status = frames_.CutBatches(stream.get());
  absl::Status prepared = frames_.Prepare(stream.get());
  stream->end = std::move(end);
  absl::Status ended = frames_.WriteMessage(
      stream.get(), prepared, v1::FRAME_TYPE_EVENT, kFrameFlagLast, event);
  status.Update(ended);
  if (!ended.ok()) ending_.push_back(std::move(stream));
  return status;
}

absl::Status StreamWriter::AddSummary(const v1::WatcherSummary& summary) {
  return frames_.WriteRecorderFrame(v1::FRAME_TYPE_SUMMARY, 0, summary);
}

absl::Status StreamWriter::Flush(uint64_t now_ns) {
  frames_.AdvanceTo(now_ns);
  absl::Status status;
  for (auto& [id, stream] : streams_) {
    if (stream->key_frame_due || stream->has_new_entries()) {
      status.Update(frames_.Prepare(stream.get()));
    }
    if (!stream->HasAnyRecords()) {
      if (stream->idle_since_ns == 0) stream->idle_since_ns = frames_.now_ns();
      if (frames_.now_ns() - stream->idle_since_ns >= kIdleNs)
        stream->ReleaseEncoders();
      continue;
    }
    stream->idle_since_ns = 0;
    if (stream->batch_seen_ns == 0) {
      stream->batch_seen_ns = frames_.now_ns();
    } else if (frames_.now_ns() - stream->batch_seen_ns >= options_.batch_ns) {
      status.Update(frames_.CutBatches(stream.get()));
    }
  }
  // Write the ends that could not be written before.
  for (auto& stream : ending_) {
    absl::Status ended = frames_.WriteKeyFrame(stream.get());
    if (ended.ok()) stream.reset();
    status.Update(ended);
  }
  ending_.erase(std::remove(ending_.begin(), ending_.end(), nullptr), ending_.end());
  return status;
}

absl::Status StreamWriter::FlushAll() {
  absl::Status status = Flush(frames_.now_ns());
  for (auto& [id, stream] : streams_) status.Update(frames_.CutBatches(stream.get()));
  return status;
}

absl::Status StreamWriter::EndPart(ProcessStream* stream) {
  absl::Status status;
  // SetAccount() is called only after losses and at the end; so check the counts too.
  if (stream->whole || stream->HasCounts()) {
    v1::LossAccount account =
        stream->account_part.End(stream->given, stream->AllCounts());
    AddCounts(stream->counts, &account);
    account.set_time_ns(frames_.now_ns());
    status.Update(frames_.WriteMessage(stream, frames_.Prepare(stream),
                                       v1::FRAME_TYPE_ACCOUNT, 0, account));
  }
  v1::Event event;
  event.mutable_end()->set_time_ns(frames_.now_ns());
  event.mutable_end()->set_how(v1::ProcessEnd::CONTINUED);
  status.Update(frames_.WriteMessage(stream, frames_.Prepare(stream),
                                     v1::FRAME_TYPE_EVENT, kFrameFlagLast, event));
  return status;
}

absl::Status StreamWriter::Rotate(std::unique_ptr<Sink> next, WriterStats* former) {
  absl::Status status = FlushAll();
  for (auto& [id, stream] : streams_) status.Update(EndPart(stream.get()));
  status.Update(WriteEnd());
  *former = frames_.stats();
  frames_.BeginFile(std::move(next));
  const auto begin = [this](ProcessStream* stream) {
    stream->BeginPart();
    frames_.CountStream();
  };
  for (auto& [id, stream] : streams_) begin(stream.get());
  // Ends that could not be written to the former file.
  for (auto& stream : ending_) begin(stream.get());
  status.Update(frames_.WriteStreamHeader());
  return status;
}

absl::Status StreamWriter::Close() {
  absl::Status status = FlushAll();
  closed_ = true;
  status.Update(WriteEnd());
  return status;
}

absl::Status StreamWriter::WriteEnd() {
  v1::StreamEnd end;
  *end.mutable_clock() = frames_.Clock();
  const WriterStats& stats = frames_.stats();
  end.set_frames(stats.frames);
  end.set_bytes(stats.bytes);
  end.set_streams(stats.streams);
  SetTotals(stats.records, &end);
  end.set_frames_dropped(stats.frames_dropped);
  end.set_records_dropped(stats.records_dropped);
  return frames_.WriteRecorderFrame(v1::FRAME_TYPE_END, kFrameFlagLast, end);
}

const v1::LossAccount* StreamWriter::account(StreamId id) const {
  const ProcessStream* stream = Find(id);
  return stream != nullptr && stream->whole ? &*stream->whole : nullptr;
}

}  // namespace rocattach
