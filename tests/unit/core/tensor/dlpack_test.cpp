// Ownership across DLPack is exact: each deleter runs once, and not before the last view is gone.
#include "core/tensor/dlpack.h"

#include <dlpack/dlpack.h>
#include <gtest/gtest.h>

#include "core/tensor/tensor_error.h"

namespace troupe {
namespace {

struct Foreign {
  DLManagedTensor managed{};
  float values[6] = {0, 1, 2, 3, 4, 5};
  std::int64_t shape[2] = {2, 3};
  std::int64_t strides[2] = {3, 1};
  int deleted = 0;

  Foreign() {
    managed.dl_tensor.data = values;
    managed.dl_tensor.device = {kDLCPU, 0};
    managed.dl_tensor.ndim = 2;
    managed.dl_tensor.dtype = {kDLFloat, 32, 1};
    managed.dl_tensor.shape = shape;
    managed.dl_tensor.strides = strides;
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* self) { ++static_cast<Foreign*>(self->manager_ctx)->deleted; };
  }
};

TEST(DLPack, ImportsAndDeletesOnce) {
  Foreign foreign;
  Tensor t = from_dlpack(&foreign.managed);
  EXPECT_EQ((t.view<float, 2>()(1, 2)), 5);
  EXPECT_EQ(t.data(), foreign.values);
  Tensor row = t.select(0, 1);
  t.reset();
  EXPECT_EQ(foreign.deleted, 0);
  row.reset();
  EXPECT_EQ(foreign.deleted, 1);
}

TEST(DLPack, CompactStridesAndByteOffset) {
  Foreign foreign;
  foreign.managed.dl_tensor.strides = nullptr;
  foreign.managed.dl_tensor.byte_offset = 4;
  foreign.shape[1] = 2;
  Tensor t = from_dlpack(&foreign.managed);
  EXPECT_EQ((t.view<float, 2>()(1, 1)), 4);
}

TEST(DLPack, ExportedAndImportedAgainAndAgain) {
  Foreign foreign;
  Tensor t = from_dlpack(&foreign.managed);
  DLManagedTensor* out = to_dlpack(t.transpose());
  EXPECT_EQ(out->dl_tensor.shape[0], 3);
  EXPECT_EQ(out->dl_tensor.strides[0], 1);
  Tensor again = from_dlpack(out);
  DLManagedTensor* second = to_dlpack(again);
  t.reset(), again.reset();
  EXPECT_EQ(foreign.deleted, 0);
  EXPECT_EQ(static_cast<float*>(second->dl_tensor.data)[5], 5);
  second->deleter(second);
  EXPECT_EQ(foreign.deleted, 1);
}

TEST(DLPack, EveryDTypeGoesAndComes) {
  for (std::uint8_t i = 0; i < kDTypes; ++i) {
    Tensor t = Tensor::zeros(static_cast<DType>(i), {2, 0, 3});
    Tensor back = from_dlpack(to_dlpack(t));
    EXPECT_EQ(back.dtype(), t.dtype());
    EXPECT_EQ(back.shape(), t.shape());
  }
  Tensor scalar = from_dlpack(to_dlpack(Tensor::from(std::vector<std::int64_t>{9}, {})));
  EXPECT_EQ((scalar.view<std::int64_t, 0>()()), 9);
}

TEST(DLPack, DevicesAreKept) {
  int elsewhere = 0;
  DLManagedTensor* out = to_dlpack(Tensor::over(&elsewhere, DType::f16, {1}, {1}, Device::cuda(3), nullptr));
  EXPECT_EQ(out->dl_tensor.device.device_type, kDLCUDA);
  EXPECT_EQ(out->dl_tensor.device.device_id, 3);
  EXPECT_EQ(from_dlpack(out).device(), Device::cuda(3));
}

TEST(DLPack, WhatIsRefusedStaysTheCallers) {
  EXPECT_THROW(from_dlpack(nullptr), UndefinedTensor);
  Foreign foreign;
  auto& t = foreign.managed.dl_tensor;
  t.dtype = {kDLComplex, 64, 1};
  EXPECT_THROW(from_dlpack(&foreign.managed), WrongDType);
  t.dtype = {kDLFloat, 32, 4};
  EXPECT_THROW(from_dlpack(&foreign.managed), WrongDType);
  t.dtype = {kDLFloat, 32, 1};
  t.device.device_type = kDLOpenCL;
  EXPECT_THROW(from_dlpack(&foreign.managed), WrongDevice);
  t.device.device_type = kDLCPU;
  t.ndim = -1;
  EXPECT_THROW(from_dlpack(&foreign.managed), WrongShape);
  t.ndim = 2;
  foreign.shape[0] = -2;
  EXPECT_THROW(from_dlpack(&foreign.managed), WrongShape);
  foreign.shape[0] = 2;
  t.data = nullptr;
  EXPECT_THROW(from_dlpack(&foreign.managed), UndefinedTensor);
  EXPECT_EQ(foreign.deleted, 0);
  EXPECT_THROW(to_dlpack(Tensor()), UndefinedTensor);
}

}  // namespace
}  // namespace troupe
