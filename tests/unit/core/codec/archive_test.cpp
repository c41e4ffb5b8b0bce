// User types on the wire: what needs no boilerplate, what brings its own, and messages that lie.
#include "core/codec/archive.h"

#include <gtest/gtest.h>

#include <random>

namespace codec_test {

enum class Colour : std::uint8_t { red, green = 7 };

struct Inner {
  int a = 0;
  double b = 0;
  bool operator==(const Inner&) const = default;
};
struct Plain {
  std::string name;
  std::vector<Inner> inners;
  std::map<std::string, std::vector<int>> table;
  std::optional<Inner> maybe;
  Colour colour = Colour::red;
  std::array<short, 3> three{};
  std::pair<int, std::string> pair;
  bool flag = false;
  bool operator==(const Plain&) const = default;
};
struct MoveOnly {
  std::unique_ptr<int> value;
  std::vector<std::unique_ptr<std::string>> more;
};
class WithMember {
 public:
  WithMember() = default;
  explicit WithMember(int x) : x_(x) {}
  template <class Archive>
  void serialize(Archive& archive) {
    archive(x_);
  }
  int x() const { return x_; }

 private:
  int x_ = 0;
};
class WithFree {
 public:
  int x = 0;
  WithFree() {}
};
template <class Archive>
void serialize(Archive& archive, WithFree& value) {
  archive(value.x);
}
class WithSplit {
 public:
  std::uint16_t stored = 0;
  template <class Archive>
  void save(Archive& archive) const {
    archive(std::uint16_t(stored + 1));
  }
  template <class Archive>
  void load(Archive& archive) {
    archive(stored);
  }
};
struct Empty {
  bool operator==(const Empty&) const = default;
};

}  // namespace codec_test

