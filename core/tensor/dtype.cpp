#include "core/tensor/dtype.h"

namespace troupe {
namespace {

struct Row {
  const char* name;
  std::uint8_t size;
};
constexpr Row kRows[kDTypes] = {{"f16", 2}, {"bf16", 2}, {"f32", 4}, {"f64", 8}, {"i8", 1},
                                {"i16", 2}, {"i32", 4},  {"i64", 8}, {"u8", 1},  {"u16", 2},
                                {"u32", 4}, {"u64", 8},  {"bool", 1}};
static_assert(sizeof(bool) == 1);

}  // namespace

const char* to_string(DType dtype) {
  return is_dtype(static_cast<std::uint8_t>(dtype)) ? kRows[static_cast<int>(dtype)].name : "?";
}
std::size_t size_of(DType dtype) { return kRows[static_cast<int>(dtype)].size; }
bool is_floating(DType dtype) { return dtype <= DType::f64; }
bool is_dtype(std::uint8_t on_wire) { return on_wire < kDTypes; }

}  // namespace troupe
