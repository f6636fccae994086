// A property test: random calls to a writer, and a simple model of what a reader must
// see afterwards.
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "tests/unit/stream/stream_testing.h"

namespace rocattach {
namespace {

using Key = KeepingVisitor::Key;

// The data that the writer has received about one process.
struct Model {
  v1::Process process;
  std::map<uint32_t, std::string> kernels;
  std::vector<rocattach_dispatch> dispatches;
  std::vector<rocattach_copy> copies;
  std::vector<uint64_t> window_times;
  bool ended = false;
};

class RandomCalls {
 public:
  RandomCalls(uint32_t seed, StreamWriter* writer) : random_(seed), writer_(writer) {}

  void Step() {
    switch (random_() % 10) {
      case 0:
        Open();
        break;
      case 1:
      case 2:
      case 3: {
        std::vector<rocattach_dispatch> records =
            random_() % 3 == 0
                ? RandomDispatches(random_() % 700, &random_)
                : RegularDispatches(random_() % 4000, static_cast<uint32_t>(random_()));
        if (StreamId id = Pick()) {
          auto& kept = models_[id].dispatches;
          kept.insert(kept.end(), records.begin(), records.end());
          EXPECT_TRUE(writer_->Append<DispatchKind>(id, records).ok());
        }
        break;
      }
      case 4:
        if (StreamId id = Pick()) {
          std::vector<rocattach_copy> records = RandomCopies(random_() % 50, &random_);
          auto& kept = models_[id].copies;
          kept.insert(kept.end(), records.begin(), records.end());
          EXPECT_TRUE(writer_->Append<CopyKind>(id, records).ok());
        }
        break;
      case 5:
      case 6:
        if (StreamId id = Pick()) AddKernel(id);
        break;
      case 7:
        if (StreamId id = Pick()) {
          v1::WindowEvent event;
          event.set_time_ns(random_());
          models_[id].window_times.push_back(event.time_ns());
          EXPECT_TRUE(writer_->AddWindowEvent(id, event).ok());
        }
        break;
      case 8:
        now_ns_ += random_() % 400'000'000;
        EXPECT_TRUE(writer_->Flush(now_ns_).ok());
        break;
      default:
        if (random_() % 4 == 0) End();
        break;
    }
  }

  const std::map<StreamId, Model>& models() const { return models_; }

 private:
  void Open() {
    v1::Process process;
    process.set_pid(static_cast<uint32_t>(random_() % 100000));
    StreamId id = writer_->OpenProcess(process);
    models_[id].process = process;
  }

  // Returns an open stream, or 0.
  StreamId Pick() {
    std::vector<StreamId> open;
    for (const auto& [id, model] : models_) {
      if (!model.ended) open.push_back(id);
    }
    return open.empty() ? 0 : open[random_() % open.size()];
  }

  void AddKernel(StreamId id) {
    Model& model = models_[id];
    v1::Kernel kernel;
    kernel.set_id(static_cast<uint32_t>(model.kernels.size() + 1));
    kernel.set_name(absl::StrCat("k", random_()));
    model.kernels[kernel.id()] = kernel.name();
    EXPECT_TRUE(writer_->AddKernel(id, kernel).ok());
  }

  void End() {
    StreamId id = Pick();
    if (id == 0) return;
    models_[id].ended = true;
    EXPECT_TRUE(writer_->EndProcess(id, {}).ok());
  }

  std::mt19937_64 random_;
  StreamWriter* writer_;
  uint64_t now_ns_ = 1;
  std::map<StreamId, Model> models_;
};

template <typename Record>
void ExpectSameRecords(const std::vector<Record>& got,
                       const std::vector<Record>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(Describe(got[i]), Describe(want[i])) << i;
  }
}

TEST(Model, ReaderReturnsRandomlyWrittenRecords) {
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    std::string bytes;
    WriterOptions options;
    options.compression_level = static_cast<int>(seed % 3);
    options.key_frame_bytes = seed % 2 ? 10'000 : 4 << 20;
    options.batch_bytes = seed % 4 ? 64 << 10 : 500;
    auto writer = *StreamWriter::Create(std::make_unique<MemorySink>(&bytes), options);
    RandomCalls calls(seed, writer.get());
    for (int step = 0; step < 250; ++step) calls.Step();
    ASSERT_TRUE(writer->Close().ok());

    KeepingVisitor visitor;
    ReadStats stats = ReadBytes(bytes, &visitor);
    EXPECT_FALSE(stats.damaged()) << "seed " << seed;
    EXPECT_TRUE(visitor.damages.empty());
    EXPECT_EQ(writer->stats().records[RecordKind::kDispatch],
              stats.records[RecordKind::kDispatch]);
    for (const auto& [id, model] : calls.models()) {
      SCOPED_TRACE(absl::StrCat("seed ", seed, ", stream ", id));
      const KeepingVisitor::Stream& got = visitor.streams[Key(0, id)];
      ASSERT_EQ(got.processes.size(), 1u);
      EXPECT_EQ(got.processes[0].pid(), model.process.pid());
      EXPECT_EQ(got.ends.size(), model.ended ? 1u : 0u);
      ASSERT_EQ(got.kernels.size(), model.kernels.size());
      for (const auto& [kernel_id, name] : model.kernels) {
        EXPECT_EQ(got.kernels.at(kernel_id).name(), name);
      }
      ExpectSameRecords(got.dispatches, model.dispatches);
      ExpectSameRecords(got.copies, model.copies);
      ASSERT_EQ(got.windows.size(), model.window_times.size());
      for (size_t i = 0; i < got.windows.size(); ++i) {
        EXPECT_EQ(got.windows[i].time_ns(), model.window_times[i]);
      }
    }
  }
}

}  // namespace
}  // namespace rocattach
