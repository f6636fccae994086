#include "injector/elf/unwind_table.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr uint32_t kMaxEntries = 1u << 24;  // functions of one image
constexpr uint32_t kMaxRecord = 1u << 16;   // bytes of one CIE or FDE
constexpr size_t kMaxSaved = 16;            // DW_CFA_remember_state in a row
constexpr size_t kMaxOperands = 8;          // on the stack of an expression

// Encodings of pointers (Linux Standard Base, DWARF extensions).
constexpr uint8_t kAbsolute = 0x00, kPcRelative4 = 0x1b, kUnsigned4 = 0x03,
                  kTableRelative4 = 0x3b;

absl::Status Unknown(absl::string_view what) {
  return absl::UnimplementedError(absl::StrCat("unwind information: ", what));
}

// Reads forward in untrusted bytes; past the end it reads zeros and is no longer ok().
class Cursor {
 public:
  explicit Cursor(absl::string_view bytes) : left_(bytes) {}
  bool ok() const { return ok_; }
  bool empty() const { return left_.empty(); }
  absl::string_view left() const { return left_; }

  template <typename T>
  T Read() {
    T value{};
    if (left_.size() < sizeof(T)) {
      Fail();
      return value;
    }
    std::memcpy(&value, left_.data(), sizeof(T));
    left_.remove_prefix(sizeof(T));
    return value;
  }
  absl::string_view Block(uint64_t bytes) {
    if (bytes > left_.size()) {
      Fail();
      return {};
    }
    absl::string_view block = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return block;
  }
  absl::string_view String() {
    const size_t end = left_.find('\0');
    if (end == absl::string_view::npos) {
      Fail();
      return {};
    }
    absl::string_view text = left_.substr(0, end);
    left_.remove_prefix(end + 1);
    return text;
  }
  uint64_t Unsigned() {
    unsigned shift;
    return Leb(&shift);
  }
  int64_t Signed() {
    unsigned shift;
    uint64_t value = Leb(&shift);
    if (shift < 64 && shift > 0 && (value >> (shift - 1) & 1) != 0) {
      value |= ~uint64_t{0} << shift;
    }
    return static_cast<int64_t>(value);
  }

 private:
  uint64_t Leb(unsigned* shift) {
    uint64_t value = 0;
    for (*shift = 0; *shift < 64; *shift += 7) {
      const uint8_t byte = Read<uint8_t>();
      value |= uint64_t{byte & 0x7fu} << *shift;
      if ((byte & 0x80) == 0) {
        *shift += 7;
        return value;
      }
    }
    Fail();
    return 0;
  }
  void Fail() {
    ok_ = false;
    left_ = {};
  }

  absl::string_view left_;
  bool ok_ = true;
};

// Common data of several functions.
struct Cie {
  uint64_t code_unit = 1;
  int64_t data_unit = 1;
  uint8_t pointers = kAbsolute;
  bool has_data = false;  // records have data of a language, with its length
  std::string program;
};

struct Fde {
  Cie cie;
  uint64_t begin = 0;
  std::string program;
};

absl::StatusOr<std::vector<char>> ReadRecord(const ElfImage& image, uint64_t vaddr) {
  uint32_t bytes;
  RETURN_IF_ERROR(image.Read(vaddr, &bytes, sizeof(bytes)));
  if (bytes < sizeof(uint32_t) || bytes > kMaxRecord) {
    return Unknown(absl::StrCat("a record of ", bytes, " bytes"));
  }
  std::vector<char> record(bytes);
  RETURN_IF_ERROR(image.Read(vaddr + sizeof(bytes), record.data(), record.size()));
  return record;
}

