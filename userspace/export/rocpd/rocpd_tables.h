// The rows of a rocpd database: one process's records with the ids and conventions of
// rocprofv3.
#ifndef ROCATTACH_USERSPACE_EXPORT_ROCPD_ROCPD_TABLES_H_
#define ROCATTACH_USERSPACE_EXPORT_ROCPD_ROCPD_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "userspace/export/common/export_options.h"
#include "userspace/export/common/export_process.h"
#include "userspace/export/common/export_sink.h"
#include "userspace/export/rocpd/rocpd_schema.h"
#include "userspace/export/rocpd/sqlite.h"
#include "userspace/export/rocpd/sqlite_rows.h"

namespace rocattach {

class RocpdTables {
 public:
  // Creates the file with its schema, the process, and the rows that always exist.
  static absl::StatusOr<std::unique_ptr<RocpdTables>> Create(
      const std::string& path, const ExportProcess& process,
      const ExportOptions& options);

  // Entries replace the placeholders that earlier records needed.
  absl::Status WriteProcess(const ExportProcess& process);
  absl::Status WriteAgent(const ExportProcess& process, const v1::Agent& agent);
  absl::Status WriteCodeObject(const ExportProcess& process,
                               const v1::CodeObject& object);
  absl::Status WriteKernel(const ExportKernel& kernel);
  absl::Status NeedQueue(uint32_t queue);
  // Writes names that became known after the threads' first records.
  absl::Status WriteThreadNames(const ExportProcess& process);

  absl::Status WriteDispatch(const ExportProcess& process,
                             const rocattach_dispatch& record);
  absl::Status WriteCopy(const ExportProcess& process, const rocattach_copy& record);
  absl::Status WriteCounted(const ExportProcess& process,
                            const CountedDispatch& counted);
  absl::Status WriteSamples(const ExportProcess& process,
                            absl::Span<const CounterRecord> records);
  absl::Status WriteApiCall(const ExportProcess& process, const ApiCallRecord& record);

  absl::Status WriteMemory(const ExportProcess& process, const MemoryRecord& record);

  absl::Status Commit();
  absl::Status CommitIfLarge();
  // Commits, and leaves a single file behind.
  absl::Status Close();

 private:
  // Events of dispatches, of copies and all others have separate ids, so that the
  // values of a dispatch find its event without a table in memory.
  enum class EventClass { kDispatch = 0, kCopy = 1, kOther = 2 };
  struct Inserts {
    SqliteInsert string, thread, named_thread, queue, stream, agent, code_object,
        kernel, pmc, track, process;
    // Rows of records.
    std::unique_ptr<SqliteRows> event, arg, dispatch, copy, memory, region, sample,
        pmc_event;
  };

  RocpdTables(SqliteDatabase database, RocpdSchema schema, const ExportOptions& options)
      : database_(std::move(database)), schema_(std::move(schema)), options_(options) {}

  static constexpr absl::string_view kNoExtData = "{}";
  // Id of "", the first string of every database.
  static constexpr int64_t kNoString = 1;
  // Maximum number of known ids that are kept.
  static constexpr size_t kMostKnownIds = size_t{1} << 20;
  // Ids whose rows exist. Usually the same few are requested again and again.
  struct KnownIds {
    absl::flat_hash_set<uint32_t> ids;
    std::optional<uint32_t> last;
  };
  static bool IsNew(uint32_t id, KnownIds* known);

  absl::Status Prepare();
  absl::Status PrepareRows();
  absl::Status FlushRows();
  absl::StatusOr<SqliteInsert> PrepareInsert(absl::string_view verb,
                                             absl::string_view table,
                                             absl::string_view columns);
  absl::Status WriteNode(const ExportProcess& process);

  // Rows to which records refer by id; the row is written at the first call.
  absl::StatusOr<int64_t> StringId(absl::string_view text);
  absl::Status NeedStream(uint32_t stream);
  absl::Status NeedThread(const ExportProcess& process, uint32_t tid);
  absl::Status NeedKernel(uint32_t kernel);
  absl::Status NeedCodeObject(uint32_t object);
  absl::StatusOr<int64_t> NeedAgent(const ExportProcess& process, uint32_t agent);
  absl::StatusOr<int64_t> PmcId(const ExportProcess& process,
                                const CounterRecord& value);
  absl::StatusOr<int64_t> TrackId(const ExportProcess& process, uint32_t tid,
                                  absl::string_view name);

  // `number`: the event's number in its class. Returns the event's id.
  absl::StatusOr<int64_t> WriteEvent(EventClass of, uint64_t number,
                                     absl::string_view category, uint64_t stack_id,
                                     uint64_t parent_stack_id,
                                     absl::string_view extdata);
  absl::Status WriteValues(const ExportProcess& process, int64_t event,
                           absl::Span<const CounterRecord> values);
  absl::Status WriteValue(int64_t event, int64_t pmc, double value,
                          const InstancePlace* place, absl::string_view extdata);
  absl::Status WriteArguments(int64_t event, const ApiCallRecord& record);

  SqliteDatabase database_;
  const RocpdSchema schema_;
  const ExportOptions options_;
  std::unique_ptr<Inserts> inserts_;
  int64_t node_ = 0, pid_ = 0, ppid_ = 0;
  uint64_t rows_in_transaction_ = 0;
  uint64_t copies_ = 0, others_ = 0;
  absl::flat_hash_map<std::string, int64_t> strings_;
  int64_t next_string_ = 1;
  // The category of the previous event.
  std::string category_;
  int64_t category_id_ = 0;
  KnownIds threads_, queues_, streams_;
  absl::flat_hash_set<uint32_t> kernels_, code_objects_;
  absl::flat_hash_set<int64_t> agents_;
  absl::flat_hash_map<std::pair<int64_t, std::string>, int64_t> pmcs_;
  absl::flat_hash_map<std::pair<uint32_t, std::string>, int64_t> tracks_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_ROCPD_ROCPD_TABLES_H_
