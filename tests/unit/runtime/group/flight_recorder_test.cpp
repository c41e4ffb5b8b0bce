// The ring of records, its text and bytes, and what a record costs.
#include "runtime/group/flight_recorder.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "core/base/clock.h"
#include "tests/unit/runtime/group/world.h"

namespace troupe::test {
namespace {

OpRecord record(OpKind kind, std::uint64_t sequence, std::uint64_t bytes = 16) {
  OpRecord r;
  r.kind = kind;
  r.sequence = sequence;
  r.bytes = bytes;
  return r;
}

TEST(FlightRecorder, KeepsTheLastOnes) {
  FlightRecorder recorder(3);
  EXPECT_TRUE(recorder.report().records.empty());
  for (std::uint64_t i = 0; i < 3000; ++i) {
    std::uint64_t id = recorder.enqueue(record(OpKind::all_reduce, i));
    recorder.start(id);
    recorder.finish(id, i % 2 == 0, i % 2 == 0 ? -1 : 5);
  }
  recorder.finish(1, true);  // its record is gone
  RankReport report = recorder.report();
  EXPECT_EQ(report.rank, 3);
  ASSERT_EQ(report.records.size(), FlightRecorder::kKept);
  EXPECT_EQ(report.records.front().id, 3000 - FlightRecorder::kKept + 1);
  EXPECT_EQ(report.records.back().sequence, 2999u);
  EXPECT_EQ(report.records.back().state, OpState::failed);
  EXPECT_EQ(report.records.back().waiting_for, 5);
  EXPECT_LE(report.records.back().started_ns, report.records.back().done_ns);
}

TEST(FlightRecorder, TextAndBytes) {
  FlightRecorder recorder(0);
  std::uint64_t id = recorder.enqueue(record(OpKind::all_reduce, 12, 4096));
  recorder.start(id);
  OpRecord message = record(OpKind::send, 1);
  message.root = 2;
  recorder.enqueue(message);
  RankReport report = recorder.report();
  std::string text = to_text(report);
  EXPECT_TRUE(contains(text, "all_reduce #12 sum f32 4096 bytes, started")) << text;
  EXPECT_TRUE(contains(text, "send #1 to rank 2 f32 16 bytes, enqueued")) << text;
  EXPECT_FALSE(contains(to_text(report, 1), "all_reduce"));
  std::string bytes = encode_report(report);
  auto back = decode_report(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(to_text(*back), text);
  for (std::size_t cut = 0; cut < bytes.size(); cut += 7) EXPECT_FALSE(decode_report(bytes.substr(0, cut)));
}

TEST(FlightRecorder, Cost) {
  FlightRecorder recorder(0);
  OpRecord r = record(OpKind::all_reduce, 1);
  constexpr int kRounds = 200'000;
  std::int64_t start = steady_ns();
  for (int i = 0; i < kRounds; ++i) {
    std::uint64_t id = recorder.enqueue(r);
    recorder.start(id);
    recorder.finish(id, true);
  }
  std::printf("flight recorder: %.3f us an operation\n",
              static_cast<double>(steady_ns() - start) / 1e3 / kRounds);
  EXPECT_EQ(recorder.report().records.back().id, static_cast<std::uint64_t>(kRounds));
}

}  // namespace
}  // namespace troupe::test