absl::StatusOr<Cie> ReadCie(const ElfImage& image, uint64_t vaddr) {
  ASSIGN_OR_RETURN(std::vector<char> record, ReadRecord(image, vaddr));
  Cursor cursor(absl::string_view(record.data(), record.size()));
  if (cursor.Read<uint32_t>() != 0) return Unknown("no CIE where one should be");
  const uint8_t version = cursor.Read<uint8_t>();
  if (version != 1 && version != 3) return Unknown(absl::StrCat("version ", version));
  const std::string augmentation(cursor.String());
  Cie cie;
  cie.code_unit = cursor.Unsigned();
  cie.data_unit = cursor.Signed();
  const uint64_t return_register =
      version == 1 ? cursor.Read<uint8_t>() : cursor.Unsigned();
  if (return_register != kUnwindReturn) return Unknown("another return register");
  if (!augmentation.empty() && augmentation[0] != 'z') {
    return Unknown(absl::StrCat("augmentation ", augmentation));
  }
  cie.has_data = !augmentation.empty();
  if (cie.has_data) {
    Cursor data(cursor.Block(cursor.Unsigned()));
    for (char letter : augmentation.substr(1)) {
      if (letter == 'R') {
        cie.pointers = data.Read<uint8_t>();
      } else if (letter == 'L') {
        (void)data.Read<uint8_t>();
      } else if (letter == 'P') {
        const uint8_t encoding = data.Read<uint8_t>() & 0x0f;
        const bool small = encoding == 0x03 || encoding == 0x0b;
        const bool large = encoding == 0x00 || encoding == 0x04 || encoding == 0x0c;
        if (!small && !large) return Unknown("the encoding of a personality");
        (void)data.Block(small ? 4 : 8);
      } else if (letter != 'S' && letter != 'B') {
        return Unknown(absl::StrCat("augmentation ", augmentation));
      }
    }
    if (!data.ok()) return Unknown("a CIE that ends early");
  }
  if (!cursor.ok()) return Unknown("a CIE that ends early");
  cie.program = std::string(cursor.left());
  return cie;
}

// The record of the function around `vaddr`, by binary search in the index.
absl::StatusOr<Fde> FindFde(const ElfImage& image, uint64_t vaddr) {
  const uint64_t header = image.eh_frame_header();
  if (header == 0) return absl::NotFoundError("no unwind information");
  struct {
    uint8_t version, frame_encoding, count_encoding, table_encoding;
    int32_t frame;
    uint32_t count;
  } index;
  static_assert(sizeof(index) == 12);
  RETURN_IF_ERROR(image.Read(header, &index, sizeof(index)));
  if (index.version != 1 || index.frame_encoding != kPcRelative4 ||
      index.count_encoding != kUnsigned4 || index.table_encoding != kTableRelative4 ||
      index.count == 0 || index.count > kMaxEntries) {
    return Unknown("an index of another kind");
  }
  struct Entry {
    int32_t begin, record;
  } entry;
  auto read_entry = [&](uint32_t at) {
    return image.Read(header + sizeof(index) + uint64_t{at} * sizeof(Entry), &entry,
                      sizeof(entry));
  };
  auto address = [header](int32_t offset) {
    return header + static_cast<uint64_t>(int64_t{offset});
  };
  uint32_t low = 0, high = index.count;  // the last entry that begins at or below
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    RETURN_IF_ERROR(read_entry(middle));
    (address(entry.begin) <= vaddr ? low : high) = middle;
  }
  RETURN_IF_ERROR(read_entry(low));
  const uint64_t place = address(entry.record);
  ASSIGN_OR_RETURN(std::vector<char> record, ReadRecord(image, place));
  Cursor cursor(absl::string_view(record.data(), record.size()));
  const uint32_t back = cursor.Read<uint32_t>();
  if (back == 0) return Unknown("a CIE in the index");
  Fde fde;
  ASSIGN_OR_RETURN(fde.cie, ReadCie(image, place + sizeof(uint32_t) - back));
  uint64_t bytes;
  if (fde.cie.pointers == kPcRelative4) {
    fde.begin = place + 2 * sizeof(uint32_t) +
                static_cast<uint64_t>(int64_t{cursor.Read<int32_t>()});
    bytes = cursor.Read<uint32_t>();
  } else if (fde.cie.pointers == kAbsolute) {
    fde.begin = cursor.Read<uint64_t>();
    bytes = cursor.Read<uint64_t>();
  } else {
    return Unknown("the encoding of addresses");
  }
  if (fde.cie.has_data) (void)cursor.Block(cursor.Unsigned());
  if (!cursor.ok()) return Unknown("an FDE that ends early");
  if (vaddr - fde.begin >= bytes) {
    return absl::NotFoundError("no function of the unwind information is there");
  }
  fde.program = std::string(cursor.left());
  return fde;
}

// The place of a register of the caller.
struct Rule {
  enum Kind { kSame, kAtOffset, kUndefined, kNotUnderstood } kind = kSame;
  int64_t offset = 0;  // from the CFA
};

struct Row {
  uint64_t cfa_register = kUnwindRegisters;
  int64_t cfa_offset = 0;
  absl::string_view cfa_expression;  // if not empty, replaces the two above
  std::array<Rule, kUnwindRegisters> rules;
};

// Runs the program of a record up to one address.
class Program {
 public:
  Program(const Cie& cie, uint64_t begin, uint64_t until)
      : cie_(cie), at_(begin), until_(until) {}

