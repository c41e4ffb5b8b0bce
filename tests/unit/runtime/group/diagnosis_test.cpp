// What the records of several ranks show, for each kind of finding.
#include "runtime/group/diagnosis.h"

#include <gtest/gtest.h>

#include "tests/unit/runtime/group/world.h"

namespace troupe::test {
namespace {

using Kind = Finding::Kind;
constexpr std::int64_t kSecond = 1'000'000'000;

struct Call {
  OpKind kind;
  OpState state = OpState::done;
  std::uint64_t bytes = 16;
  DType dtype = DType::f32;
  int root = -1;
  ReduceOp op = ReduceOp::sum;
  int waiting_for = -1;
  std::int64_t age = kSecond;  // since it started
};

RankReport rank(int number, const std::vector<Call>& calls) {
  RankReport report;
  report.rank = number;
  report.taken_ns = (100 + number * 1000) * kSecond;  // every machine has a clock of its own
  std::uint64_t sequence = 0, id = 0;
  for (const Call& c : calls) {
    OpRecord r;
    r.id = ++id;
    r.sequence = is_collective(c.kind) ? ++sequence : 1;
    r.kind = c.kind;
    r.state = c.state;
    r.bytes = c.bytes;
    r.dtype = c.dtype;
    r.root = c.root;
    r.op = c.op;
    r.waiting_for = c.waiting_for;
    if (c.state != OpState::enqueued) r.started_ns = report.taken_ns - c.age;
    report.records.push_back(r);
  }
  return report;
}

const Call kDone{OpKind::all_reduce};
const Call kOpen{OpKind::all_reduce, OpState::failed};

struct Expected {
  Kind kind;
  std::vector<int> ranks;
  std::vector<std::string> words;
};

void expect(std::vector<RankReport> reports, const Expected& expected, int size = 3) {
  auto finding = diagnose(reports, size);
  ASSERT_TRUE(finding);
  EXPECT_EQ(to_string(finding->kind), std::string(to_string(expected.kind))) << finding->text;
  EXPECT_EQ(finding->ranks, expected.ranks) << finding->text;
  for (const std::string& word : expected.words) EXPECT_TRUE(contains(finding->text, word)) << finding->text;
}

TEST(Diagnosis, NothingToSay) {
  EXPECT_FALSE(diagnose({}, 3));
  EXPECT_FALSE(diagnose({rank(0, {kDone, kOpen})}, 3));
  EXPECT_FALSE(diagnose({rank(0, {kDone}), rank(1, {kDone}), rank(2, {kDone})}, 3));
  EXPECT_FALSE(diagnose({rank(0, {kOpen}), rank(1, {kOpen}), rank(2, {kOpen})}, 3));
}

TEST(Diagnosis, DeadAndUnreachable) {
  RankReport dead, away;
  dead.rank = 2, dead.state = RankReport::State::dead, dead.note = "killed by signal 9";
  away.rank = 1, away.state = RankReport::State::unreachable;
  expect({rank(0, {kOpen}), dead, away}, {Kind::dead, {2}, {"rank 2 ended", "signal 9"}});
  expect({rank(0, {kOpen}), rank(2, {kOpen}), away}, {Kind::partitioned, {1}, {"rank 1 cannot be reached"}});
}

TEST(Diagnosis, MissingCall) {
  expect({rank(0, {kDone, kOpen}), rank(1, {kDone}), rank(2, {kDone, kOpen})},
         {Kind::missing_call, {1}, {"rank 1 did not call all_reduce #2"}});
  expect({rank(0, {kOpen}), rank(1, {}), rank(2, {})}, {Kind::missing_call, {1, 2}, {"ranks 1, 2"}});
}

TEST(Diagnosis, WrongCalls) {
  Call other{OpKind::barrier, OpState::failed}, max = kOpen, wide = kOpen, large = kOpen,
                                                rooted{OpKind::broadcast, OpState::failed, 16, DType::f32, 0},
                                                rooted1 = rooted;
  max.op = ReduceOp::max, wide.dtype = DType::f64, large.bytes = 32, rooted1.root = 1;
  expect({rank(0, {kDone, kOpen}), rank(1, {kDone, kOpen}), rank(2, {kDone, other})},
         {Kind::wrong_op, {2}, {"rank 2 called barrier #2", "all_reduce #2"}});
  expect({rank(0, {max}), rank(1, {kOpen}), rank(2, {kOpen})}, {Kind::wrong_op, {0}, {"max"}});
  expect({rank(0, {rooted}), rank(1, {rooted1}), rank(2, {rooted})}, {Kind::wrong_op, {1}, {"root 1"}});
  expect({rank(0, {kOpen}), rank(1, {wide}), rank(2, {kOpen})}, {Kind::wrong_dtype, {1}, {"f64"}});
  expect({rank(0, {kOpen}), rank(1, {large}), rank(2, {kOpen})}, {Kind::wrong_size, {1}, {"32 bytes"}});
  // Of two, the first is taken to be right.
  expect({rank(0, {kOpen}), rank(1, {large})}, {Kind::wrong_size, {1}, {}}, 2);
  // Sizes that may differ.
  Call gather{OpKind::all_gather, OpState::failed}, more = gather;
  more.bytes = 64;
  EXPECT_FALSE(diagnose({rank(0, {gather}), rank(1, {more}), rank(2, {gather})}, 3));
}

TEST(Diagnosis, SwappedOrder) {
  Call first{OpKind::all_reduce, OpState::failed, 16}, second{OpKind::all_reduce, OpState::enqueued, 64};
  Call second_first = second, first_second = first;
  second_first.state = OpState::failed, first_second.state = OpState::enqueued;
  expect({rank(0, {first, second}), rank(1, {second_first, first_second}), rank(2, {first, second})},
         {Kind::swapped_order, {1}, {"swapped"}});
}

TEST(Diagnosis, SlowAndPartitionedInside) {
  Call early = kOpen, late = kOpen;
  early.age = 10 * kSecond, late.age = 2 * kSecond;
  expect({rank(0, {early}), rank(1, {late}), rank(2, {early})}, {Kind::slow, {1}, {"8.000 s after rank 0"}});
  Call running{OpKind::all_reduce, OpState::started};
  expect({rank(0, {kDone, kOpen}), rank(1, {running, {OpKind::all_reduce, OpState::enqueued}}),
          rank(2, {kDone, kOpen})},
         {Kind::slow, {1}, {"rank 1 is still in all_reduce #1"}});
  Call a = kOpen, b = kOpen;
  a.waiting_for = 2, b.waiting_for = 0;
  expect({rank(0, {a}), rank(1, {kOpen}), rank(2, {b})},
         {Kind::partitioned, {0, 2}, {"wait for each other"}});
}

TEST(Diagnosis, Messages) {
  Call send{OpKind::send, OpState::failed, 16, DType::f32, 1},
      recv{OpKind::recv, OpState::started, 16, DType::f32, 0}, larger = recv;
  larger.bytes = 32;
  expect({rank(0, {send}), rank(1, {kDone}), rank(2, {})},
         {Kind::missing_call, {1}, {"rank 1 did not call recv #1"}});
  expect({rank(0, {send}), rank(1, {larger})}, {Kind::wrong_size, {0, 1}, {"32 bytes"}}, 2);
  // A collective in which a message's rank cannot be yet.
  expect({rank(0, {send, {OpKind::all_reduce, OpState::enqueued}}), rank(1, {kOpen}), rank(2, {kOpen})},
         {Kind::missing_call, {1}, {"recv"}});
}

}  // namespace
}  // namespace troupe::test
