// Every collective, for 1 to 8 ranks, against a result that is computed one after the other: all dtypes and
// operations, sizes that travel with the check and sizes that do not, uneven sizes, nothing, views with gaps.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "tests/unit/runtime/group/world.h"

namespace troupe::test {
namespace {

constexpr int kSizes[] = {1, 2, 3, 4, 8};
constexpr std::int64_t kLarge = 40'000;  // elements; above what travels with the check, for every dtype
constexpr std::int64_t kCounts[] = {0, 1, 13, 1000, kLarge};

double value_of(int rank, std::int64_t i, DType dtype, ReduceOp op) {
  if (dtype == DType::boolean) return (rank + i) % 3 == 0 ? 1 : 0;
  if (op == ReduceOp::product) return (rank + i) % 2 == 0 ? 1 : 2;
  return static_cast<double>((rank * 7 + i * 3) % 11 + 1);
}

// Exact: the sums and products fit, or wrap around as integers of that size do.
double reference(int ranks, std::int64_t i, DType dtype, ReduceOp op) {
  double result = value_of(0, i, dtype, op);
  for (int r = 1; r < ranks; ++r) {
    double v = value_of(r, i, dtype, op);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::average:
        result += v;
        break;
      case ReduceOp::product:
        result *= v;
        break;
      case ReduceOp::min:
        result = std::min(result, v);
        break;
      case ReduceOp::max:
        result = std::max(result, v);
        break;
    }
  }
  if (op == ReduceOp::average)
    result = dtype == DType::f64 ? result / ranks : static_cast<float>(result) / static_cast<float>(ranks);
  Tensor rounded = Tensor::empty(dtype, {1});
  set(rounded, 0, result);
  return get(rounded, 0);
}

void fill(const Tensor& tensor, int rank, ReduceOp op, std::int64_t first = 0) {
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    set(tensor, i, value_of(rank, first + i, tensor.dtype(), op));
}

// How many elements of which `first..` of the reference differ.
std::int64_t wrong_elements(const Tensor& tensor, int ranks, ReduceOp op, std::int64_t first = 0) {
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    wrong += get(tensor, i) == reference(ranks, first + i, tensor.dtype(), op) ? 0 : 1;
  return wrong;
}
std::int64_t differing(const Tensor& tensor, int rank, std::int64_t first = 0) {
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    wrong += get(tensor, i) == get(
                                   [&] {
                                     Tensor t = Tensor::empty(tensor.dtype(), {1});
                                     set(t, 0, value_of(rank, first + i, tensor.dtype(), ReduceOp::sum));
                                     return t;
                                   }(),
                                   0)
                 ? 0
                 : 1;
  return wrong;
}

// Of rank r: none, few, or many.
std::int64_t uneven(int r, std::int64_t unit) { return (r * 2 + 1) % 4 * unit; }
std::int64_t uneven_before(int r, std::int64_t unit) {
  std::int64_t sum = 0;
  for (int i = 0; i < r; ++i) sum += uneven(i, unit);
  return sum;
}

Tensor make(DType dtype, std::int64_t count, bool gaps) {
  return gaps ? with_gaps(dtype, count) : Tensor::zeros(dtype, {1, count});
}

class Collectives : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::ValuesIn(kSizes));

TEST_P(Collectives, AllReduceOfEveryTypeAndOperation) {
  run_ranks(GetParam(), [](Communicator& group) {
    for (int d = 0; d < kDTypes; ++d) {
      for (int o = 0; o < kReduceOps; ++o) {
        auto dtype = static_cast<DType>(d);
        auto op = static_cast<ReduceOp>(o);
        if (!is_defined(op, dtype)) continue;
        for (std::int64_t count : kCounts) {
          bool gaps = count == 13 || (count == kLarge && d % 3 == 0);
          Tensor tensor = make(dtype, count, gaps);
          fill(tensor, group.rank(), op);
          auto result = group.all_reduce(tensor, op).wait();
          ASSERT_TRUE(result) << text_of(result);
          ASSERT_EQ(wrong_elements(tensor, group.size(), op), 0)
              << to_string(dtype) << " " << to_string(op) << " " << count;
        }
      }
    }
  });
}