  absl::Status Run(absl::string_view program) {
    Cursor cursor(program);
    while (!cursor.empty() && at_ <= until_) {
      RETURN_IF_ERROR(Step(&cursor));
      if (!cursor.ok()) return Unknown("instructions that end early");
    }
    return absl::OkStatus();
  }
  // Saves the state before the function's own instructions.
  void KeepInitial() { initial_ = row_; }
  const Row& row() const { return row_; }

 private:
  absl::Status Step(Cursor* cursor);
  absl::Status StepExtended(uint8_t code, Cursor* cursor);
  // Execute an instruction that defines the CFA, or the place of one register. False
  // for all others, whose operands are not consumed.
  bool DefineCfa(uint8_t code, Cursor* cursor);
  bool DefineRule(uint8_t code, Cursor* cursor);
  void Set(uint64_t which, Rule rule) {
    if (which < kUnwindRegisters) row_.rules[which] = rule;
  }
  void Restore(uint64_t which) {
    if (which < kUnwindRegisters) row_.rules[which] = initial_.rules[which];
  }
  // Run ends past `until_`: the instructions after it do not apply there.
  void Advance(uint64_t units) { at_ += units * cie_.code_unit; }
  Rule AtOffset(int64_t units) const {
    return {Rule::kAtOffset,
            static_cast<int64_t>(static_cast<uint64_t>(units) *
                                 static_cast<uint64_t>(cie_.data_unit))};
  }

  const Cie& cie_;
  uint64_t at_;
  const uint64_t until_;
  Row row_, initial_;
  std::vector<Row> saved_;
};

absl::Status Program::Step(Cursor* cursor) {
  const uint8_t code = cursor->Read<uint8_t>();
  const uint8_t operand = code & 0x3f;
  switch (code >> 6) {
    case 1:  // DW_CFA_advance_loc
      Advance(operand);
      return absl::OkStatus();
    case 2:  // DW_CFA_offset
      Set(operand, AtOffset(static_cast<int64_t>(cursor->Unsigned())));
      return absl::OkStatus();
    case 3:  // DW_CFA_restore
      Restore(operand);
      return absl::OkStatus();
    default:
      return StepExtended(code, cursor);
  }
}

absl::Status Program::StepExtended(uint8_t code, Cursor* cursor) {
  switch (code) {
    case 0x00:  // DW_CFA_nop
      break;
    case 0x02:  // DW_CFA_advance_loc1
      Advance(cursor->Read<uint8_t>());
      break;
    case 0x03:  // DW_CFA_advance_loc2
      Advance(cursor->Read<uint16_t>());
      break;
    case 0x04:  // DW_CFA_advance_loc4
      Advance(cursor->Read<uint32_t>());
      break;
    case 0x0a:  // DW_CFA_remember_state
      if (saved_.size() >= kMaxSaved) return Unknown("too many remembered states");
      saved_.push_back(row_);
      break;
    case 0x0b:  // DW_CFA_restore_state
      if (saved_.empty()) return Unknown("no remembered state");
      row_ = saved_.back();
      saved_.pop_back();
      break;
    case 0x2e:  // DW_CFA_GNU_args_size
      (void)cursor->Unsigned();
      break;
    default:
      if (DefineCfa(code, cursor) || DefineRule(code, cursor)) break;
      return Unknown(absl::StrCat("instruction ", absl::Hex(code)));
  }
  return absl::OkStatus();
}

bool Program::DefineCfa(uint8_t code, Cursor* cursor) {
  switch (code) {
    case 0x0c:  // DW_CFA_def_cfa
      row_.cfa_expression = {};
      row_.cfa_register = cursor->Unsigned();
      row_.cfa_offset = static_cast<int64_t>(cursor->Unsigned());
      return true;
    case 0x0d:  // DW_CFA_def_cfa_register
      row_.cfa_register = cursor->Unsigned();
      return true;
    case 0x0e:  // DW_CFA_def_cfa_offset
      row_.cfa_offset = static_cast<int64_t>(cursor->Unsigned());
      return true;
    case 0x0f:  // DW_CFA_def_cfa_expression
      row_.cfa_expression = cursor->Block(cursor->Unsigned());
      return true;
    case 0x12:  // DW_CFA_def_cfa_sf
      row_.cfa_expression = {};
      row_.cfa_register = cursor->Unsigned();
      row_.cfa_offset = AtOffset(cursor->Signed()).offset;
      return true;
    case 0x13:  // DW_CFA_def_cfa_offset_sf
      row_.cfa_offset = AtOffset(cursor->Signed()).offset;
      return true;
    default:
      return false;
  }
}

