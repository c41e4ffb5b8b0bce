// The 16-bit types against arithmetic in double, for every bit pattern.
#include "core/tensor/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace troupe {
namespace {

double half_value(std::uint16_t bits) {
  int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  double value = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

bool is_nan(std::uint16_t bits) { return (bits & 0x7c00) == 0x7c00 && (bits & 0x3ff) != 0; }

TEST(DType, EveryHalfBecomesItsFloatAndComesBack) {
  for (unsigned i = 0; i < 65536; ++i) {
    auto bits = static_cast<std::uint16_t>(i);
    float16 half;
    half.bits = bits;
    float value = half;
    if (is_nan(bits)) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_TRUE(is_nan(float16(value).bits));
      continue;
    }
    if ((bits & 0x7c00) == 0x7c00) {
      EXPECT_TRUE(std::isinf(value));
    } else {
      EXPECT_EQ(static_cast<double>(value), half_value(bits));
    }
    ASSERT_EQ(float16(value).bits, bits) << i;
  }
}

TEST(DType, HalvesRoundToTheNearestAndToEvenBetween) {
  for (unsigned i = 0; i < 0x7bff; ++i) {
    auto low = static_cast<std::uint16_t>(i), high = static_cast<std::uint16_t>(i + 1);
    double middle = (half_value(low) + half_value(high)) / 2;
    auto tie = static_cast<float>(middle);
    ASSERT_EQ(float16(tie).bits, i % 2 == 0 ? low : high) << i;
    ASSERT_EQ(float16(std::nextafter(tie, 0.0f)).bits, low) << i;
    ASSERT_EQ(float16(std::nextafter(tie, 1e9f)).bits, high) << i;
  }
  EXPECT_EQ(float16(65519.0f).bits, 0x7bff);
  EXPECT_EQ(float16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(float16(-1e30f).bits, 0xfc00);
}

TEST(DType, EveryBfloat16ComesBackAndTiesGoToEven) {
  for (unsigned i = 0; i < 65536; ++i) {
    bfloat16 value;
    value.bits = static_cast<std::uint16_t>(i);
    if (std::isnan(static_cast<float>(value))) {
      EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(static_cast<float>(value)))));
      continue;
    }
    ASSERT_EQ(bfloat16(static_cast<float>(value)).bits, i);
  }
  EXPECT_EQ(bfloat16(std::bit_cast<float>(0x3f808000u)).bits, 0x3f80);
  EXPECT_EQ(bfloat16(std::bit_cast<float>(0x3f818000u)).bits, 0x3f82);
  EXPECT_EQ(bfloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
}

TEST(DType, TypesHaveTheirDType) {
  static_assert(dtype_of<float16>() == DType::f16 && dtype_of<bfloat16>() == DType::bf16);
  static_assert(dtype_of<float>() == DType::f32 && dtype_of<double>() == DType::f64);
  static_assert(dtype_of<std::int8_t>() == DType::i8 && dtype_of<std::int64_t>() == DType::i64);
  static_assert(dtype_of<std::uint16_t>() == DType::u16 && dtype_of<std::uint32_t>() == DType::u32);
  static_assert(dtype_of<long long>() == DType::i64 && dtype_of<bool>() == DType::boolean);
  for (std::uint8_t i = 0; i < kDTypes; ++i) {
    EXPECT_TRUE(is_dtype(i));
    EXPECT_STRNE(to_string(static_cast<DType>(i)), "?");
  }
  EXPECT_FALSE(is_dtype(kDTypes));
}

}  // namespace
}  // namespace troupe
