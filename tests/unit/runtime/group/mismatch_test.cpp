// Calls that do not fit together: the same typed error on every rank, which names the ranks, and the group
// goes on afterwards.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>

#include "core/base/clock.h"
#include "tests/unit/runtime/group/world.h"

namespace troupe::test {
namespace {

Tensor floats(const Dims& shape) { return Tensor::zeros(DType::f32, shape); }

struct Wrong {
  const char* name;
  std::function<Work(Communicator&)> call;  // rank 1 calls something else than the others
  std::vector<std::string> words;           // of the error
};

const std::vector<Wrong>& table() {
  static const std::vector<Wrong> wrong = {
      {"shape",
       [](Communicator& g) {
         return g.all_reduce(floats(g.rank() == 1 ? Dims{3, 2} : Dims{2, 3}), ReduceOp::sum);
       },
       {"rank 1 called", "[3, 2]", "[2, 3]"}},
      {"size",
       [](Communicator& g) { return g.all_reduce(floats({g.rank() == 1 ? 7 : 8}), ReduceOp::sum); },
       {"rank 1 called", "[7]", "[8]"}},
      {"large_size",
       [](Communicator& g) {
         return g.all_reduce(floats({g.rank() == 1 ? 1'000'000 : 999'999}), ReduceOp::sum);
       },
       {"rank 1 called", "1000000"}},
      {"small_and_large",
       [](Communicator& g) { return g.all_reduce(floats({g.rank() == 1 ? 3 : 100'000}), ReduceOp::sum); },
       {"rank 1 called", "[3]"}},
      {"dtype",
       [](Communicator& g) {
         return g.broadcast(Tensor::zeros(g.rank() == 1 ? DType::f64 : DType::f32, {4}), 0);
       },
       {"rank 1 called", "f64", "f32"}},
      {"operation",
       [](Communicator& g) {
         return g.all_reduce(floats({4}), g.rank() == 1 ? ReduceOp::max : ReduceOp::sum);
       },
       {"rank 1 called", "max", "sum"}},
      {"collective",
       [](Communicator& g) { return g.rank() == 1 ? g.barrier() : g.broadcast(floats({4}), 0); },
       {"rank 1 called barrier"}},
      {"root",
       [](Communicator& g) { return g.broadcast(floats({4}), g.rank() == 1 ? 1 : 0); },
       {"rank 1 called", "root 1", "root 0"}},
      {"no_such_root",
       [](Communicator& g) { return g.broadcast(floats({4}), g.rank() == 1 ? 99 : 0); },
       {"rank 1 called", "rank 99"}},
      {"negative_root",
       [](Communicator& g) {
         return g.reduce(floats({4}), floats({4}), ReduceOp::sum, g.rank() == 1 ? -1 : 0);
       },
       {"rank 1 called", "rank -1"}},
      {"freed_tensor",
       [](Communicator& g) {
         Tensor tensor = floats({4});
         if (g.rank() == 1) tensor.reset();
         return g.all_reduce(tensor, ReduceOp::sum);
       },
       {"rank 1 called", "undefined"}},
      {"other_device",
       [](Communicator& g) {
         static int elsewhere;
         return g.all_reduce(g.rank() == 1
                                 ? Tensor::over(&elsewhere, DType::f32, {1}, {1}, Device::cuda(0), nullptr)
                                 : floats({1}),
                             ReduceOp::sum);
       },
       {"rank 1 called", "cuda:0"}},
      {"average_of_integers",
       [](Communicator& g) { return g.all_reduce(Tensor::zeros(DType::i32, {4}), ReduceOp::average); },
       {"rank 0 called", "rank 1 called", "average is not defined for i32"}},
      {"gather_output",
       [](Communicator& g) {
         return g.all_gather(floats({g.rank() + 1}),
                             floats({g.rank() == 1 ? 99 : g.size() * (g.size() + 1) / 2}));
       },
       {"rank 1", "99"}},
      {"scatter_input",
       [](Communicator& g) { return g.scatter(floats({1000}), floats({1}), 0); },
       {"rank 0", "1000"}},
      {"reduce_scatter",
       [](Communicator& g) {
         return g.reduce_scatter(floats({g.size() * 2}), floats({g.rank() == 1 ? 3 : 2}), ReduceOp::sum);
       },
       {"rank 0", "input"}},
      {"all_to_all",
       [](Communicator& g) {
         return g.all_to_all(floats({g.size()}), floats({g.rank() == 1 ? 1 : g.size()}));
       },
       {"rank 1", "output"}},
      {"counts",
       [](Communicator& g) {
         return g.all_to_all(
             floats({g.size()}), floats({g.size()}),
             std::vector<std::int64_t>(static_cast<std::size_t>(g.size()), g.rank() == 1 ? 2 : 1));
       },
       {"rank 1 called", "counts"}},
      {"not_even",
       [](Communicator& g) {
         return g.all_to_all(floats({g.size() + (g.rank() == 1 ? 1 : 0)}), floats({g.size()}));
       },
       {"rank 1 called", "evenly"}},
  };
  return wrong;
}

class Mismatch : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Mismatch, testing::Values(2, 3, 4, 8));

TEST_P(Mismatch, EveryRankGetsTheErrorAndTheGroupGoesOn) {
  std::mutex mutex;
  std::map<std::string, std::set<std::string>> errors;
  run_ranks(GetParam(), [&](Communicator& group) {
    for (const Wrong& wrong : table()) {
      auto result = wrong.call(group).wait();
      ASSERT_FALSE(result) << wrong.name;
      EXPECT_EQ(result.error().kind, ErrorKind::invalid_argument) << text_of(result);
      for (const std::string& word : wrong.words)
        EXPECT_TRUE(contains(text_of(result), word))
            << wrong.name << ": no '" << word << "' in " << text_of(result);
      {
        std::lock_guard lock(mutex);
        errors[wrong.name].insert(text_of(result));
      }
      Tensor tensor = floats({5});
      tensor.span<float>()[4] = 2;
      auto good = group.all_reduce(tensor, ReduceOp::sum).wait();
      ASSERT_TRUE(good) << text_of(good);
      EXPECT_EQ(tensor.span<float>()[4], 2.0f * static_cast<float>(group.size()));
    }
  });
  EXPECT_EQ(errors.size(), table().size());
  for (auto& [name, texts] : errors) EXPECT_EQ(texts.size(), 1u) << name << ": " << *texts.begin();
}

TEST_P(Mismatch, SwappedOrder) {
  run_ranks(GetParam(), [](Communicator& group) {
    Tensor a = floats({4}), b = floats({9});
    Work first = group.all_reduce(group.rank() == 1 ? b : a, ReduceOp::sum);
    Work second = group.all_reduce(group.rank() == 1 ? a : b, ReduceOp::sum);
    for (Work& work : {std::ref(first), std::ref(second)}) {
      auto result = work.wait();
      ASSERT_FALSE(result);
      EXPECT_TRUE(contains(text_of(result), "same order")) << text_of(result);
    }
  });
}

TEST_P(Mismatch, MessagesThatDiffer) {
  run_ranks(GetParam(), [](Communicator& group) {
    if (group.rank() > 1) return;
    for (std::int64_t count : {10, 50'000}) {
      Work work = group.rank() == 0 ? group.send(floats({count}), 1) : group.recv(floats({count + 1}), 0);
      auto result = work.wait();
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().kind, ErrorKind::invalid_argument);
      EXPECT_TRUE(contains(text_of(result), "rank 0 sends " + std::to_string(count))) << text_of(result);
      // Undefined on one side.
      work = group.rank() == 0 ? group.send(Tensor(), 1) : group.recv(floats({count}), 0);
      result = work.wait();
      ASSERT_FALSE(result);
      EXPECT_TRUE(contains(text_of(result), "rank 0 called send")) << text_of(result);
      ASSERT_TRUE(
          (group.rank() == 0 ? group.send(floats({count}), 1) : group.recv(floats({count}), 0)).wait());
    }
  });
}

TEST_P(Mismatch, APeerThatDoesNotExistIsAnErrorOfThisRankAlone) {
  run_ranks(GetParam(), [](Communicator& group) {
    for (int peer : {-1, group.size(), group.rank()}) {
      auto result = group.send(floats({1}), peer).wait();
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().kind, ErrorKind::invalid_argument);
    }
    ASSERT_TRUE(group.barrier().wait());
  });
}

// What no check can see: a rank that does not call at all. The deadline ends it, and the records tell who.
TEST_P(Mismatch, AMissingCallIsNamedWhenTheDeadlinePasses) {
  std::atomic<std::int64_t> deadline{0};  // the same for all: who is late first ends the others' connections
  run_ranks(GetParam(), [&](Communicator& group) {
    ASSERT_TRUE(group.barrier().wait());
    std::int64_t none = 0;
    deadline.compare_exchange_strong(none, steady_ns() + 1'000'000'000);
    Operation operation;
    operation.kind = group.rank() == 1 ? OpKind::recv : OpKind::all_reduce;
    operation.out = floats({4});
    if (operation.kind == OpKind::all_reduce) operation.in = operation.out;
    operation.deadline_ns = deadline;
    auto result = group.submit(operation).wait();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::deadline_exceeded) << text_of(result);
    EXPECT_TRUE(contains(text_of(result), "the last operations of rank " + std::to_string(group.rank())))
        << text_of(result);
    EXPECT_TRUE(contains(text_of(result), "rank 1 is still in recv #1 from rank 0") ||
                contains(text_of(result), "rank 0 did not call send #1"))
        << text_of(result);
    auto later = group.barrier().wait();
    ASSERT_FALSE(later);
    EXPECT_EQ(later.error().kind, ErrorKind::deadline_exceeded);
  });
}

TEST(Deadline, OfAnOperationThatIsQueuedEndsTheOneBefore) {
  std::atomic<bool> over{false};
  run_ranks(2, [&](Communicator& group) {
    if (group.rank() == 1) {
      while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    Work stuck = group.barrier(std::chrono::minutes(10));
    Work queued = group.barrier(std::chrono::milliseconds(100));
    EXPECT_EQ(stuck.wait().error().kind, ErrorKind::deadline_exceeded);
    EXPECT_EQ(queued.wait().error().kind, ErrorKind::deadline_exceeded);
    over = true;
  });
}

}  // namespace
}  // namespace troupe::test
