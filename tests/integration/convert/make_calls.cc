// Writes a synthetic recording with records of all kinds, determined by the seed.
//   make_calls FILE SEED PROCESSES CALLS [HOST]
// Each process makes CALLS calls of HIP functions on three threads; most of them launch
// kernels or copy memory. With HOST the recording is of another machine, which booted
// three seconds later.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "userspace/base/file.h"
#include "userspace/stream/frame.h"
#include "userspace/stream/writer.h"

namespace rocattach {
namespace {

constexpr uint64_t kBegin = 5'000'000'000'000;
constexpr uint32_t kKernels = 7, kQueues = 3, kThreads = 3;
constexpr uint32_t kLaunch = 1, kCopyCall = 2, kOther = 3, kStoreSignal = 4;
constexpr uint32_t kPush = 1, kPop = 2, kMark = 3;

class ProcessMaker {
 public:
  ProcessMaker(uint32_t number, uint64_t seed, StreamWriter* writer)
      : number_(number), random_(seed), writer_(writer) {}

  void Open() {
    v1::Process process;
    process.set_pid(1000 + number_);
    process.set_inner_pid(number_);
    process.set_comm(absl::StrCat("made-up", number_));
    process.set_executable(absl::StrCat("/usr/bin/made-up", number_));
    process.add_arguments("made-up");
    process.add_arguments("with, \"quotes\"\nand lines");
    if (number_ % 2 == 0) {
      process.set_cgroup(
          absl::StrCat("/system.slice/docker-", std::string(64, 'a'), ".scope"));
    }
    process.set_start_ns(kBegin - 1000);
    id_ = writer_->OpenProcess(process);
    v1::WindowEvent window;
    window.set_state(v1::WINDOW_STATE_ATTACHED);
    window.set_hit_ns(kBegin - 500 + number_);
    if (number_ > 1) window.set_detail("late");
    Check(writer_->AddWindowEvent(id_, window));
    AddAgents();
    AddKernels();
    for (uint32_t i = 1; i <= kQueues; ++i) {
      v1::Queue queue;
      queue.set_id(i);
      queue.set_agent_id(2 + i % 2);
      Check(writer_->AddQueue(id_, queue));
    }
    AddFunction(v1::API_DOMAIN_HIP, kLaunch, "hipLaunchKernel");
    AddFunction(v1::API_DOMAIN_HIP, kCopyCall, "hipMemcpyAsync");
    AddFunction(v1::API_DOMAIN_HIP, kOther, "hipGetLastError");
    AddFunction(v1::API_DOMAIN_HSA, kStoreSignal, "hsa_signal_store_screlease");
    AddFunction(v1::API_DOMAIN_MARKER, kPush, "roctxRangePushA");
    AddFunction(v1::API_DOMAIN_MARKER, kPop, "roctxRangePop");
    AddFunction(v1::API_DOMAIN_MARKER, kMark, "roctxMarkA");
    v1::SessionPlan plan;
    plan.set_id(1);
    plan.add_counters("SQ_WAVES");
    plan.add_counters("GRBM_COUNT");
    Check(writer_->AddSessionPlan(id_, plan));
  }

  // Adds a call, and the operations that it causes.
  void Step() {
    const uint32_t thread = static_cast<uint32_t>(random_() % kThreads);
    const uint32_t tid = number_ * 10 + thread;
    uint64_t& now = now_[thread];
    now += 500 + random_() % 2000;
    if (random_() % 16 == 0) return Marker(tid, thread, &now);
    ApiCallRecord call = NewCall(v1::API_DOMAIN_HIP, tid, now);
    const uint64_t kind = random_() % 4;
    call.function = static_cast<uint16_t>(kind < 2 ? kLaunch : kind);
    now += 100 + random_() % 200;
    if (kind < 2) {
      Launch(tid, call, &now);
    } else if (kind == 2) {
      Copy(tid, now);
    }
    now += 100 + random_() % 300;
    call.end_ns = now;
    calls_.push_back(call);
    if (random_() % 512 == 0) Sample(now);
  }

