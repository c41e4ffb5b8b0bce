// What runs, what is repeated, what is written next: the pure core.
#include "runtime/durable/core.h"

#include <gtest/gtest.h>

#include <string>

namespace troupe {
namespace {

using Verdict = DurableCore::Admission::Verdict;

Bytes bytes(const std::string& text) {
  auto raw = std::as_bytes(std::span(text));
  return Bytes(raw.begin(), raw.end());
}

RememberedPtr answer(const std::string& text) {
  auto out = std::make_shared<Remembered>();
  out->value = bytes(text);
  return out;
}

RememberedPtr failure(const std::string& text) {
  auto out = std::make_shared<Remembered>();
  out->error = std::make_unique<const Error>(ErrorKind::actor_error, text);
  return out;
}

std::string text(const RememberedPtr& answer) {
  if (answer->error) return "!" + answer->error->message;
  return std::string(reinterpret_cast<const char*>(answer->value.data()), answer->value.size());
}

// A call that runs: its record is journalled and its answer remembered.
std::uint64_t run(DurableCore& core, std::uint64_t caller, std::uint64_t sequence, std::uint64_t floor) {
  EXPECT_EQ(core.admit(caller, sequence, floor).verdict, Verdict::run);
  auto args = bytes("a" + std::to_string(sequence));
  auto position = core.journal({caller, sequence, floor, 3, false, args});
  core.remember(caller, sequence, answer("r" + std::to_string(sequence)));
  return position;
}

DurableCore::Append append_of(DurableCore& core) {
  auto next = core.next();
  EXPECT_TRUE(next && std::holds_alternative<DurableCore::Append>(*next));
  return std::get<DurableCore::Append>(std::move(*next));
}

TEST(DurableCore, ACallThatComesAgainGetsItsAnswer) {
  DurableCore core{Durability()};
  for (std::uint64_t n : {10, 12, 17}) run(core, 1, n, 10);
  for (std::uint64_t n : {10, 12, 17}) {
    auto again = core.admit(1, n, 10);
    ASSERT_EQ(again.verdict, Verdict::repeat);
    EXPECT_EQ(text(again.answer), "r" + std::to_string(n));
  }
  EXPECT_EQ(core.admit(1, 11, 10).verdict, Verdict::run);  // another that was never seen
  EXPECT_EQ(core.admit(2, 10, 10).verdict, Verdict::run);  // another caller's
}

TEST(DurableCore, WhatItsCallerHasIsForgotten) {
  DurableCore core{Durability()};
  for (std::uint64_t n = 1; n <= 1000; ++n) run(core, 1, n, n > 100 ? n - 100 : 1);
  EXPECT_LE(core.remembered(), 101u);
  EXPECT_EQ(core.admit(1, 899, 1).verdict, Verdict::stale);  // below the floor: it must not run again
  EXPECT_EQ(core.admit(1, 900, 1).verdict, Verdict::repeat);
  EXPECT_EQ(core.admit(1, 2000, 2000).verdict, Verdict::run);
  EXPECT_EQ(core.remembered(), 0u);
  EXPECT_EQ(core.remembered_bytes(), 0u);
}

TEST(DurableCore, CallersAreBounded) {
  DurableCore core{Durability()};
  for (std::uint64_t caller = 1; caller <= DurableCore::kMostCallers + 10; ++caller) run(core, caller, 1, 1);
  EXPECT_EQ(core.remembered(), DurableCore::kMostCallers);
  EXPECT_EQ(core.admit(DurableCore::kMostCallers + 10, 1, 1).verdict, Verdict::repeat);
}

TEST(DurableCore, OneWriteAtATime) {
  DurableCore core{Durability()};
  EXPECT_FALSE(core.next());
  run(core, 1, 1, 1);
  run(core, 1, 2, 1);
  auto first = append_of(core);
  EXPECT_EQ(first.last, 2u);
  run(core, 1, 3, 1);
  EXPECT_FALSE(core.next());
  EXPECT_EQ(core.durable(), 0u);
  core.appended(2);
  EXPECT_EQ(core.durable(), 2u);
  auto second = append_of(core);
  EXPECT_EQ(second.last, 3u);
  auto view = read_block(second.block);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->first, 3u);
  EXPECT_EQ(view->count, 1u);
}

TEST(DurableCore, ASnapshotComesAfterTheCallsItCovers) {
  Durability plan;
  plan.snapshot_calls = 3;
  DurableCore core(plan);
  run(core, 1, 1, 1);
  append_of(core);
  run(core, 1, 2, 1);
  EXPECT_FALSE(core.snapshot_due(0));
  run(core, 1, 3, 1);
  ASSERT_TRUE(core.snapshot_due(0));
  core.snapshot(bytes("state"), 0);
  EXPECT_FALSE(core.snapshot_due(0));
  run(core, 1, 4, 1);
  core.appended(1);
  EXPECT_EQ(append_of(core).last, 3u);  // not 4: the snapshot comes between
  core.appended(3);
  auto next = core.next();
  ASSERT_TRUE(next && std::holds_alternative<DurableCore::Snapshot>(*next));
  EXPECT_EQ(std::get<DurableCore::Snapshot>(*next).at, 3u);
  EXPECT_FALSE(core.next());
  core.snapshotted(true);
  EXPECT_EQ(append_of(core).last, 4u);
}

TEST(DurableCore, SnapshotsByTimeSizeAndRequest) {
  Durability plan;
  plan.snapshot_ms = 1000;
  plan.snapshot_bytes = 1000;
  DurableCore core(plan);
  EXPECT_FALSE(core.snapshot_due(5000));  // nothing has changed
  run(core, 1, 1, 1);
  EXPECT_TRUE(core.snapshot_due(1000));
  core.snapshot({}, 1000);
  append_of(core);
  core.appended(1);
  core.next();
  core.snapshotted(true);
  run(core, 1, 2, 1);
  EXPECT_FALSE(core.snapshot_due(1999));
  core.request_snapshot();
  EXPECT_TRUE(core.snapshot_due(1999));
  core.snapshot({}, 1999);
  append_of(core);
  core.appended(2);
  core.next();
  core.snapshotted(true);
  for (std::uint64_t n = 3; n < 40; ++n) run(core, 1, n, 1);
  EXPECT_TRUE(core.snapshot_due(2000));
}

TEST(DurableCore, AStallRefusesUntilTheWriteSucceeds) {
  DurableCore core{Durability()};
  run(core, 1, 1, 1);
  append_of(core);
  core.stalled(Error(ErrorKind::resource_exhausted, "no space"));
  ASSERT_TRUE(core.refusal(0));
  EXPECT_EQ(core.refusal(0)->kind, ErrorKind::resource_exhausted);
  EXPECT_FALSE(core.next());  // the same block is still being tried
  EXPECT_EQ(core.durable(), 0u);
  core.appended(1);
  EXPECT_FALSE(core.refusal(0));
}

TEST(DurableCore, AJournalThatCannotBeShortenedIsFull) {
  Durability plan;
  plan.journal_limit = 500;
  DurableCore core(plan);
  std::uint64_t n = 0;
  while (!core.refusal(10) && n < 100) run(core, 1, ++n, 1);
  EXPECT_LT(n, 20u);
  EXPECT_EQ(core.refusal(10)->kind, ErrorKind::overloaded);
}

TEST(DurableCore, ASnapshotBringsAnswersBack) {
  DurableCore core{Durability()};
  run(core, 1, 5, 5);
  EXPECT_EQ(core.admit(7, 9, 9).verdict, Verdict::run);
  core.journal({7, 9, 9, 0, false, {}});
  core.remember(7, 9, failure("it threw"));
  core.snapshot(bytes("the state"), 0);
  append_of(core);
  core.appended(2);
  auto operation = core.next();
  auto& snapshot = std::get<DurableCore::Snapshot>(*operation);
  DurableCore next{Durability()};
  auto state = next.restore(snapshot.image, snapshot.at);
  ASSERT_TRUE(state);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(state->data()), state->size()), "the state");
  EXPECT_EQ(next.last(), 2u);
  EXPECT_EQ(text(next.admit(1, 5, 5).answer), "r5");
  EXPECT_EQ(text(next.admit(7, 9, 9).answer), "!it threw");
  EXPECT_EQ(next.admit(1, 4, 1).verdict, Verdict::stale);
  // Cut anywhere, it is refused, not believed.
  for (std::size_t size = 0; size < snapshot.image.size(); ++size) {
    DurableCore other{Durability()};
    EXPECT_FALSE(other.restore(std::span(snapshot.image).first(size), 2));
  }
}

}  // namespace
}  // namespace troupe