TEST_P(Collectives, AllReduceIntoAnotherTensor) {
  run_ranks(GetParam(), [](Communicator& group) {
    for (std::int64_t count : kCounts) {
      Tensor in = make(DType::i32, count, true), out = make(DType::i32, count, count % 2 == 1);
      fill(in, group.rank(), ReduceOp::sum);
      auto result = group.all_reduce(in, out, ReduceOp::sum).wait();
      ASSERT_TRUE(result) << text_of(result);
      EXPECT_EQ(wrong_elements(out, group.size(), ReduceOp::sum), 0);
      EXPECT_EQ(differing(in, group.rank()), 0);
    }
  });
}

TEST_P(Collectives, ReduceToEveryRoot) {
  run_ranks(GetParam(), [](Communicator& group) {
    for (int root = 0; root < group.size(); ++root) {
      for (auto [dtype, op] : {std::pair(DType::f32, ReduceOp::average), std::pair(DType::u16, ReduceOp::max),
                               std::pair(DType::f16, ReduceOp::sum)}) {
        for (std::int64_t count : kCounts) {
          Tensor in = make(dtype, count, root % 2 == 1), out;
          if (group.rank() == root) out = make(dtype, count, count == kLarge);
          fill(in, group.rank(), op);
          auto result = group.reduce(in, out, op, root).wait();
          ASSERT_TRUE(result) << text_of(result);
          if (group.rank() == root) {
            ASSERT_EQ(wrong_elements(out, group.size(), op), 0) << root << " " << count;
          }
          EXPECT_EQ(op == ReduceOp::product ? 0 : differing(in, group.rank()), 0);
        }
      }
    }
  });
}

