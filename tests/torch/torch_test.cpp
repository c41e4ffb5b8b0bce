// Tensors that libtorch and Troupe share.
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <troupe/torch.h>

#include "core/tensor/tensor_error.h"

namespace troupe::test {
namespace {

TEST(Torch, SharesMemoryBothWays) {
  Tensor ours = Tensor::zeros(DType::f32, {2, 3});
  at::Tensor theirs = to_torch(ours);
  theirs[1][2] = 5;
  EXPECT_EQ((ours.view<float, 2>()(1, 2)), 5);
  Tensor back = from_torch(theirs);
  EXPECT_EQ(back.data(), ours.data());
  back.view<float, 2>()(0, 0) = 7;
  EXPECT_EQ(theirs[0][0].item<float>(), 7);
}

TEST(Torch, TheMemoryLivesAsLongAsOneOfThem) {
  at::Tensor theirs;
  {
    Tensor ours = Tensor::from(std::vector<std::int64_t>(100'000, 3));
    theirs = to_torch(ours);
  }
  EXPECT_EQ(theirs.sum().item<std::int64_t>(), 300'000);
  Tensor ours;
  {
    auto made = torch::full({100'000}, 2.0, at::kDouble);
    ours = from_torch(made);
  }
  EXPECT_EQ(ours.span<double>()[99'999], 2.0);
}

TEST(Torch, ViewsKeepTheirStrides) {
  auto theirs = torch::arange(12, at::kInt).reshape({3, 4}).t().slice(0, 1, 4, 2);
  Tensor ours = from_torch(theirs);
  auto view = ours.view<std::int32_t, 2>();
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j) EXPECT_EQ(view(i, j), theirs[i][j].item<int>());
  auto back = to_torch(ours.transpose());
  EXPECT_TRUE(back.equal(theirs.t()));
}

TEST(Torch, EveryCommonType) {
  for (int d = 0; d < kDTypes; ++d) {
    auto dtype = static_cast<DType>(d);
    Tensor ours = Tensor::zeros(dtype, {3});
    if (dtype == DType::u16 || dtype == DType::u32 || dtype == DType::u64) {
      EXPECT_THROW(to_torch(ours), WrongDType);
    } else {
      EXPECT_EQ(from_torch(to_torch(ours)).dtype(), dtype);
      EXPECT_EQ(from_torch(to_torch(Tensor::zeros(dtype, {0, 4}))).shape(), (Dims{0, 4}));
    }
  }
}

TEST(Torch, WhatCannotBeSharedIsRefused) {
  EXPECT_THROW(to_torch(Tensor()), UndefinedTensor);
  EXPECT_THROW(from_torch(at::Tensor()), UndefinedTensor);
  EXPECT_THROW(from_torch(torch::zeros({2}, at::kComplexFloat)), WrongDType);
  EXPECT_THROW(from_torch(torch::eye(3).to_sparse()), WrongShape);
}

TEST(Torch, OfAParameterWithGradient) {
  auto parameter = torch::ones({4}, at::requires_grad());
  (parameter * 3).sum().backward();
  EXPECT_EQ(from_torch(parameter.grad()).span<float>()[3], 3);
  from_torch(parameter).span<float>()[0] = 9;
  EXPECT_EQ(parameter[0].item<float>(), 9);
}

}  // namespace
}  // namespace troupe::test