  // Writes the records made so far, as a recorder does from time to time.
  void Flush() {
    std::sort(calls_.begin(), calls_.end(),
              [](const auto& a, const auto& b) { return a.end_ns < b.end_ns; });
    Check(writer_->Append<DispatchKind>(id_, dispatches_));
    Check(writer_->Append<CopyKind>(id_, copies_));
    Check(writer_->Append<CounterKind>(id_, values_));
    Check(writer_->Append<SampleKind>(id_, samples_));
    Check(writer_->Append<ApiCallKind>(id_, calls_));
    dispatches_.clear();
    copies_.clear();
    values_.clear();
    samples_.clear();
    calls_.clear();
  }

  void Close() {
    Flush();
    v1::ProcessEnd end;
    end.set_time_ns(*std::max_element(now_.begin(), now_.end()) + 1'000'000);
    v1::LossAccount account;
    account.set_time_ns(end.time_ns() - 1000);
    account.set_final(true);
    account.set_packets_unseen(number_ == 1 ? 1234 : 0);
    Check(writer_->SetAccount(id_, account));
    end.set_how(v1::ProcessEnd::EXITED);
    Check(writer_->EndProcess(id_, end));
  }

 private:
  static void Check(const absl::Status& status) {
    if (status.ok()) return;
    fprintf(stderr, "make_calls: %s\n", std::string(status.message()).c_str());
    exit(1);
  }

  void AddAgents() {
    for (uint32_t i = 1; i <= 3; ++i) {
      v1::Agent agent;
      agent.set_id(i);
      agent.set_type(i == 1 ? v1::AGENT_TYPE_CPU : v1::AGENT_TYPE_GPU);
      agent.set_name(i == 1 ? "AMD EPYC" : "gfx90a");
      agent.set_product_name(i == 1 ? "" : "AMD Instinct MI210");
      agent.set_node_id(i - 1);
      agent.set_compute_units(104);
      if (i > 1) {
        agent.set_pci_bdf(i << 8);
        agent.set_uuid(absl::StrCat("GPU-000000000000000", i));
      }
      Check(writer_->AddAgent(id_, agent));
    }
  }