TEST_P(Collectives, ReduceScatterOfUnevenSizes) {
  run_ranks(GetParam(), [](Communicator& group) {
    for (auto [dtype, op] :
         {std::pair(DType::f64, ReduceOp::sum), std::pair(DType::bf16, ReduceOp::min),
          std::pair(DType::i8, ReduceOp::product), std::pair(DType::f32, ReduceOp::average)}) {
      for (std::int64_t unit : {0, 1, 100, 30'000}) {
        std::int64_t total = uneven_before(group.size(), unit), before = uneven_before(group.rank(), unit);
        Tensor in = make(dtype, total, unit == 100),
               out = make(dtype, uneven(group.rank(), unit), unit == 1 || unit == 30'000);
        fill(in, group.rank(), op);
        auto result = group.reduce_scatter(in, out, op).wait();
        ASSERT_TRUE(result) << text_of(result);
        ASSERT_EQ(wrong_elements(out, group.size(), op, before), 0) << to_string(dtype) << " " << unit;
      }
    }
  });
}

TEST_P(Collectives, BroadcastFromEveryRoot) {
  run_ranks(GetParam(), [](Communicator& group) {
    for (int root = 0; root < group.size(); ++root) {
      for (std::int64_t count : {std::int64_t{0}, std::int64_t{5}, kLarge, std::int64_t{900'000}}) {
        Tensor tensor = make(DType::f32, count, (root + group.rank()) % 2 == 0 && count < 900'000);
        if (group.rank() == root) fill(tensor, root, ReduceOp::sum);
        auto result = group.broadcast(tensor, root).wait();
        ASSERT_TRUE(result) << text_of(result);
        ASSERT_EQ(differing(tensor, root), 0) << root << " " << count;
      }
    }
  });
}

TEST_P(Collectives, AllGatherOfUnevenSizes) {
  run_ranks(GetParam(), [](Communicator& group) {
    for (std::int64_t unit : {0, 1, 50, 20'000}) {
      Tensor in = make(DType::i16, uneven(group.rank(), unit), unit == 50 || group.rank() == 1);
      Tensor out = make(DType::i16, uneven_before(group.size(), unit), group.rank() % 2 == 1);
      fill(in, group.rank(), ReduceOp::sum);
      auto result = group.all_gather(in, out).wait();
      ASSERT_TRUE(result) << text_of(result);
      for (int r = 0; r < group.size(); ++r) {
        std::int64_t begin = uneven_before(r, unit);
        Tensor flat = out.contiguous().reshape({-1});
        ASSERT_EQ(differing(flat.slice(0, begin, begin + uneven(r, unit)), r), 0) << r << " " << unit;
      }
    }
  });
}

TEST_P(Collectives, GatherAndScatterWithEveryRoot) {
  run_ranks(GetParam(), [](Communicator& group) {
    for (int root = 0; root < group.size(); ++root) {
      for (std::int64_t unit : {0, 3, 20'000}) {
        std::int64_t total = uneven_before(group.size(), unit);
        Tensor part = make(DType::u32, uneven(group.rank(), unit), root == 0), whole;
        if (group.rank() == root) whole = make(DType::u32, total, unit == 3);
        fill(part, group.rank(), ReduceOp::sum);
        auto result = group.gather(part, whole, root).wait();
        ASSERT_TRUE(result) << text_of(result);
        for (int r = 0; group.rank() == root && r < group.size(); ++r) {
          std::int64_t begin = uneven_before(r, unit);
          Tensor flat = whole.contiguous().reshape({-1});
          ASSERT_EQ(differing(flat.slice(0, begin, begin + uneven(r, unit)), r), 0);
        }
        Tensor back = make(DType::u32, uneven(group.rank(), unit), root == 1);
        result = group.scatter(whole, back, root).wait();
        ASSERT_TRUE(result) << text_of(result);
        ASSERT_EQ(differing(back, group.rank()), 0);
      }
    }
  });
}

TEST_P(Collectives, AllToAll) {
  run_ranks(GetParam(), [](Communicator& group) {
    int size = group.size(), me = group.rank();
    auto between = [&](int from, int to, std::int64_t unit) { return (from * 3 + to) % 4 * unit; };
    // The element k that `from` sends to `to`.
    auto element = [](int from, int to, std::int64_t k) {
      return static_cast<double>((from * 50 + to * 7 + k) % 101);
    };
    for (bool even : {true, false}) {
      for (std::int64_t unit : {0, 2, 9'000}) {
        std::vector<std::int64_t> gives, takes;
        for (int r = 0; r < size; ++r) {
          gives.push_back(even ? unit : between(me, r, unit));
          takes.push_back(even ? unit : between(r, me, unit));
        }
        Tensor in = make(DType::f64, std::accumulate(gives.begin(), gives.end(), std::int64_t{0}), unit == 2);
        Tensor out =
            even && unit > 2
                ? in
                : make(DType::f64, std::accumulate(takes.begin(), takes.end(), std::int64_t{0}), me == 0);
        std::int64_t at = 0;
        for (int r = 0; r < size; ++r)
          for (std::int64_t k = 0; k < gives[static_cast<std::size_t>(r)]; ++k)
            set(in, at++, element(me, r, k));
        auto result = group.all_to_all(in, out, even ? std::vector<std::int64_t>() : gives).wait();
        ASSERT_TRUE(result) << text_of(result);
        at = 0;
        std::int64_t wrong = 0;
        for (int r = 0; r < size; ++r)
          for (std::int64_t k = 0; k < takes[static_cast<std::size_t>(r)]; ++k)
            wrong += get(out, at++) == element(r, me, k) ? 0 : 1;
        ASSERT_EQ(wrong, 0) << even << " " << unit;
      }
    }
  });
}

TEST_P(Collectives, MessagesAndBarriers) {
  run_ranks(GetParam(), [](Communicator& group) {
    int size = group.size(), me = group.rank();
    for (std::int64_t count : {std::int64_t{0}, std::int64_t{7}, std::int64_t{30'000}}) {
      ASSERT_TRUE(group.barrier().wait());
      if (size == 1) continue;
      // Around the ring twice: even ranks send first. With two ranks, both ways between the same two.
      Tensor out = make(DType::i64, count, me % 2 == 0), in = make(DType::i64, count, me % 3 == 0);
      fill(out, me, ReduceOp::sum);
      int right = (me + 1) % size, left = (me - 1 + size) % size;
      for (int round = 0; round < 2; ++round) {
        Work first = me % 2 == 0 ? group.send(out, right) : group.recv(in, left);
        Work second = me % 2 == 0 ? group.recv(in, left) : group.send(out, right);
        ASSERT_TRUE(first.wait()) << text_of(first.wait());
        ASSERT_TRUE(second.wait()) << text_of(second.wait());
        ASSERT_EQ(differing(in, left), 0);
      }
    }
  });
}

// The other transport does the same.
TEST_P(Collectives, OverGloo) {
  CommunicatorOptions options;
  options.transport = Transport::gloo;
  run_ranks(
      GetParam(),
      [](Communicator& group) {
        for (std::int64_t count : kCounts) {
          Tensor tensor = make(DType::f32, count, count == 13);
          fill(tensor, group.rank(), ReduceOp::average);
          auto result = group.all_reduce(tensor, ReduceOp::average).wait();
          ASSERT_TRUE(result) << text_of(result);
          ASSERT_EQ(wrong_elements(tensor, group.size(), ReduceOp::average), 0) << count;
        }
        ASSERT_TRUE(group.barrier().wait());
      },
      options);
}

TEST_P(Collectives, ManyAreCarriedOutInTheirOrder) {
  run_ranks(GetParam(), [](Communicator& group) {
    std::vector<Tensor> tensors;
    std::vector<Work> works;
    std::vector<int> ended;
    for (int i = 0; i < 200; ++i) {
      std::int64_t count = i % 3 == 0 ? 20'000 : 10;
      tensors.push_back(Tensor::zeros(DType::f32, {count}));
      fill(tensors.back(), group.rank(), ReduceOp::sum);
      works.push_back(group.all_reduce(tensors.back(), ReduceOp::sum));
      works.back().then([&ended, i](const Result<void>&) { ended.push_back(i); });
    }
    ASSERT_TRUE(works.back().wait());
    ASSERT_TRUE(group.barrier().wait());  // the last continuation has run
    ASSERT_EQ(ended.size(), 200u);
    EXPECT_TRUE(std::is_sorted(ended.begin(), ended.end()));
    for (Tensor& tensor : tensors) ASSERT_EQ(wrong_elements(tensor, group.size(), ReduceOp::sum), 0);
    // The quick way, between those that are queued.
    for (int i = 0; i < 50; ++i) {
      Operation operation;
      operation.kind = OpKind::all_reduce;
      operation.in = operation.out = Tensor::zeros(DType::i32, {i % 5 == 0 ? 20'000 : 3});
      Tensor tensor = operation.in;
      fill(tensor, group.rank(), ReduceOp::sum);
      Work queued;
      if (i % 2 == 0) queued = group.barrier();
      auto result = group.run(std::move(operation));
      ASSERT_TRUE(result) << text_of(result);
      ASSERT_EQ(wrong_elements(tensor, group.size(), ReduceOp::sum), 0);
    }
  });
}

TEST_P(Collectives, FloatsAreTheSameBitsInEveryRunAndOnEveryRank) {
  std::vector<std::vector<float>> results;
  std::mutex mutex;
  for (int run = 0; run < 2; ++run) {
    run_ranks(GetParam(), [&](Communicator& group) {
      std::vector<float> all;
      for (std::int64_t count : {std::int64_t{1000}, std::int64_t{300'001}}) {
        std::mt19937 random(static_cast<unsigned>(group.rank()));
        std::uniform_real_distribution<float> values(-1, 1);
        Tensor tensor = Tensor::empty(DType::f32, {count});
        for (float& x : tensor.span<float>()) x = values(random);
        auto result = group.all_reduce(tensor, ReduceOp::average).wait();
        ASSERT_TRUE(result) << text_of(result);
        all.insert(all.end(), tensor.span<float>().begin(), tensor.span<float>().end());
      }
      std::lock_guard lock(mutex);
      results.push_back(std::move(all));
    });
  }
  ASSERT_EQ(results.size(), static_cast<std::size_t>(2 * GetParam()));
  for (auto& result : results)
    EXPECT_EQ(std::memcmp(result.data(), results[0].data(), result.size() * sizeof(float)), 0);
}

}  // namespace
}  // namespace troupe::test
