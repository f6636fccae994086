// Writes a synthetic recording with records of all kinds from a seed. The tests and
// benchmarks of exports convert it.
//   make_recording FILE SEED DISPATCHES [PROCESSES [NAME]]
// For every ten dispatches there are a counted one, a call that launches one, a copy
// and an API call, for a hundred a memory record, for a thousand a sample. With one
// process all is regular, for benchmarks; with more, names and times are as hostile as
// possible. NAME is one more kernel. MAKE_RECORDING_SLOWER multiplies kernels' times.
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "userspace/abi/hip_stream.h"
#include "userspace/stream/writer.h"

namespace rocattach {
namespace {

constexpr uint64_t kBegin = 5'000'000'000'000;

// Functions, by their numbers in their domains.
constexpr uint16_t kHsaSignalStore = 1, kHipMalloc = 1, kHipLaunchKernel = 2,
                   kHipPushCallConfiguration = 768, kRoctxMark = 1, kRoctxRangePush = 2,
                   kRoctxRangePop = 3, kNcclAllReduce = 3;

std::vector<std::string> KernelNames(bool hostile, const std::string& more) {
  std::vector<std::string> names = {"_Z5ScalePffi", "_Z3SumPKfPfi", "_Z5ShiftPffi"};
  if (!more.empty()) names.push_back(more);
  if (hostile) {
    names.push_back("comma, \"quoted\"\nand a line\ttab \\ backslash");
    names.push_back(absl::StrCat("long_", std::string(10'000, 'n')));
    names.push_back("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x9a\x80");
    names.push_back("");
  }
  return names;
}

class Process {
 public:
  Process(StreamWriter* writer, uint32_t number, uint32_t seed, bool hostile,
          const std::string& name, uint64_t slower)
      : writer_(writer),
        random_(seed + number),
        hostile_(hostile),
        name_(name),
        slower_(slower) {
    v1::Process process;
    process.set_pid(4000 + number);
    process.set_parent_pid(1);
    process.set_comm("app");
    process.set_executable("/usr/bin/app");
    process.add_arguments("./app");
    process.add_arguments(absl::StrCat("--number=", number));
    process.set_start_ns(kBegin - 1'000'000);
    stream_ = writer->OpenProcess(process);
    pid_ = process.pid();
    AddEntries();
  }

  // `calls_first`: the calls precede the dispatches. Calls are recorded when they
  // return, and dispatches when they complete, so both orders occur.
  void AddDispatches(size_t count, bool calls_first) {
    std::vector<rocattach_dispatch> records(count);
    std::vector<CounterRecord> values;
    std::vector<ApiCallRecord> launches;
    for (rocattach_dispatch& r : records) {
      ++dispatches_;
      r.kind = ROCATTACH_RECORD_DISPATCH;
      r.kernel_id = Below(static_cast<uint32_t>(kernels_)) + 1;
      r.correlation_id = ++correlation_;
      r.queue_id = Below(2) + 1;
      r.agent_id = static_cast<uint16_t>(r.queue_id + 1);
      r.enqueue_ns = now_ += 4000 + Below(400);
      r.start_ns = r.enqueue_ns + 900 + Below(400);
      r.end_ns = r.start_ns + (5000 + Below(400)) * slower_;
      r.tid = pid_ + Below(3);
      r.grid_x = 1024u << Below(4);
      r.grid_y = 1 + Below(2);
      r.grid_z = 1;
      r.workgroup_x = 256;
      r.workgroup_y = r.workgroup_z = 1;
      r.lds_bytes = Below(3) * 300;
      r.scratch_bytes = Below(2) * 16;
      // Every process also has dispatches of HIP streams, including the default stream.
      r.packet_index =
          correlation_ % 3 == 0 ? PacketIndexOf(1 + Below(4)) : correlation_;
      if (hostile_ && Below(50) == 0) {
        r.flags = ROCATTACH_DISPATCH_UNTIMED;
        r.start_ns = r.end_ns = 0;
      }
      if (hostile_ && Below(200) == 0) r.kernel_id = 77;  // no such kernel
      if (dispatches_ % 10 == 0) AddValues(r, &values);
      if (dispatches_ % 10 == 5) AddLaunch(r, &launches);
    }
    if (calls_first) Check(writer_->Append<ApiCallKind>(stream_, launches));
    Check(writer_->Append<DispatchKind>(stream_, records));
    if (!calls_first) Check(writer_->Append<ApiCallKind>(stream_, launches));
    if (!values.empty()) Check(writer_->Append<CounterKind>(stream_, values));
  }

  void AddCopies(size_t count) {
    copies_ += count;
    std::vector<rocattach_copy> records(count);
    for (rocattach_copy& r : records) {
      r.kind = ROCATTACH_RECORD_COPY;
      r.correlation_id = ++correlation_;
      r.direction = static_cast<uint16_t>(2 + Below(2));
      const bool to_device = r.direction == ROCATTACH_COPY_HOST_TO_DEVICE;
      r.src_agent_id = to_device ? static_cast<uint16_t>(Below(2)) : 2;
      r.dst_agent_id = to_device ? 2 : 1;
      r.engine = ROCATTACH_ENGINE_ASYNC;
      r.enqueue_ns = now_ += 1000;
      r.start_ns = r.enqueue_ns + Below(500);
      r.end_ns = r.start_ns + 10'000 + Below(1000);
      r.bytes = 65536u + Below(4096);
      r.tid = pid_;
      r.hip_stream = correlation_ % 2 == 0 ? 1 + Below(4) : 0;
      r.src_address = 0x7f0000000000 + Below(1 << 20);
      r.dst_address = 0x7f1000000000 + Below(1 << 20);
    }
    Check(writer_->Append<CopyKind>(stream_, records));
  }

  void AddCalls(size_t count) {
    std::vector<ApiCallRecord> records(count);
    for (ApiCallRecord& r : records) {
      const uint32_t which = Below(6);
      r.session = 1;
      r.correlation_id = ++calls_;
      r.ancestor_id = which == 0 && calls_ > 1 ? calls_ - 1 : 0;
      r.tid = pid_ + Below(3);
      r.begin_ns = now_ += 700;
      r.end_ns = r.begin_ns + (Below(20) == 0 ? 0 : Below(650));
      if (which == 0) {
        r.domain = v1::API_DOMAIN_HSA;
        r.function = kHsaSignalStore;
      } else if (which <= 2) {
        r.domain = v1::API_DOMAIN_HIP;
        r.function = which == 1 ? kHipMalloc : kHipPushCallConfiguration;
      } else if (which == 3) {
        r.domain = v1::API_DOMAIN_RCCL;
        r.function = kNcclAllReduce;
        r.flags = kApiCallHasText | kApiCallArguments;
        r.text = absl::StrCat("count=", Below(1 << 20), "\nstream=0x", Below(9));
      } else {
        AddMarker(&r);
      }
    }
    Check(writer_->Append<ApiCallKind>(stream_, records));
  }

  void AddMemory(size_t count) {
    std::vector<MemoryRecord> records(count);
    for (MemoryRecord& r : records) {
      r.session = 1;
      r.correlation_id = ++calls_;
      r.operation = static_cast<uint16_t>(1 + Below(7));  // v1::MemoryOperation
      r.tid = pid_ + Below(3);
      r.begin_ns = now_ += 700;
      r.end_ns = r.begin_ns + Below(650);
      const bool scratch = r.operation >= v1::MEMORY_OPERATION_SCRATCH_ALLOCATE;
      const bool free = r.operation == v1::MEMORY_OPERATION_FREE ||
                        r.operation == v1::MEMORY_OPERATION_VMEM_FREE;
      if (!free) r.agent_id = static_cast<uint16_t>(2 + Below(2));
      if (!free) r.bytes = 4096u * (1 + Below(100));
      if (scratch) {
        r.queue_id = 1 + Below(2);
        r.scratch_flags = static_cast<uint16_t>(1 + Below(2));
      } else {
        r.address = 0x7f2000000000 + 4096u * Below(1 << 20);
      }
    }
    Check(writer_->Append<MemoryKind>(stream_, records));
  }

  void AddSamples(size_t count) {
    std::vector<CounterRecord> records;
    for (size_t i = 0; i < count; ++i) {
      ++samples_;
      for (uint16_t counter = 0; counter < 2; ++counter) {
        CounterRecord r;
        r.session = 1;
        r.operation = samples_;
        r.plan = 1;
        r.counter = counter;
        r.agent_id = 2;
        r.instances = 4;
        r.begin_ns = now_;
        r.end_ns = now_ + 1'000'000;
        r.sum = Below(1'000'000);
        r.maximum = r.sum;
        records.push_back(r);
      }
    }
    Check(writer_->Append<SampleKind>(stream_, records));
  }

  void End() {
    v1::LossAccount account;
    account.set_final(true);
    account.set_dispatches_seen(dispatches_);
    account.set_copies_seen(copies_);
    Check(writer_->SetAccount(stream_, account));
    v1::ProcessEnd end;
    end.set_how(v1::ProcessEnd::EXITED);
    end.set_time_ns(now_ + 1000);
    Check(writer_->EndProcess(stream_, end));
  }

 private:
  static void Check(const absl::Status& status) {
    if (status.ok()) return;
    fprintf(stderr, "make_recording: %s\n", std::string(status.message()).c_str());
    exit(1);
  }

  // Returns a number from 0 to limit - 1.
  uint32_t Below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }

  // Adds the call that submitted a dispatch; for every second one also a nested call
  // that submitted it.
  void AddLaunch(const rocattach_dispatch& dispatch, std::vector<ApiCallRecord>* out) {
    ApiCallRecord launch;
    launch.session = 1;
    launch.correlation_id = ++calls_;
    launch.tid = dispatch.tid;
    launch.domain = v1::API_DOMAIN_HIP;
    launch.function = kHipLaunchKernel;
    launch.begin_ns = dispatch.enqueue_ns - 40;
    launch.end_ns = dispatch.enqueue_ns + 60;
    if (dispatches_ % 20 == 15) {
      ApiCallRecord inner = launch;
      inner.correlation_id = ++calls_;
      inner.ancestor_id = launch.correlation_id;
      inner.domain = v1::API_DOMAIN_HSA;
      inner.function = kHsaSignalStore;
      inner.begin_ns = dispatch.enqueue_ns - 20;
      inner.end_ns = dispatch.enqueue_ns + 20;
      out->push_back(inner);
    }
    out->push_back(launch);
  }

  // Ranges nest; some are still open at the end.
  void AddMarker(ApiCallRecord* r) {
    r->domain = v1::API_DOMAIN_MARKER;
    uint32_t& open = open_ranges_[r->tid];
    const uint32_t which = Below(5);
    if (which >= 3 && open > 0) {
      --open;
      r->function = kRoctxRangePop;
      return;
    }
    r->function = which == 0 ? kRoctxMark : kRoctxRangePush;
    if (which != 0) ++open;
    r->flags = kApiCallHasText;
    r->text = hostile_ ? absl::StrCat("phase \"", Below(5), "\",\n", Below(3))
                       : absl::StrCat("phase ", Below(5));
  }

  // Adds properties that the kernel driver reports for the agent.
  static void AddProperties(v1::Agent* agent) {
    agent->set_model_name("aldebaran");
    agent->set_family_id(141);
    agent->set_workgroup_max_size(1024);
    agent->set_grid_max_size(UINT32_MAX);
    for (uint32_t size : {1024, 512, 256}) agent->add_workgroup_max_dimensions(size);
    for (uint32_t size : {300, 200, 100}) agent->add_grid_max_dimensions(size);
    for (const auto& [name, value] : std::map<std::string, uint64_t>{
             {"lds_size_in_kb", 64}, {"hive_id", UINT64_MAX}, {"gpu_id", 50000}}) {
      v1::AgentProperty* property = agent->add_properties();
      property->set_name(name);
      property->set_value(value);
    }
  }

  // Both counters in one pass, on both GPUs.
  static void AddArchitecture(v1::SessionPlan* plan) {
    v1::SessionArchitecture* architecture = plan->add_architectures();
    architecture->set_name("gfx90a");
    for (v1::CounterPass* pass :
         {architecture->add_passes(), architecture->add_sampler_passes()}) {
      pass->add_counters(0);
      pass->add_counters(1);
    }
    for (const std::string& name : plan->counters()) {
      for (v1::RequestedValue* value :
           {architecture->add_values(), architecture->add_sampler_values()}) {
        value->set_name(name);
        value->add_passes(0);
      }
    }
    for (uint32_t id = 2; id <= 3; ++id) {
      v1::SessionAgent* agent = plan->add_agents();
      agent->set_agent_id(id);
      agent->set_architecture("gfx90a");
    }
  }

  void AddEntries() {
    for (uint32_t id = 1; id <= 3; ++id) {
      v1::Agent agent;
      agent.set_id(id);
      agent.set_type(id == 1 ? v1::AGENT_TYPE_CPU : v1::AGENT_TYPE_GPU);
      agent.set_name(id == 1 ? "AMD EPYC" : "gfx90a");
      agent.set_product_name(id == 1 ? "" : "AMD Instinct MI210");
      agent.set_node_id(id == 1 ? 0 : id + 2);  // 4 and 5: others are not visible
      agent.set_compute_units(id == 1 ? 16 : 104);
      agent.set_simds_per_cu(id == 1 ? 0 : 4);
      agent.set_wavefront_size(64);
      agent.set_max_waves_per_cu(id == 1 ? 0 : 32);
      agent.set_shader_engines(id == 1 ? 0 : 8);
      agent.set_max_clock_mhz(1700);
      agent.set_pci_bdf(id << 8);
      if (id == 2) AddProperties(&agent);
      Check(writer_->AddAgent(stream_, agent));
    }
    for (uint32_t i = 0; i < 2; ++i) {  // a third one ended unseen
      v1::Thread thread;
      thread.set_tid(pid_ + i);
      thread.set_name(i == 0 ? "app" : "loader, \"second\"");
      Check(writer_->AddThread(stream_, thread));
    }
    for (uint32_t id = 1; id <= 2; ++id) {
      v1::Queue queue;
      queue.set_id(id);
      queue.set_agent_id(id + 1);
      Check(writer_->AddQueue(stream_, queue));
    }
    v1::CodeObject object;
    object.set_id(1);
    object.set_agent_id(2);
    object.set_uri("file:///usr/bin/app#offset=4096&size=1000");
    Check(writer_->AddCodeObject(stream_, object));
    for (const std::string& name : KernelNames(hostile_, name_)) {
      v1::Kernel kernel;
      kernel.set_id(static_cast<uint32_t>(++kernels_));
      kernel.set_agent_id(2);
      kernel.set_code_object_id(1);
      kernel.set_name(name);
      kernel.set_arch_vgprs(static_cast<uint32_t>(8 * kernels_));
      kernel.set_accum_vgprs(4);
      kernel.set_sgprs(32);
      Check(writer_->AddKernel(stream_, kernel));
    }
    v1::SessionPlan plan;
    plan.set_id(1);
    plan.add_counters("SQ_WAVES");
    plan.add_counters("TCC_HIT");
    AddArchitecture(&plan);
    Check(writer_->AddSessionPlan(stream_, plan));
    AddFunction(v1::API_DOMAIN_HSA, kHsaSignalStore, "hsa_signal_store_screlease");
    AddFunction(v1::API_DOMAIN_HIP, kHipMalloc, "hipMalloc");
    AddFunction(v1::API_DOMAIN_HIP, kHipLaunchKernel, "hipLaunchKernel");
    AddFunction(v1::API_DOMAIN_HIP, kHipPushCallConfiguration,
                "__hipPushCallConfiguration");
    AddFunction(v1::API_DOMAIN_MARKER, kRoctxMark, "roctxMarkA");
    AddFunction(v1::API_DOMAIN_MARKER, kRoctxRangePush, "roctxRangePushA");
    AddFunction(v1::API_DOMAIN_MARKER, kRoctxRangePop, "roctxRangePop");
    AddFunction(v1::API_DOMAIN_RCCL, kNcclAllReduce, "ncclAllReduce");
  }

  void AddFunction(v1::ApiDomain domain, uint32_t number, const char* name) {
    v1::ApiFunction function;
    function.set_domain(domain);
    function.set_function(number);
    function.set_name(name);
    Check(writer_->AddApiFunction(stream_, function));
  }

  void AddValues(const rocattach_dispatch& dispatch,
                 std::vector<CounterRecord>* values) {
    for (uint16_t counter = 0; counter < 2; ++counter) {
      CounterRecord r;
      r.session = 1;
      r.operation = dispatch.correlation_id;
      r.plan = 1;
      r.counter = counter;
      r.kernel_id = dispatch.kernel_id;
      r.agent_id = dispatch.agent_id;
      r.instances = 8;
      r.sum = counter == 0 ? Below(10'000) : Below(10'000) / 64.0;
      r.minimum = r.sum / 16;
      r.maximum = r.sum / 4;
      if (dispatches_ % 100 == 0) AddInstances(&r);
      values->push_back(r);
    }
  }

  // Adds values of single instances, whose sum is the counter's.
  static void AddInstances(CounterRecord* r) {
    auto each = std::make_shared<std::vector<CounterInstance>>();
    for (uint32_t i = 0; i < r->instances; ++i) {
      const bool last = i + 1 == r->instances;
      each->push_back({i, last ? r->sum - (r->instances - 1) * 0.25 : 0.25});
    }
    r->each = std::move(each);
  }

  StreamWriter* writer_;
  std::mt19937 random_;
  const bool hostile_;
  const std::string name_;
  const uint64_t slower_;
  StreamId stream_ = 0;
  uint32_t pid_ = 0;
  size_t kernels_ = 0;
  uint64_t now_ = kBegin;
  uint64_t correlation_ = 0, calls_ = 0, samples_ = 0;
  uint64_t dispatches_ = 0, copies_ = 0;
  std::map<uint32_t, uint32_t> open_ranges_;  // by thread
};

int Main(int argc, char** argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: make_recording FILE SEED DISPATCHES [PROCESSES [NAME]]\n");
    return 2;
  }
  const uint32_t seed = static_cast<uint32_t>(atoi(argv[2]));
  const size_t dispatches = static_cast<size_t>(atoll(argv[3]));
  const uint32_t count = argc > 4 ? static_cast<uint32_t>(atoi(argv[4])) : 1;
  const std::string name = argc > 5 ? argv[5] : "";
  const char* slower = getenv("MAKE_RECORDING_SLOWER");
  auto sink = OpenFileSink(argv[1], ExistingFile::kTruncate);
  if (!sink.ok()) {
    fprintf(stderr, "make_recording: %s\n",
            std::string(sink.status().message()).c_str());
    return 1;
  }
  auto writer = *StreamWriter::Create(*std::move(sink), {});
  std::vector<std::unique_ptr<Process>> processes;
  for (uint32_t i = 1; i <= count; ++i) {
    processes.push_back(std::make_unique<Process>(
        writer.get(), i, seed, count > 1, name,
        slower == nullptr ? 1 : static_cast<uint64_t>(atoll(slower))));
  }
  // Even a small recording is written in several pieces.
  const size_t largest = std::clamp<size_t>(dispatches / 4, 1, 10'000);
  size_t number = 0;
  for (size_t done = 0; done < dispatches; done += largest, ++number) {
    const size_t piece = std::min(largest, dispatches - done);
    for (const auto& process : processes) {
      process->AddDispatches(piece, number % 2 == 1);
      process->AddCopies(piece / 10);
      process->AddCalls(piece / 10);
      process->AddMemory(piece / 100);
      process->AddSamples((piece + 999) / 1000);
    }
  }
  for (const auto& process : processes) process->End();
  return writer->Close().ok() ? 0 : 1;
}

}  // namespace
}  // namespace rocattach

int main(int argc, char** argv) {
  return rocattach::Main(argc, argv);
}
