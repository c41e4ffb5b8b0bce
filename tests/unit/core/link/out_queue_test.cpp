#include "core/link/out_queue.h"

#include <gtest/gtest.h>

#include "core/link/frame_header.h"

namespace troupe {
namespace {

TEST(OutQueueTest, AFrameTooLargeForTheEmptyChunkComesToTheFront) {
  OutQueue queue;
  for (std::size_t size : {std::size_t{64}, OutQueue::kChunk * 3, std::size_t{8}, OutQueue::kChunk - 8}) {
    std::byte* at = queue.push(size);
    ASSERT_NE(at, nullptr);
    EXPECT_EQ(queue.bytes(), kFrameHeader + size);
    ASSERT_EQ(queue.front().size(), kFrameHeader + size);
    EXPECT_EQ(queue.front().data() + kFrameHeader, at);
    EXPECT_EQ(load_header(queue.front().data()).length, size);
    queue.pop(kFrameHeader);
    queue.pop(size);
    EXPECT_TRUE(queue.empty());
  }
}

TEST(OutQueueTest, GathersChunksInOrder) {
  OutQueue queue;
  for (std::size_t i = 0; i < 10; ++i) *queue.push(40'000) = static_cast<std::byte>(i);
  iovec parts[16];
  ASSERT_EQ(queue.gather(parts, 16), 10u);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(static_cast<std::byte*>(parts[i].iov_base)[kFrameHeader], static_cast<std::byte>(i));
  }
  EXPECT_EQ(queue.gather(parts, 3), 3u);
  queue.pop(queue.bytes() - 8);
  EXPECT_EQ(queue.front().size(), 8u);
}

}  // namespace
}  // namespace troupe
