// Views, copies and lifetime of tensors, and the errors of wrong use.
#include "core/tensor/tensor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "core/tensor/tensor_error.h"

namespace troupe {
namespace {

Tensor counting(const Dims& shape) {
  std::vector<float> values(static_cast<std::size_t>(elements(shape)));
  std::iota(values.begin(), values.end(), 0.0f);
  return Tensor::from(std::move(values), shape);
}

// The message of the exception E that f throws.
template <class E, class F>
std::string thrown(F f) {
  try {
    f();
  } catch (const E& error) {
    bool device = std::is_same_v<E, WrongDevice>;
    EXPECT_EQ(error.kind(), device ? ErrorKind::wrong_device : ErrorKind::invalid_argument);
    return error.error().message;
  } catch (const std::exception& other) {
    ADD_FAILURE() << "another exception: " << other.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(Tensor, AccessByIndex) {
  Tensor t = counting({3, 4});
  auto v = t.view<float, 2>();
  EXPECT_EQ(v(2, 3), 11);
  v(1, 1) = 50;
  auto read = t.view<const float, 2>();
  EXPECT_EQ(read.at(1, 1), 50);
  EXPECT_EQ(read.extent(0), 3);
  EXPECT_EQ(read.stride(0), 4);
  EXPECT_THROW(read.at(3, 0), std::out_of_range);
  EXPECT_THROW(read.at(0, -1), std::out_of_range);
  EXPECT_EQ(t.describe(), "f32 [3, 4] on cpu");
  Tensor scalar = Tensor::from(std::vector<int>{7}, {});
  EXPECT_EQ((scalar.view<int, 0>()()), 7);
}

TEST(Tensor, ViewsShareMemoryAndKeepItAlive) {
  auto alive = std::make_shared<int>(1);
  std::weak_ptr<int> watch = alive;
  std::vector<float> memory(12);
  std::iota(memory.begin(), memory.end(), 0.0f);
  Tensor t = Tensor::over(std::span(memory), {3, 4}, std::move(alive));
  Tensor column = t.slice(1, 1, 2), turned = t.transpose(), odd = t.slice(1, 1, 4, 2), row = t.select(0, 2);
  t.reset();
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ((column.view<float, 2>()(2, 0)), 9);
  EXPECT_EQ((turned.view<float, 2>()(3, 1)), 7);
  EXPECT_EQ(odd.shape(), (Dims{3, 2}));
  EXPECT_EQ((odd.view<float, 2>()(1, 1)), 7);
  EXPECT_EQ(row.shape(), (Dims{4}));
  EXPECT_EQ((row.view<float, 1>()(3)), 11);
  column.reset(), turned.reset(), odd.reset();
  EXPECT_FALSE(watch.expired());
  row.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(Tensor, PackedCopiesOfAnyStrides) {
  Tensor t = counting({2, 3, 4});
  for (Tensor view :
       {t, t.transpose(0, 2), t.slice(2, 0, 4, 3), t.select(1, 1), t.transpose().slice(1, 1, 3)}) {
    Tensor packed = view.contiguous();
    EXPECT_TRUE(packed.is_contiguous());
    EXPECT_EQ(packed.shape(), view.shape());
    Tensor back = Tensor::zeros(DType::f32, view.shape());
    back.copy_from(packed);
    Tensor three = view.rank() == 3 ? view : view.reshape({view.size(0), 1, view.size(1)});
    auto a = three.view<float, 3>(), b = back.reshape(three.shape()).view<float, 3>();
    for (int i = 0; i < three.size(0); ++i)
      for (int j = 0; j < three.size(1); ++j)
        for (int k = 0; k < three.size(2); ++k) EXPECT_EQ(a(i, j, k), b(i, j, k));
  }
}

TEST(Tensor, CopyBetweenStridesForEveryElementSize) {
  for (int i = 0; i < kDTypes; ++i) {
    auto dtype = static_cast<DType>(i);
    Tensor a = Tensor::empty(dtype, {5, 7});
    auto* bytes = static_cast<unsigned char*>(a.data());
    for (std::size_t b = 0; b < a.nbytes(); ++b) bytes[b] = static_cast<unsigned char>(b % 2);
    Tensor b = Tensor::zeros(dtype, {7, 5});
    b.transpose().copy_from(a);
    Tensor again = b.transpose().contiguous();
    EXPECT_EQ(std::memcmp(again.data(), a.data(), a.nbytes()), 0) << to_string(dtype);
  }
}

TEST(Tensor, StridesOfZeroAndBelow) {
  float one = 3;
  Tensor same = Tensor::over(&one, DType::f32, {2, 3}, {0, 0}, Device::cpu(), nullptr);
  EXPECT_FALSE(same.is_contiguous());
  Tensor packed = same.contiguous();
  for (float value : packed.span<float>()) EXPECT_EQ(value, 3);
  std::vector<float> up = {0, 1, 2};
  Tensor down = Tensor::over(&up[2], DType::f32, {3}, {-1}, Device::cpu(), nullptr);
  packed = down.contiguous();
  EXPECT_EQ(packed.span<float>()[0], 2);
}

TEST(Tensor, Reshape) {
  Tensor t = counting({2, 6});
  Tensor flat = t.reshape({-1});
  EXPECT_EQ(flat.data(), t.data());
  EXPECT_EQ(flat.shape(), (Dims{12}));
  EXPECT_EQ(t.reshape({3, -1}).shape(), (Dims{3, 4}));
  Tensor copy = t.transpose().reshape({12});
  EXPECT_NE(copy.data(), t.data());
  EXPECT_EQ(copy.span<float>()[1], 6);
  EXPECT_NE(thrown<WrongShape>([&] { t.reshape({5, -1}); }).find("another number"), std::string::npos);
  EXPECT_THROW(t.reshape({-1, -1}), WrongShape);
}

TEST(Tensor, WithoutElements) {
  Tensor none = Tensor::empty(DType::f64, {0, 3});
  EXPECT_TRUE(none.defined() && none.is_contiguous());
  EXPECT_EQ(none.numel(), 0);
  EXPECT_EQ(none.nbytes(), 0u);
  EXPECT_EQ(none.span<double>().size(), 0u);
  EXPECT_EQ(none.transpose().shape(), (Dims{3, 0}));
  none.clone().copy_from(none);
  EXPECT_EQ(none.reshape({3, 0}).numel(), 0);
  EXPECT_EQ(counting({4}).slice(0, 4, 4).numel(), 0);
  EXPECT_EQ(Tensor::over(nullptr, DType::f32, {0}, {1}, Device::cpu(), nullptr).numel(), 0);
}

TEST(Tensor, WrongUseIsTypedAndSaysWhatToDo) {
  Tensor t = counting({3, 4}), none;
  EXPECT_NE(thrown<WrongDType>([&] { t.view<double, 2>(); }).find("f64"), std::string::npos);
  EXPECT_NE(thrown<WrongShape>([&] { t.view<float, 3>(); }).find("3 indices"), std::string::npos);
  EXPECT_NE(thrown<WrongShape>([&] { t.transpose().span<float>(); }).find("contiguous()"), std::string::npos);
  EXPECT_NE(thrown<UndefinedTensor>([&] { none.shape(); }).find("reset()"), std::string::npos);
  thrown<UndefinedTensor>([&] { none.view<float, 1>(); });
  thrown<UndefinedTensor>([&] { t.copy_from(none); });
  thrown<UndefinedTensor>([&] { none.clone(); });
  thrown<WrongShape>([&] { t.slice(0, 2, 4); });
  thrown<WrongShape>([&] { t.slice(0, -1, 2); });
  thrown<WrongShape>([&] { t.slice(0, 0, 2, 0); });
  thrown<WrongShape>([&] { t.slice(2, 0, 1); });
  thrown<WrongShape>([&] { t.select(1, 4); });
  thrown<WrongShape>([&] { t.copy_from(counting({4, 3})); });
  thrown<WrongDType>([&] { t.copy_from(Tensor::zeros(DType::f64, {3, 4})); });
  thrown<WrongShape>([&] { Tensor::from(std::vector<float>(5), {2, 3}); });
  thrown<WrongShape>([&] { Tensor::empty(DType::f32, {-1}); });
  thrown<WrongShape>([&] { Tensor::empty(DType::f32, {1ll << 40, 1ll << 40}); });
  thrown<WrongShape>([&] { Tensor::empty(DType::f64, {1ll << 60}); });
  thrown<WrongShape>([&] { Tensor::empty(DType::f32, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}); });
  thrown<UndefinedTensor>([&] { Tensor::over(nullptr, DType::f32, {1}, {1}, Device::cpu(), nullptr); });
  // Memory of a GPU: nothing here may read it.
  int elsewhere = 0;
  Tensor gpu = Tensor::over(&elsewhere, DType::f32, {1}, {1}, Device::cuda(1), nullptr);
  EXPECT_NE(thrown<WrongDevice>([&] { gpu.view<float, 1>(); }).find("cuda:1"), std::string::npos);
  thrown<WrongDevice>([&] { gpu.clone(); });
  thrown<WrongDevice>([&] { counting({1}).copy_from(gpu); });
}

}  // namespace
}  // namespace troupe
