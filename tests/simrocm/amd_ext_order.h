// Presents newer runtimes' AMD extension tables in the order of the installed header.
#ifndef ROCATTACH_TESTS_SIMROCM_AMD_EXT_ORDER_H_
#define ROCATTACH_TESTS_SIMROCM_AMD_EXT_ORDER_H_

#include <hsa/hsa_api_trace.h>

#include <cstring>

namespace simrocm {

// During its lifetime table() is the runtime's, with an AMD table that may be read and
// changed; the destructor copies the changes to the runtime. Runtimes since ROCm 5.6
// have two more functions in the middle of that table; others are at its end.
class AmdExtOrder {
 public:
  explicit AmdExtOrder(HsaApiTable* table) : given_(table), table_(table) {
    if (table == nullptr || table->amd_ext_->version.minor_id <= kLastOfTheOldOrder) {
      return;
    }
    // Static, because users of the table recognize it by its address.
    static HsaApiTable tables;
    static AmdExtTable amd_ext;
    Move(Functions(table->amd_ext_), Functions(&amd_ext), kMoreFunctions, 0);
    amd_ext.version = table->amd_ext_->version;
    tables = *table;
    tables.amd_ext_ = &amd_ext;
    table_ = &tables;
  }
  ~AmdExtOrder() {
    if (table_ == given_) return;
    Move(Functions(table_->amd_ext_), Functions(given_->amd_ext_), 0, kMoreFunctions);
  }
  AmdExtOrder(const AmdExtOrder&) = delete;
  AmdExtOrder& operator=(const AmdExtOrder&) = delete;

  HsaApiTable* table() const { return table_; }

 private:
  static constexpr uint32_t kLastOfTheOldOrder = 424;  // bytes
  static constexpr size_t kBefore = 16;                // functions, up to async_copy
  static constexpr size_t kMoreFunctions = 2;
  static constexpr size_t kAll =
      (sizeof(AmdExtTable) - sizeof(ApiTableVersion)) / sizeof(void*);

  static void** Functions(AmdExtTable* table) {
    return reinterpret_cast<void**>(reinterpret_cast<char*>(table) +
                                    sizeof(ApiTableVersion));
  }
  static void Move(void** from, void** to, size_t skip_from, size_t skip_to) {
    memcpy(to, from, kBefore * sizeof(void*));
    memcpy(to + kBefore + skip_to, from + kBefore + skip_from,
           (kAll - kBefore) * sizeof(void*));
  }

  HsaApiTable* const given_;
  HsaApiTable* table_;
};

}  // namespace simrocm

#endif  // ROCATTACH_TESTS_SIMROCM_AMD_EXT_ORDER_H_