  void AddKernels() {
    for (uint32_t i = 1; i <= kKernels; ++i) {
      v1::Kernel kernel;
      kernel.set_id(i);
      kernel.set_agent_id(2);
      kernel.set_name(i == 1   ? "_Z4vaddPfS_i"
                      : i == 2 ? std::string(10'000, 'k')
                      : i == 3 ? "with, \"quotes\"\nand lines"
                               : absl::StrCat("kernel_", i, "_of_", number_));
      kernel.set_arch_vgprs(8 * i);
      kernel.set_sgprs(16);
      Check(writer_->AddKernel(id_, kernel));
    }
  }

  void AddFunction(v1::ApiDomain domain, uint32_t number, const char* name) {
    v1::ApiFunction function;
    function.set_domain(domain);
    function.set_function(number);
    function.set_name(name);
    Check(writer_->AddApiFunction(id_, function));
  }

  ApiCallRecord NewCall(v1::ApiDomain domain, uint32_t tid, uint64_t now) {
    ApiCallRecord call;
    call.session = 1;
    call.domain = static_cast<uint16_t>(domain);
    call.tid = tid;
    call.correlation_id = ++next_call_;
    call.begin_ns = now;
    return call;
  }

  void Marker(uint32_t tid, uint32_t thread, uint64_t* now) {
    ApiCallRecord call = NewCall(v1::API_DOMAIN_MARKER, tid, *now);
    uint32_t& open = open_ranges_[thread];
    const uint64_t kind = random_() % 3;
    if (kind == 0) {
      call.function = kMark;
      call.text = absl::StrCat("mark ", next_call_);
    } else if (kind == 1 || open == 0) {
      call.function = kPush;
      call.text = absl::StrCat("range ", next_call_);
      ++open;
    } else {
      call.function = kPop;
      --open;
    }
    if (!call.text.empty()) call.flags = kApiCallHasText;
    call.end_ns = *now += 20;
    calls_.push_back(call);
  }

  // Adds up to three dispatches of a call, some of them through a nested call.
  void Launch(uint32_t tid, const ApiCallRecord& call, uint64_t* now) {
    const uint64_t kernels = 1 + random_() % 3;
    for (uint64_t i = 0; i < kernels; ++i) {
      const bool nested = random_() % 2 == 0;
      ApiCallRecord inner = NewCall(v1::API_DOMAIN_HSA, tid, *now);
      inner.function = kStoreSignal;
      inner.ancestor_id = call.correlation_id;
      *now += 20 + random_() % 50;
      Dispatch(tid, *now);
      *now += 20 + random_() % 50;
      inner.end_ns = *now;
      if (nested) calls_.push_back(inner);
      *now += 10;
    }
  }

  void Dispatch(uint32_t tid, uint64_t now) {
    rocattach_dispatch& r = dispatches_.emplace_back();
    r = {};
    r.kind = ROCATTACH_RECORD_DISPATCH;
    r.kernel_id = static_cast<uint32_t>(1 + random_() % kKernels);
    r.correlation_id = ++next_operation_;
    r.queue_id = static_cast<uint32_t>(1 + random_() % kQueues);
    r.agent_id = static_cast<uint16_t>(2 + r.queue_id % 2);
    r.tid = tid;
    r.enqueue_ns = now;
    r.grid_x = static_cast<uint32_t>(1 + random_() % 4096);
    r.grid_y = static_cast<uint32_t>(1 + random_() % 4);
    r.grid_z = 1;
    r.workgroup_x = 64;
    r.workgroup_y = r.workgroup_z = 1;
    r.lds_bytes = static_cast<uint32_t>(random_() % 4 * 1024);
    r.scratch_bytes = static_cast<uint32_t>(random_() % 2 * 64);
    r.packet_index = next_operation_;
    if (random_() % 64 == 0) {
      r.flags = ROCATTACH_DISPATCH_UNTIMED;
      return;
    }
    // Kernels of a queue overlap at times.
    r.start_ns = now + 300 + random_() % 3000;
    r.end_ns = r.start_ns + random_() % 8000;
    if (random_() % 8 == 0) Values(r);
  }

  void Values(const rocattach_dispatch& r) {
    for (uint16_t i = 0; i < 2; ++i) {
      CounterRecord& value = values_.emplace_back();
      value.session = value.plan = 1;
      value.operation = r.correlation_id;
      value.counter = i;
      value.kernel_id = r.kernel_id;
      value.agent_id = r.agent_id;
      value.sum = value.minimum = value.maximum =
          i == 0 ? static_cast<double>(1 + random_() % 1000) : 0.5;
    }
  }

  void Sample(uint64_t now) {
    CounterRecord& value = samples_.emplace_back();
    value.session = value.plan = 1;
    value.operation = ++next_sample_;
    value.counter = 1;
    value.agent_id = 2;
    value.begin_ns = now;
    value.end_ns = now + 1000;
    value.sum = static_cast<double>(1 + random_() % 100000);
  }

  void Copy(uint32_t tid, uint64_t now) {
    rocattach_copy& r = copies_.emplace_back();
    r = {};
    r.kind = ROCATTACH_RECORD_COPY;
    r.correlation_id = ++next_operation_;
    r.enqueue_ns = now;
    r.start_ns = now + 100 + random_() % 500;
    r.end_ns = r.start_ns + random_() % 20'000;
    r.bytes = random_() % (1 << 20);
    r.tid = tid;
    r.engine = ROCATTACH_ENGINE_ASYNC;
    const bool to_device = random_() % 2 == 0;
    r.direction =
        to_device ? ROCATTACH_COPY_HOST_TO_DEVICE : ROCATTACH_COPY_DEVICE_TO_HOST;
    r.src_agent_id = to_device ? 1 : 2;
    r.dst_agent_id = to_device ? 2 : 1;
    r.src_address = 0x7f0000000000 + random_() % (1 << 20);
    r.dst_address = 0x7e0000000000;
  }

  const uint32_t number_;
  std::mt19937_64 random_;
  StreamWriter* const writer_;
  StreamId id_ = 0;
  std::vector<uint64_t> now_ = std::vector<uint64_t>(kThreads, kBegin);
  std::vector<uint32_t> open_ranges_ = std::vector<uint32_t>(kThreads, 0);
  uint64_t next_call_ = 0, next_operation_ = 0, next_sample_ = 0;
  std::vector<rocattach_dispatch> dispatches_;
  std::vector<rocattach_copy> copies_;
  std::vector<CounterRecord> values_, samples_;
  std::vector<ApiCallRecord> calls_;
};

// Changes host, boot and clock in the header, which is the first frame.
bool MoveTo(const std::string& path, const char* host) {
  auto bytes = ReadFile(path, size_t{1} << 30);
  if (!bytes.ok()) return false;
  FrameHeader frame = *DecodeFrameHeader(bytes->data());
  const size_t end = kFrameHeaderBytes + (frame.payload_bytes + 7) / 8 * 8;
  v1::StreamHeader header;
  if (!header.ParseFromArray(bytes->data() + kFrameHeaderBytes,
                             static_cast<int>(frame.payload_bytes))) {
    return false;
  }
  header.set_hostname(host);
  header.set_boot_id(absl::StrCat("the boot of ", host));
  v1::ClockSnapshot* clock = header.mutable_clock();
  clock->set_boottime_ns(clock->boottime_ns() - 3'000'000'000);
  std::string changed;
  BuildFrame(frame, header.SerializeAsString(), &changed);
  changed += bytes->substr(end);
  auto file = OpenFile(path, O_WRONLY | O_TRUNC, 0600);
  return file.ok() && WriteAll(file->get(), changed).ok();
}

int Main(const char* path, uint64_t seed, uint32_t processes, uint64_t calls,
         const WriterOptions& options) {
  auto sink = OpenFileSink(path, ExistingFile::kTruncate);
  if (!sink.ok()) {
    fprintf(stderr, "make_calls: %s\n", std::string(sink.status().message()).c_str());
    return 1;
  }
  auto writer = StreamWriter::Create(*std::move(sink), options);
  if (!writer.ok()) return 1;
  std::vector<std::unique_ptr<ProcessMaker>> makers;
  for (uint32_t i = 1; i <= processes; ++i) {
    makers.push_back(std::make_unique<ProcessMaker>(i, seed * 1000 + i, writer->get()));
    makers.back()->Open();
  }
  constexpr uint64_t kCallsPerFlush = 1000;
  for (uint64_t done = 0; done < calls; ++done) {
    for (auto& maker : makers) maker->Step();
    if (done % kCallsPerFlush != 0) continue;
    for (auto& maker : makers) maker->Flush();
  }
  for (auto& maker : makers) maker->Close();
  return (*writer)->Close().ok() ? 0 : 1;
}

}  // namespace
}  // namespace rocattach

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6) {
    fprintf(stderr, "usage: make_calls FILE SEED PROCESSES CALLS [HOST]\n");
    return 2;
  }
  rocattach::WriterOptions options;
  if (argc == 6) options.compression_level = 0;  // the header is changed
  const int status =
      rocattach::Main(argv[1], strtoull(argv[2], nullptr, 10),
                      static_cast<uint32_t>(strtoul(argv[3], nullptr, 10)),
                      strtoull(argv[4], nullptr, 10), options);
  if (status != 0 || argc == 5) return status;
  return rocattach::MoveTo(argv[1], argv[5]) ? 0 : 1;
}