namespace troupe {
namespace {

using namespace codec_test;

template <class T>
std::vector<std::byte> bytes_of(const T& value) {
  Writer writer;
  encode(writer, value);
  return {writer.bytes().begin(), writer.bytes().end()};
}
template <class T>
T read_back(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  T out{};
  decode(reader, out);
  EXPECT_EQ(reader.remaining(), 0u);
  return out;
}
template <class T>
T round_trip(const T& value) {
  return read_back<T>(bytes_of(value));
}

Plain sample() {
  Plain plain;
  plain.name = std::string("with\0zero", 9);
  plain.inners = {{1, 2.5}, {-3, 1e300}};
  plain.table = {{"", {}}, {"k", {1, 2, 3}}};
  plain.maybe = Inner{9, -0.5};
  plain.colour = Colour::green;
  plain.three = {1, -2, 3};
  plain.pair = {5, "five"};
  plain.flag = true;
  return plain;
}

TEST(Archive, PlainAggregatesNeedNothing) {
  EXPECT_EQ(round_trip(sample()), sample());
  EXPECT_EQ(round_trip(Plain{}), Plain{});
  EXPECT_EQ(round_trip(std::vector<Plain>{sample(), {}, sample()}),
            (std::vector<Plain>{sample(), {}, sample()}));
}

TEST(Archive, ContainersOfContainers) {
  using Deep = std::map<int, std::vector<std::unordered_map<std::string, std::set<std::tuple<int, char>>>>>;
  Deep deep = {{1, {{{"a", {{1, 'x'}, {2, 'y'}}}}, {}}}, {2, {}}};
  EXPECT_EQ(round_trip(deep), deep);
  using Choice = std::variant<int, std::string, Inner>;
  std::vector<Choice> choices = {1, "two", Inner{3, 3}};
  auto back = round_trip(choices);
  ASSERT_EQ(back.size(), 3u);
  EXPECT_EQ(std::get<Inner>(back[2]), (Inner{3, 3}));
  std::vector<bool> bits = {true, false, true};
  EXPECT_EQ(round_trip(bits), bits);
}

TEST(Archive, MoveOnlyTypes) {
  MoveOnly value;
  value.value = std::make_unique<int>(4);
  value.more.push_back(std::make_unique<std::string>("x"));
  value.more.push_back(nullptr);
  MoveOnly back = read_back<MoveOnly>(bytes_of(value));
  EXPECT_EQ(*back.value, 4);
  ASSERT_EQ(back.more.size(), 2u);
  EXPECT_EQ(*back.more[0], "x");
  EXPECT_EQ(back.more[1], nullptr);
}

TEST(Archive, TypesThatBringTheirOwn) {
  EXPECT_EQ(round_trip(WithMember(5)).x(), 5);
  WithFree free;
  free.x = 6;
  EXPECT_EQ(round_trip(free).x, 6);
  WithSplit split;
  split.stored = 7;
  EXPECT_EQ(round_trip(split).stored, 8);
  EXPECT_EQ(round_trip(std::vector<WithMember>{WithMember(1), WithMember(2)})[1].x(), 2);
  EXPECT_EQ(bytes_of(Empty{}).size(), 0u);
}

TEST(Archive, NumbersAndEnums) {
  EXPECT_EQ(round_trip(Colour::green), Colour::green);
  EXPECT_EQ(round_trip(std::numeric_limits<std::int64_t>::min()), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(bytes_of(true).size(), 1u);
  EXPECT_EQ(bytes_of(Colour::red).size(), 1u);
}

TEST(Archive, EveryTruncationIsAnError) {
  auto whole = bytes_of(sample());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    Reader reader(std::span<const std::byte>(whole).first(size));
    Plain out;
    EXPECT_THROW(decode(reader, out), DecodeError) << size;
  }
}

// A size that the message cannot hold is refused before memory is taken for it.
TEST(Archive, SizesThatLie) {
  for (std::uint64_t claim :
       {std::uint64_t{9}, std::uint64_t{1} << 32, std::uint64_t{1} << 60, ~std::uint64_t{0}}) {
    Writer writer;
    encode(writer, claim);
    encode(writer, std::uint64_t{0});
    auto refused = [&]<class T>(T out) {
      Reader reader(writer.bytes());
      EXPECT_THROW(decode(reader, out), DecodeError) << claim;
    };
    refused(std::string());
    refused(std::vector<int>());
    refused(std::vector<Plain>());
    refused(std::vector<std::string>());
    refused(std::vector<bool>());
    refused(std::map<int, int>());
    refused(std::set<int>());
    refused(std::unordered_map<int, int>());
  }
  // Within the bytes that are there, but not as many elements.
  Writer writer;
  encode(writer, std::uint64_t{8});
  encode(writer, std::uint64_t{0});
  Reader reader(writer.bytes());
  std::vector<std::uint64_t> out;
  EXPECT_THROW(decode(reader, out), DecodeError);
}

TEST(Archive, GarbageThrowsOrDecodesButNeverCrashes) {
  std::mt19937 random(3);
  auto whole = bytes_of(sample());
  for (int i = 0; i < 20'000; ++i) {
    auto bytes = whole;
    if (i % 2) {
      for (auto& b : bytes) b = static_cast<std::byte>(random());
    } else {
      for (unsigned flips = 1 + random() % 4; flips > 0; --flips)
        bytes[random() % bytes.size()] ^= std::byte(1 << random() % 8);
    }
    try {
      Reader reader(bytes);
      Plain out;
      decode(reader, out);
    } catch (const std::exception&) {
    }
  }
}

TEST(Archive, AByteThatIsNoBoolIsRefused) {
  std::byte four[16] = {std::byte{4}};
  bool plain = false;
  std::optional<int> optional;
  std::array<bool, 4> several{};
  Reader first(four), second(four), third(four);
  EXPECT_THROW(decode(first, plain), DecodeError);
  EXPECT_THROW(decode(second, optional), DecodeError);
  EXPECT_THROW(decode(third, several), DecodeError);
}

TEST(Buffer, GrowsAndTrims) {
  Writer writer;
  std::string text(100'000, 'x');
  writer.append(text.data(), text.size());
  writer.append(nullptr, 0);
  EXPECT_EQ(writer.size(), text.size());
  writer.trim();
  EXPECT_EQ(writer.size(), 0u);
  writer.append("ab", 2);
  EXPECT_EQ(writer.size(), 2u);
}

}  // namespace
}  // namespace troupe