bool Program::DefineRule(uint8_t code, Cursor* cursor) {
  switch (code) {
    case 0x05: {  // DW_CFA_offset_extended
      const uint64_t which = cursor->Unsigned();
      Set(which, AtOffset(static_cast<int64_t>(cursor->Unsigned())));
      return true;
    }
    case 0x06:  // DW_CFA_restore_extended
      Restore(cursor->Unsigned());
      return true;
    case 0x07:  // DW_CFA_undefined
      Set(cursor->Unsigned(), {Rule::kUndefined, 0});
      return true;
    case 0x08:  // DW_CFA_same_value
      Set(cursor->Unsigned(), {Rule::kSame, 0});
      return true;
    case 0x09:  // DW_CFA_register
      Set(cursor->Unsigned(), {Rule::kNotUnderstood, 0});
      (void)cursor->Unsigned();
      return true;
    case 0x10:  // DW_CFA_expression
    case 0x16:  // DW_CFA_val_expression
      Set(cursor->Unsigned(), {Rule::kNotUnderstood, 0});
      (void)cursor->Block(cursor->Unsigned());
      return true;
    case 0x11: {  // DW_CFA_offset_extended_sf
      const uint64_t which = cursor->Unsigned();
      Set(which, AtOffset(cursor->Signed()));
      return true;
    }
    default:
      return false;
  }
}

// Supports only the kind that compilers emit for functions that align their stack: a
// register with an offset, dereferenced.
absl::StatusOr<uint64_t> Evaluate(absl::string_view expression,
                                  const UnwindRegisters& frame, ReadWord read) {
  Cursor cursor(expression);
  std::vector<uint64_t> stack;
  while (!cursor.empty()) {
    const uint8_t code = cursor.Read<uint8_t>();
    if (code >= 0x70 && code <= 0x8f) {  // DW_OP_breg
      const size_t which = code - 0x70u;
      const uint64_t offset = static_cast<uint64_t>(cursor.Signed());
      if (which >= kUnwindRegisters || !frame[which] || stack.size() >= kMaxOperands) {
        return Unknown("an expression with an unknown register");
      }
      stack.push_back(*frame[which] + offset);
    } else if (code == 0x06 && !stack.empty()) {  // DW_OP_deref
      std::optional<uint64_t> word = read(stack.back());
      if (!word) return Unknown("an expression that reads what is not there");
      stack.back() = *word;
    } else if (code == 0x23 && !stack.empty()) {  // DW_OP_plus_uconst
      stack.back() += cursor.Unsigned();
    } else {
      return Unknown(absl::StrCat("operation ", absl::Hex(code)));
    }
  }
  if (!cursor.ok() || stack.empty()) return Unknown("an expression without a value");
  return stack.back();
}

}  // namespace

absl::StatusOr<UnwindRegisters> UnwindFrame(const ElfImage& image, uint64_t vaddr,
                                            const UnwindRegisters& frame,
                                            ReadWord read) {
  ASSIGN_OR_RETURN(Fde fde, FindFde(image, vaddr));
  Program program(fde.cie, fde.begin, vaddr);
  RETURN_IF_ERROR(program.Run(fde.cie.program));
  program.KeepInitial();
  RETURN_IF_ERROR(program.Run(fde.program));
  const Row& row = program.row();

  uint64_t cfa;
  if (!row.cfa_expression.empty()) {
    ASSIGN_OR_RETURN(cfa, Evaluate(row.cfa_expression, frame, read));
  } else {
    if (row.cfa_register >= kUnwindRegisters || !frame[row.cfa_register]) {
      return Unknown("the frame depends on an unknown register");
    }
    cfa = *frame[row.cfa_register] + static_cast<uint64_t>(row.cfa_offset);
  }
  UnwindRegisters caller;
  for (size_t i = 0; i < kUnwindRegisters; ++i) {
    const Rule& rule = row.rules[i];
    if (rule.kind == Rule::kSame && i != kUnwindReturn) caller[i] = frame[i];
    if (rule.kind == Rule::kAtOffset) {
      caller[i] = read(cfa + static_cast<uint64_t>(rule.offset));
    }
  }
  if (row.rules[kUnwindReturn].kind != Rule::kUndefined && !caller[kUnwindReturn]) {
    return Unknown("the return address cannot be read");
  }
  caller[kUnwindRsp] = cfa;
  return caller;
}

}  // namespace rocattach
