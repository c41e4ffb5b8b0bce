#include "runtime/group/reduce_op.h"

#include <cstring>
#include <memory>
#include <type_traits>

namespace troupe {
namespace {

// Calls f with a value of the dtype's C++ type.
template <class F>
void with_type(DType dtype, F f) {
  switch (dtype) {
    case DType::f16:
      return f(float16());
    case DType::bf16:
      return f(bfloat16());
    case DType::f32:
      return f(float());
    case DType::f64:
      return f(double());
    case DType::i8:
      return f(std::int8_t());
    case DType::i16:
      return f(std::int16_t());
    case DType::i32:
      return f(std::int32_t());
    case DType::i64:
      return f(std::int64_t());
    case DType::u8:
    case DType::boolean:  // min and max only, of 0 and 1
      return f(std::uint8_t());
    case DType::u16:
      return f(std::uint16_t());
    case DType::u32:
      return f(std::uint32_t());
    case DType::u64:
      return f(std::uint64_t());
  }
}

template <class T>
constexpr bool is_short_float = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

// What an element is combined as: f32 for 16-bit floats, unsigned for integers (their overflow is defined).
template <class T>
using Wide = std::conditional_t<is_short_float<T>, float, T>;

template <class T>
T add(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  else
    return a + b;
}
template <class T>
T multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  else
    return a * b;
}

template <class Into, class From, class F>
void combine(Into* into, const From* from, std::size_t count, F f) {
  for (std::size_t i = 0; i < count; ++i)
    into[i] = static_cast<Into>(f(static_cast<Wide<Into>>(into[i]), static_cast<Wide<From>>(from[i])));
}

template <class Into, class From>
void reduce_typed(ReduceOp op, Into* into, const From* from, std::size_t count) {
  using W = Wide<Into>;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
      return combine(into, from, count, [](W a, W b) { return add(a, b); });
    case ReduceOp::product:
      return combine(into, from, count, [](W a, W b) { return multiply(a, b); });
    case ReduceOp::min:
      return combine(into, from, count, [](W a, W b) { return b < a ? b : a; });
    case ReduceOp::max:
      return combine(into, from, count, [](W a, W b) { return a < b ? b : a; });
  }
}

template <class T>
void divide_typed(T* into, std::size_t count, int ranks) {
  for (std::size_t i = 0; i < count; ++i)
    into[i] = static_cast<T>(static_cast<Wide<T>>(into[i]) / static_cast<Wide<T>>(ranks));
}

// In pieces, so that the wide sums stay in the cache and on the stack.
template <class T>
void reduce_blocks_short(ReduceOp op, T* out, const std::vector<const std::byte*>& blocks,
                         std::size_t count) {
  constexpr std::size_t kPiece = 1024;
  float sums[kPiece];
  for (std::size_t at = 0; at < count; at += kPiece) {
    std::size_t n = std::min(kPiece, count - at);
    auto piece = [&](std::size_t b) { return reinterpret_cast<const T*>(blocks[b]) + at; };
    for (std::size_t i = 0; i < n; ++i) sums[i] = piece(0)[i];
    for (std::size_t b = 1; b < blocks.size(); ++b) reduce_typed(op, sums, piece(b), n);
    if (op == ReduceOp::average) divide_typed(sums, n, static_cast<int>(blocks.size()));
    for (std::size_t i = 0; i < n; ++i) out[at + i] = T(sums[i]);
  }
}

}  // namespace

const char* to_string(ReduceOp op) {
  constexpr const char* kNames[kReduceOps] = {"sum", "product", "min", "max", "average"};
  auto i = static_cast<std::size_t>(op);
  return i < kReduceOps ? kNames[i] : "?";
}

bool is_defined(ReduceOp op, DType dtype) {
  if (dtype == DType::boolean) return op == ReduceOp::min || op == ReduceOp::max;
  return op != ReduceOp::average || is_floating(dtype);
}

void reduce_into(ReduceOp op, DType dtype, void* into, const void* from, std::size_t count) {
  with_type(dtype, [&](auto type) {
    using T = decltype(type);
    reduce_typed(op, static_cast<T*>(into), static_cast<const T*>(from), count);
  });
}

void divide(DType dtype, void* into, std::size_t count, int ranks) {
  with_type(dtype, [&](auto type) {
    using T = decltype(type);
    if constexpr (!std::is_integral_v<T>) divide_typed(static_cast<T*>(into), count, ranks);
  });
}

void reduce_blocks(ReduceOp op, DType dtype, void* out, const std::vector<const std::byte*>& blocks,
                   std::size_t count) {
  with_type(dtype, [&](auto type) {
    using T = decltype(type);
    auto* to = static_cast<T*>(out);
    if constexpr (is_short_float<T>) {
      reduce_blocks_short(op, to, blocks, count);
    } else {
      std::memcpy(to, blocks[0], count * sizeof(T));
      for (std::size_t b = 1; b < blocks.size(); ++b)
        reduce_typed(op, to, reinterpret_cast<const T*>(blocks[b]), count);
      if (op == ReduceOp::average) divide(dtype, out, count, static_cast<int>(blocks.size()));
    }
  });
}

}  // namespace troupe
