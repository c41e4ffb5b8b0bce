// Element types of tensors, and the two 16-bit floating types that C++20 has no name for. Any thread.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace troupe {

// Numbers are on the wire: append only.
enum class DType : std::uint8_t {
  f16 = 0,
  bf16 = 1,
  f32 = 2,
  f64 = 3,
  i8 = 4,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  u8 = 8,
  u16 = 9,
  u32 = 10,
  u64 = 11,
  boolean = 12,  // one byte, 0 or 1
};
inline constexpr int kDTypes = 13;

const char* to_string(DType dtype);   // "f32"
std::size_t size_of(DType dtype);     // bytes of an element
bool is_floating(DType dtype);        // f16, bf16, f32, f64
bool is_dtype(std::uint8_t on_wire);  // whether the number names one

// IEEE 754 binary16. Rounds to nearest, ties to even; arithmetic is done in float.
struct float16 {
  std::uint16_t bits = 0;

  float16() = default;
  explicit float16(float value) : bits(round(value)) {}
  operator float() const;

 private:
  static std::uint16_t round(float value);
};

// The upper half of a float. Rounds to nearest, ties to even; arithmetic is done in float.
struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  explicit bfloat16(float value) : bits(round(value)) {}
  operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

 private:
  static std::uint16_t round(float value) {
    auto x = std::bit_cast<std::uint32_t>(value);
    if ((x & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((x >> 16) | 0x40u);
    return static_cast<std::uint16_t>((x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
  }
};

inline float16::operator float() const {
  std::uint32_t sign = (bits & 0x8000u) << 16, rest = (bits & 0x7fffu) << 13;
  if ((bits & 0x7c00u) == 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | rest);
  // The exponent's bias differs by 112; the multiplication makes subnormal numbers normal.
  float scaled = std::bit_cast<float>(rest) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
}

inline std::uint16_t float16::round(float value) {
  auto x = std::bit_cast<std::uint32_t>(value);
  auto sign = static_cast<std::uint16_t>((x >> 16) & 0x8000u);
  x &= 0x7fffffffu;
  if (x > 0x7f800000u) return sign | 0x7e00u;
  if (x >= 0x477ff000u) return sign | 0x7c00u;  // 65,520 and above
  if (x < 0x38800000u) {  // below 2^-14: the addition rounds at the last place of a half
    float shifted = std::bit_cast<float>(x) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  x += 0xfffu + ((x >> 13) & 1u) - (112u << 23);
  return static_cast<std::uint16_t>(sign | (x >> 13));
}

// The dtype of a C++ type.
template <class T>
concept Element = std::is_arithmetic_v<T> || std::same_as<T, float16> || std::same_as<T, bfloat16>;

template <Element T>
constexpr DType dtype_of() {
  if constexpr (std::same_as<T, float16>) {
    return DType::f16;
  } else if constexpr (std::same_as<T, bfloat16>) {
    return DType::bf16;
  } else if constexpr (std::same_as<T, bool>) {
    return DType::boolean;
  } else if constexpr (std::is_floating_point_v<T>) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "long double is no element of tensors");
    return sizeof(T) == 4 ? DType::f32 : DType::f64;
  } else {
    int first = static_cast<int>(std::is_signed_v<T> ? DType::i8 : DType::u8);
    return static_cast<DType>(first + std::countr_zero(sizeof(T)));
  }
}

}  // namespace troupe
