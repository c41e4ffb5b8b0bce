// Tensors inside messages, also inside of users' types, and messages that lie.
#include "core/tensor/tensor_codec.h"

#include <gtest/gtest.h>

#include "core/tensor/tensor_error.h"

namespace troupe {
namespace {

struct Batch {
  std::string name;
  std::vector<Tensor> tensors;
};

template <class T>
T round_trip(const T& value) {
  Writer to;
  encode(to, value);
  Reader from(to.bytes());
  T out;
  decode(from, out);
  EXPECT_EQ(from.remaining(), 0u);
  return out;
}

TEST(TensorCodec, ViewsArriveWithTheirElements) {
  Tensor t = Tensor::from(std::vector<float>{0, 1, 2, 3, 4, 5}, {2, 3});
  Tensor same = round_trip(t);
  EXPECT_EQ((same.view<float, 2>()(1, 2)), 5);
  EXPECT_NE(same.data(), t.data());
  Tensor turned = round_trip(t.transpose());
  EXPECT_TRUE(turned.is_contiguous());
  EXPECT_EQ(turned.shape(), (Dims{3, 2}));
  EXPECT_EQ((turned.view<float, 2>()(2, 0)), 2);
  EXPECT_FALSE(round_trip(Tensor()).defined());
  EXPECT_EQ(round_trip(Tensor::empty(DType::u8, {0, 4})).shape(), (Dims{0, 4}));
}

TEST(TensorCodec, InsideOfAnAggregate) {
  Batch batch{"b", {Tensor::from(std::vector<std::int64_t>{4, 5}), Tensor()}};
  Batch out = round_trip(batch);
  ASSERT_EQ(out.tensors.size(), 2u);
  EXPECT_EQ((out.tensors[0].view<std::int64_t, 1>()(1)), 5);
  EXPECT_FALSE(out.tensors[1].defined());
}

TEST(TensorCodec, ATensorOfAGpuIsAttachedAndNotCopied) {
  float elsewhere[6] = {};
  auto owner = std::make_shared<int>(1);
  Tensor tensor = Tensor::over(elsewhere, DType::f32, {3, 2}, {1, 3}, Device::cuda(1), owner);
  Writer to;
  encode(to, Batch{"b", {tensor, Tensor(), tensor.select(0, 1)}});
  tensor.reset();
  EXPECT_GT(owner.use_count(), 1) << "the message keeps its memory";
  auto attachments = to.take_attachments();
  ASSERT_TRUE(attachments);
  Batch out;
  {
    Reader from(to.bytes(), attachments.get());
    decode(from, out);
    EXPECT_EQ(from.remaining(), 0u);
  }
  ASSERT_EQ(out.tensors.size(), 3u);
  EXPECT_EQ(out.tensors[0].data(), elsewhere);
  EXPECT_EQ(out.tensors[0].device(), Device::cuda(1));
  EXPECT_EQ(out.tensors[0].strides(), (Dims{1, 3}));
  EXPECT_EQ(out.tensors[2].data(), elsewhere + 1);
  attachments.reset();
  out = {};
  EXPECT_EQ(owner.use_count(), 1);
  Reader without(to.bytes());
  EXPECT_THROW(decode(without, out), DecodeError);
}

TEST(TensorCodec, MessagesThatLie) {
  Writer to;
  encode(to, Tensor::from(std::vector<float>{0, 1, 2, 3, 4, 5}, {2, 3}));
  std::vector<std::byte> good(to.bytes().begin(), to.bytes().end());
  for (std::size_t cut = 0; cut < good.size(); ++cut) {
    Reader from{std::span<const std::byte>(good).first(cut)};
    Tensor out;
    EXPECT_THROW(decode(from, out), DecodeError) << cut;
  }
  auto refuse = [&](std::size_t at, int value) {
    auto bad = good;
    bad[at] = static_cast<std::byte>(value);
    Reader from{std::span<const std::byte>(bad)};
    Tensor out;
    EXPECT_THROW(decode(from, out), DecodeError) << at;
  };
  refuse(0, 9);        // form
  refuse(1, kDTypes);  // dtype
  refuse(2, 200);      // rank
  refuse(3, 77);       // first size
  refuse(10, 0x7f);    // first size, huge
  refuse(10, 0x80);    // first size, negative
}

}  // namespace
}  // namespace troupe
