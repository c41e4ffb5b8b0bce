// Frames of the call plane: what is written is read; what is not a frame harms nobody.
#include "runtime/call/frame.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace troupe {
namespace {

using Words = std::vector<std::uint64_t>;

std::byte* memory(Words& words, std::size_t size) {
  words.assign(size / 8, 0);
  return reinterpret_cast<std::byte*>(words.data());
}
std::span<const std::byte> bytes(const Words& words) { return std::as_bytes(std::span(words)); }
std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }
std::string text(std::span<const std::byte> data) {
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

struct Parsed {
  bool right = false;
  FrameView view;
  HopList chain;
  Error error;
};
Parsed parse(const Words& words) {
  Parsed out;
  out.right = parse_frame(bytes(words), out.view, out.chain, out.error);
  return out;
}

Words call_frame(const CallHeader& header, const std::string& args, const std::vector<Hop>& chain) {
  Words words;
  std::size_t size = call_size(args.size(), chain.size());
  write_call(memory(words, size), size, header, bytes(args), chain);
  return words;
}

CallHeader header() {
  CallHeader out;
  out.id = 0x123456789abcdef0;
  out.actor = actor_of({5}, 6);
  out.incarnation = 7;
  out.method = 65535;
  out.one_way = true;
  out.deadline_ms = 9;
  out.credit = 10;
  out.trace = 11;
  return out;
}

TEST(Frame, CallsOfAnySize) {
  for (std::size_t size : {0u, 1u, 7u, 8u, 9u, 1000u, 1u << 20}) {
    for (std::size_t hops : {0u, 1u, 2u, 3u, 100u}) {
      std::vector<Hop> chain;
      for (std::size_t i = 0; i < hops; ++i) chain.push_back({actor_of({i + 1}, 2), i});
      std::string args(size, 'a');
      Words words = call_frame(header(), args, chain);
      auto parsed = parse(words);
      ASSERT_TRUE(parsed.right);
      ASSERT_EQ(parsed.view.kind, FrameKind::call);
      EXPECT_EQ(text(parsed.view.bytes), args);
      EXPECT_EQ(std::vector<Hop>(parsed.chain.begin(), parsed.chain.end()), chain);
      const CallHeader& call = parsed.view.call;
      EXPECT_EQ(call.id, header().id);
      EXPECT_EQ(call.actor, header().actor);
      EXPECT_EQ(call.incarnation, 7u);
      EXPECT_EQ(call.method, 65535);
      EXPECT_TRUE(call.one_way);
      EXPECT_EQ(call.deadline_ms, 9u);
      EXPECT_EQ(call.credit, 10u);
      EXPECT_EQ(call.trace, 11u);
    }
  }
}

TEST(Frame, AChainTooLongToBeTrue) {
  EXPECT_FALSE(parse(call_frame(header(), "", std::vector<Hop>(5000))).right);
}

TEST(Frame, AllOtherKinds) {
  for (auto kind : {FrameKind::value, FrameKind::item}) {
    Words words;
    std::size_t size = bytes_size(5);
    write_bytes(memory(words, size), size, kind, 3, bytes(std::string("hello")));
    auto parsed = parse(words);
    ASSERT_TRUE(parsed.right);
    EXPECT_EQ(parsed.view.kind, kind);
    EXPECT_EQ(parsed.view.call.id, 3u);
    EXPECT_EQ(text(parsed.view.bytes), "hello");
  }
  Words words;
  write_credit(memory(words, short_size()), short_size(), 4, 64);
  EXPECT_EQ(parse(words).view.kind, FrameKind::credit);
  EXPECT_EQ(parse(words).view.credit, 64u);
  write_cancel(memory(words, short_size()), short_size(), 5);
  EXPECT_EQ(parse(words).view.kind, FrameKind::cancel);
  EXPECT_EQ(parse(words).view.call.id, 5u);
  Error error(ErrorKind::actor_died, std::string(5000, 'm'));
  error.backtrace.assign(50, "frame");
  error.because(Error(ErrorKind::cancelled, "because"));
  for (auto kind : {FrameKind::failure, FrameKind::gone}) {
    auto parsed = parse(failure_frame(kind, 6, error));
    ASSERT_TRUE(parsed.right);
    EXPECT_EQ(parsed.view.kind, kind);
    EXPECT_EQ(parsed.view.call.id, 6u);
    EXPECT_EQ(parsed.error.describe(), error.describe());
    EXPECT_EQ(parsed.error.backtrace.size(), 50u);
  }
}

TEST(Frame, GarbageNeverCrashes) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    Words words(random() % 40);
    for (auto& word : words) word = random() >> random() % 64;
    parse(words);
  }
  EXPECT_FALSE(parse({}).right);
}

TEST(Frame, FlippedBitsAndCutEndsNeverCrash) {
  std::mt19937_64 random(2);
  Error error(ErrorKind::actor_error, "message");
  error.backtrace = {"a", "b"};
  error.because(Error(ErrorKind::internal, "cause"));
  std::vector<Words> frames = {call_frame(header(), "some arguments", {{{1}, 2}, {{3}, 4}, {{5}, 6}}),
                               failure_frame(FrameKind::failure, 1, error),
                               failure_frame(FrameKind::gone, 1, error)};
  Words value;
  write_bytes(memory(value, bytes_size(20)), bytes_size(20), FrameKind::value, 1,
              bytes(std::string(20, 'v')));
  frames.push_back(value);
  for (int i = 0; i < 200'000; ++i) {
    // Of exactly its size, so that a step beyond the end is seen.
    Words words = frames[random() % frames.size()];
    for (auto flips = 1 + random() % 3; flips > 0; --flips)
      words[random() % words.size()] ^= 1ull << random() % 64;
    if (random() % 4 == 0) words.resize(random() % words.size());
    words.shrink_to_fit();
    auto parsed = parse(words);
    if (!parsed.right) continue;
    for (std::byte b : parsed.view.bytes) {
      volatile std::byte seen = b;
      (void)seen;
    }
  }
}

TEST(HopList, FewAndMany) {
  HopList list;
  for (std::uint64_t n = 0; n < 10; ++n) {
    HopList copy = list;
    HopList moved = std::move(copy);
    EXPECT_EQ(moved.size(), n);
    list.push_back({{n + 1}, n});
    EXPECT_EQ(list.size(), n + 1);
    std::uint64_t at = 0;
    for (const Hop& hop : list) EXPECT_EQ(hop.call, at++);
  }
  HopList other = list;
  list.clear();
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(other.size(), 10u);
  other = list;
  EXPECT_TRUE(other.empty());
}

}  // namespace
}  // namespace troupe
