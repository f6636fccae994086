// A recording in memory, and its report.
#ifndef ROCATTACH_TESTS_UNIT_REPORT_REPORT_FIXTURE_H_
#define ROCATTACH_TESTS_UNIT_REPORT_REPORT_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/report/read_report.h"
#include "userspace/report/report.h"
#include "userspace/stream/writer.h"

namespace rocattach {

class ReportTest : public testing::Test {
 protected:
  static rocattach_dispatch Dispatch(uint64_t number, uint32_t kernel,
                                     uint64_t start_ns, uint64_t duration_ns) {
    rocattach_dispatch record = {};
    record.kind = ROCATTACH_RECORD_DISPATCH;
    record.kernel_id = kernel;
    record.correlation_id = number;
    record.enqueue_ns = start_ns - 100;
    record.start_ns = start_ns;
    record.end_ns = start_ns + duration_ns;
    record.queue_id = 1;
    record.agent_id = 2;
    return record;
  }

  static rocattach_copy Copy(uint16_t direction, uint64_t bytes, uint64_t duration_ns) {
    rocattach_copy record = {};
    record.kind = ROCATTACH_RECORD_COPY;
    record.direction = direction;
    record.bytes = bytes;
    record.start_ns = 1'000'000;
    record.end_ns = 1'000'000 + duration_ns;
    return record;
  }

  static v1::Kernel Kernel(uint32_t id, const std::string& name) {
    v1::Kernel kernel;
    kernel.set_id(id);
    kernel.set_name(name);
    return kernel;
  }

  void SetUp() override {
    WriterOptions options;
    options.clock = [] {
      return ClockSnapshot{1'000, 900, 901, 1'700'000'000'000'000'000};
    };
    writer_ = *StreamWriter::Create(std::make_unique<MemorySink>(&bytes_), options);
  }

  StreamId Open(const std::string& comm, uint32_t pid) {
    v1::Process process;
    process.set_comm(comm);
    process.set_pid(pid);
    process.add_arguments(absl::StrCat("./", comm));
    process.add_arguments("two words");
    return writer_->OpenProcess(process);
  }

  // Opens an attached process with two kernel names, three kernels, and copies.
  StreamId OpenBusy() {
    StreamId id = Open("busy", 100);
    v1::WindowEvent event;
    event.set_state(v1::WINDOW_STATE_ATTACHED);
    event.set_mode(v1::WINDOW_MODE_HELD);
    event.set_hit_ns(1'000);
    event.set_stopped_ns(46'000);
    event.set_released_ns(151'000);
    event.set_probe_ns(44'000);
    event.set_hold_end(v1::HOLD_END_STOPPED);
    EXPECT_TRUE(writer_->AddWindowEvent(id, event).ok());
    v1::Agent agent;
    agent.set_id(2);
    agent.set_type(v1::AGENT_TYPE_GPU);
    agent.set_name("gfx90a");
    agent.set_compute_units(104);
    EXPECT_TRUE(writer_->AddAgent(id, agent).ok());
    v1::Queue queue;
    queue.set_id(1);
    queue.set_agent_id(2);
    EXPECT_TRUE(writer_->AddQueue(id, queue).ok());
    EXPECT_TRUE(writer_->AddKernel(id, Kernel(1, "_Z4vaddPfS_i")).ok());
    EXPECT_TRUE(writer_->AddKernel(id, Kernel(2, "scale")).ok());
    EXPECT_TRUE(writer_->AddKernel(id, Kernel(3, "scale")).ok());  // second GPU's copy
    std::vector<rocattach_dispatch> records = {
        Dispatch(1, 1, 10'000, 1'000), Dispatch(2, 1, 20'000, 3'000),
        Dispatch(3, 2, 30'000, 10'000), Dispatch(4, 3, 50'000, 30'000)};
    EXPECT_TRUE(writer_->Append<DispatchKind>(id, records).ok());
    std::vector<rocattach_copy> copies = {
        Copy(ROCATTACH_COPY_HOST_TO_DEVICE, 1000, 100),
        Copy(ROCATTACH_COPY_HOST_TO_DEVICE, 3000, 100),
        Copy(ROCATTACH_COPY_DEVICE_TO_HOST, 500, 50)};
    EXPECT_TRUE(writer_->Append<CopyKind>(id, copies).ok());
    return id;
  }

  void End(StreamId id, uint64_t seen_dispatches, uint64_t seen_copies) {
    v1::LossAccount account;
    account.set_final(true);
    account.set_dispatches_seen(seen_dispatches);
    account.set_copies_seen(seen_copies);
    account.set_dropped_ring_full(dropped_);
    EXPECT_TRUE(writer_->SetAccount(id, account).ok());
    v1::ProcessEnd end;
    end.set_how(v1::ProcessEnd::EXITED);
    end.set_exit_code(3);
    end.set_wall_ns(2'000'000'000);
    EXPECT_TRUE(writer_->EndProcess(id, end).ok());
  }

  Report Read() {
    if (writer_) {
      EXPECT_TRUE(writer_->Close().ok());
    }
    return ReadReport(bytes_);
  }

  std::string bytes_;
  std::unique_ptr<StreamWriter> writer_;
  uint64_t dropped_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_REPORT_REPORT_FIXTURE_H_
