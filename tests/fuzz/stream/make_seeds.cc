// Writes seeds for fuzz_stream into a directory: a recording with a bit of everything,
// as it is and as the frames' payloads alone.
#include <stdio.h>

#include <string>

#include "userspace/base/file.h"
#include "userspace/stream/frame_scanner.h"
#include "userspace/stream/writer.h"

namespace rocattach {
namespace {

std::string Record(int level) {
  std::string bytes;
  WriterOptions options;
  options.compression_level = level;
  auto writer = StreamWriter::Create(std::make_unique<MemorySink>(&bytes), options);
  v1::Process process;
  process.set_comm("seed");
  process.add_arguments("--flag");
  StreamId id = (*writer)->OpenProcess(process);
  v1::WindowEvent event;
  event.set_state(v1::WINDOW_STATE_ATTACHED);
  event.set_detail("detail");
  (void)(*writer)->AddWindowEvent(id, event);
  v1::Agent agent;
  agent.set_id(1);
  agent.set_type(v1::AGENT_TYPE_GPU);
  agent.set_name("gfx90a");
  (void)(*writer)->AddAgent(id, agent);
  v1::Kernel kernel;
  kernel.set_id(1);
  kernel.set_name("_Z4vaddPf");
  (void)(*writer)->AddKernel(id, kernel);
  rocattach_dispatch dispatches[3] = {};
  rocattach_copy copies[2] = {};
  for (uint64_t i = 0; i < 3; ++i) {
    dispatches[i].kernel_id = 1;
    dispatches[i].correlation_id = i + 1;
    dispatches[i].start_ns = 1000 * (i + 1);
    dispatches[i].end_ns = 1000 * (i + 1) + 500;
    dispatches[i].grid_x = static_cast<uint32_t>(64 * i);
  }
  copies[1].bytes = 4096;
  copies[1].direction = ROCATTACH_COPY_HOST_TO_DEVICE;
  (void)(*writer)->AppendDispatches(id, dispatches);
  (void)(*writer)->AppendCopies(id, copies);
  rocattach_clock clock = {};
  clock.agent_id = 1;
  (void)(*writer)->AddClock(id, clock);
  v1::LossAccount account;
  account.set_final(true);
  account.set_dispatches_seen(3);
  (void)(*writer)->SetAccount(id, account);
  (void)(*writer)->EndProcess(id, {});
  (void)(*writer)->AddSummary({});
  (void)(*writer)->Close();
  return bytes;
}

// The fuzz target's own form: type, codec and stream, length, payload.
std::string Payloads(absl::string_view stream) {
  std::string out = "\x01";
  FrameScanner scanner([](const SkippedRange&) {});
  scanner.Append(stream);
  scanner.Finish();
  FrameView frame;
  while (scanner.Next(&frame)) {
    // Without the descriptors, which are most of a small recording.
    if (frame.header.type == v1::FRAME_TYPE_STREAM_HEADER) continue;
    out += static_cast<char>(frame.header.type);
    out += static_cast<char>(frame.header.codec | frame.header.stream_id << 2);
    out += static_cast<char>(frame.payload.size() & 0xff);
    out += static_cast<char>(frame.payload.size() >> 8);
    out.append(frame.payload.data(), frame.payload.size());
  }
  return out;
}

absl::Status Write(const std::string& directory, const char* name,
                   absl::string_view bytes) {
  auto sink = OpenFileSink(directory + "/" + name, ExistingFile::kTruncate);
  if (!sink.ok()) return sink.status();
  return (*sink)->Write(bytes);
}

int Main(const std::string& directory) {
  absl::Status status = MakeDirectories(directory, 0755);
  std::string plain = Record(0);
  status.Update(Write(directory, "plain", std::string(1, '\0') + plain));
  status.Update(Write(directory, "compressed", std::string(1, '\0') + Record(1)));
  status.Update(Write(directory, "payloads", Payloads(plain)));
  status.Update(Write(directory, "compressed-payloads", Payloads(Record(1))));
  if (status.ok()) return 0;
  fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace rocattach

int main(int argc, char** argv) {
  return argc == 2 ? rocattach::Main(argv[1]) : 2;
}
