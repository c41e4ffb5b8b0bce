#include "group.h"

#include <signal.h>
#include <unistd.h>

#include <set>
#include <stdexcept>

#include "check.h"

namespace probe {

using troupe::ActorOptions;
using troupe::Handle;
using troupe::Tensor;

std::string Member::where() const {
  return "rank " + std::to_string(group_.rank()) + " of " + std::to_string(group_.size()) + ", generation " +
         std::to_string(group_.generation());
}

std::string Member::join(troupe::Group group) {
  group_ = std::move(group);
  group_.join().get();
  return where();
}

std::string Member::reform() {
  group_.reform().get();
  return where();
}

float Member::sum(float value, int size) {
  auto tensor = Tensor::from(std::vector<float>(static_cast<std::size_t>(size), value));
  group_.all_reduce(tensor).get();
  auto all = tensor.span<float>();
  for (float one : all) {
    if (one != all[0]) throw std::runtime_error("elements differ");
  }
  return all.empty() ? 0 : all[0];
}

std::vector<float> Member::gather(float value, int count) {
  auto mine = Tensor::from(std::vector<float>(static_cast<std::size_t>(count), value));
  // Rank r gives r + 1 elements.
  int all = group_.size() * (group_.size() + 1) / 2;
  auto out = Tensor::zeros(troupe::DType::f32, {all});
  group_.all_gather(mine, out).get();
  auto span = out.span<float>();
  return {span.begin(), span.end()};
}

float Member::ring(float value) {
  int size = group_.size(), rank = group_.rank();
  auto mine = Tensor::from(std::vector<float>{value}), got = Tensor::zeros(troupe::DType::f32, {1});
  // A send ends with its recv, and one operation follows the other: neighbours must not both send first.
  auto send = [&] { group_.send(mine, (rank + 1) % size).get(); };
  if (rank % 2 == 0) send();
  group_.recv(got, (rank + size - 1) % size).get();
  if (rank % 2 == 1) send();
  return got.span<float>()[0];
}

float Member::sum_of_size(int size) { return sum(1, size); }
std::vector<float> Member::join_second(troupe::Group group, float value) {
  second_ = std::move(group);
  second_.join().get();
  auto a = Tensor::from(std::vector<float>(100'000, value)), b = Tensor::from(std::vector<float>(10, value));
  auto first = group_.all_reduce(a), other = second_.all_reduce(b);
  other.get();
  first.get();
  return {a.span<float>()[0], b.span<float>()[0]};
}

std::string Member::split(float value) {
  part_ = group_.split(group_.rank() % 2, -group_.rank()).get();
  auto a = Tensor::from(std::vector<float>{value}), b = a.clone();
  auto in_part = part_.all_reduce(a), in_all = group_.all_reduce(b);
  in_part.get();
  in_all.get();
  if (part_.ranks().at(static_cast<std::size_t>(part_.rank())) != troupe::context().id())
    throw std::runtime_error("the part's rank is not this actor");
  group_.split(-1).get();  // in none
  return std::to_string(part_.rank()) + " of " + std::to_string(part_.size()) + ": " +
         std::to_string(static_cast<int>(a.span<float>()[0])) + ", " +
         std::to_string(static_cast<int>(b.span<float>()[0]));
}

int Member::pid() const { return ::getpid(); }

namespace {

template <class T>
std::vector<troupe::Error> failures_of(std::vector<troupe::Future<T>>& futures) {
  std::vector<troupe::Error> out;
  for (auto& future : futures) {
    try {
      future.get();
    } catch (const troupe::Failure& e) {
      out.push_back(e.error());
    }
  }
  return out;
}

struct Crew {
  std::vector<Handle<Member>> members;
  troupe::Group group;
  std::map<int, int> rank_of;  // by index

  // A death that a case brings about is seen in its calls, if the machine is slow a while later.
  Crew(int size, ActorOptions options) {
    options.on_failure([](const troupe::ActorFailure&) {});
    for (int i = 0; i < size; ++i) members.push_back(troupe::spawn<Member>(options));
  }
  void note(const std::vector<std::string>& told, std::size_t size, std::uint64_t generation) {
    rank_of.clear();
    std::set<int> ranks;
    for (std::size_t i = 0; i < told.size(); ++i) {
      int rank = std::stoi(told[i].substr(5));
      check(told[i] == "rank " + std::to_string(rank) + " of " + std::to_string(size) + ", generation " +
                           std::to_string(generation),
            "a rank says " + told[i]);
      rank_of[static_cast<int>(i)] = rank;
      ranks.insert(rank);
    }
    check(ranks.size() == size, "ranks are distinct");
  }
  void join(const troupe::GroupOptions& options = {}) {
    group = troupe::make_group(members, options);
    std::vector<troupe::Future<std::string>> joined;
    for (auto& member : members) joined.push_back(member.call<&Member::join>(group));
    std::vector<std::string> told;
    for (auto& one : joined) told.push_back(one.get());
    note(told, members.size(), 1);
  }
  void reform(std::uint64_t generation) {
    std::vector<troupe::Future<std::string>> formed;
    for (auto& member : members) formed.push_back(member.call<&Member::reform>());
    std::vector<std::string> told;
    for (auto& one : formed) told.push_back(one.get());
    note(told, members.size(), generation);
  }
  void expect_sum(float value, int size, float sum) {
    std::vector<troupe::Future<float>> sums;
    for (auto& member : members) sums.push_back(member.call<&Member::sum>(value, size));
    for (auto& one : sums) check(one.get() == sum, "the sum is right at every rank");
  }
};

void collectives(int size, const ActorOptions& options) {
  Crew crew(size, options);
  crew.join();
  auto n = static_cast<float>(size);
  for (int elements : {1, 0, 1000, 1 << 20}) crew.expect_sum(2, elements, elements == 0 ? 0 : 2 * n);
  std::vector<troupe::Future<std::vector<float>>> gathered;
  std::vector<troupe::Future<float>> passed;
  for (int i = 0; i < size; ++i) {
    int rank = crew.rank_of[i];
    auto& member = crew.members[static_cast<std::size_t>(i)];
    gathered.push_back(member.call<&Member::gather>(static_cast<float>(rank), rank + 1));
    if (size > 1) passed.push_back(member.call<&Member::ring>(static_cast<float>(rank)));
  }
  std::vector<float> expected;
  for (int rank = 0; rank < size; ++rank)
    expected.insert(expected.end(), static_cast<std::size_t>(rank + 1), rank);
  for (auto& one : gathered) check(one.get() == expected, "all_gather of uneven sizes");
  for (int i = 0; i < static_cast<int>(passed.size()); ++i) {
    float from = static_cast<float>((crew.rank_of[i] + size - 1) % size);
    check(passed[static_cast<std::size_t>(i)].get() == from, "send and recv around the ring");
  }
}

void group() {
  for (int size : {1, 2, 4}) collectives(size, ActorOptions());
  collectives(3, ActorOptions().light());
}

// Ranks that disagree all hear of it, and go on.
void group_mismatch() {
  Crew crew(3, ActorOptions());
  crew.join();
  std::vector<troupe::Future<float>> sums;
  for (int i = 0; i < 3; ++i)
    sums.push_back(crew.members[static_cast<std::size_t>(i)].call<&Member::sum_of_size>(i == 1 ? 5 : 4));
  auto errors = failures_of(sums);
  check(errors.size() == 3, "each of them fails");
  for (const auto& error : errors) {
    check(error.message.find("rank " + std::to_string(crew.rank_of[1])) != std::string::npos,
          "the rank is named: " + error.describe());
  }
  crew.expect_sum(1, 4, 3);
}

// One is killed while the others wait for it; they hear which, and go on without it, or with its next life.
void group_loss(int restarts) {
  Crew crew(4, ActorOptions().max_restarts(restarts));
  crew.join();
  crew.expect_sum(1, 100, 4);
  int lost = crew.rank_of[2];
  int pid = crew.members[2].call<&Member::pid>().get();
  std::vector<troupe::Future<float>> sums;
  for (int i : {0, 1, 3})
    sums.push_back(crew.members[static_cast<std::size_t>(i)].call<&Member::sum>(1.f, 1 << 20));
  ::kill(pid, SIGKILL);
  auto errors = failures_of(sums);
  check(errors.size() == 3, "each survivor gets an error");
  for (const auto& error : errors) {
    check(error.describe().find("rank " + std::to_string(lost)) != std::string::npos,
          "the lost rank is named: " + error.describe());
  }
  if (restarts == 0) {
    crew.members.erase(crew.members.begin() + 2);
    crew.reform(2);
    crew.expect_sum(1, 100, 3);
    return;
  }
  // The new life is told of the group again, and joins what the survivors form anew.
  std::vector<troupe::Future<std::string>> formed;
  for (std::size_t i = 0; i < 4; ++i) {
    formed.push_back(i == 2 ? crew.members[i].call<&Member::join>(crew.group)
                            : crew.members[i].call<&Member::reform>());
  }
  std::vector<std::string> told;
  for (auto& one : formed) told.push_back(one.get());
  crew.note(told, 4, 2);
  crew.expect_sum(1, 100, 4);
}

// Who never comes is named.
void group_missing() {
  Crew crew(3, ActorOptions());
  auto group =
      troupe::make_group(crew.members, troupe::GroupOptions().patience(std::chrono::milliseconds(1500)));
  std::vector<troupe::Future<std::string>> joined;
  for (int i : {0, 1}) joined.push_back(crew.members[static_cast<std::size_t>(i)].call<&Member::join>(group));
  auto errors = failures_of(joined);
  check(errors.size() == 2 && errors[0].message.find("rank 2") != std::string::npos,
        "who is missing is named: " + (errors.empty() ? "nobody failed" : errors[0].describe()));
}

// An actor in two groups, of which one leaves out a member.
void group_two() {
  Crew crew(3, ActorOptions());
  crew.join();
  std::vector<Handle<Member>> pair(crew.members.begin(), crew.members.begin() + 2);
  auto second = troupe::make_group(pair);
  std::vector<troupe::Future<std::vector<float>>> sums;
  for (auto& member : pair) sums.push_back(member.call<&Member::join_second>(second, 1.f));
  auto third = crew.members[2].call<&Member::sum>(1.f, 100'000);
  for (auto& one : sums) check(one.get() == std::vector<float>({3, 2}), "the sums of both groups");
  check(third.get() == 3, "who is in one group only");
}

// Parts of a group, before and after it has lost a rank.
void group_split() {
  Crew crew(4, ActorOptions().max_restarts(0));
  crew.join();
  auto split = [&](std::size_t size) {
    std::vector<troupe::Future<std::string>> told;
    for (std::size_t i = 0; i < size; ++i)
      told.push_back(
          crew.members[i].call<&Member::split>(static_cast<float>(1 << crew.rank_of[static_cast<int>(i)])));
    for (std::size_t i = 0; i < size; ++i) {
      int rank = crew.rank_of[static_cast<int>(i)], parts = 0, sum = 0, before = 0;
      for (int r = 0; r < static_cast<int>(size); ++r) {
        if (r % 2 != rank % 2) continue;
        ++parts;
        sum += 1 << r;
        before += r > rank;
      }
      std::string expected = std::to_string(before) + " of " + std::to_string(parts) + ": " +
                             std::to_string(sum) + ", " + std::to_string((1 << size) - 1);
      std::string got = told[i].get();
      check(got == expected, "a rank says " + got + " instead of " + expected);
    }
  };
  split(4);
  split(4);
  int pid = crew.members[3].call<&Member::pid>().get();
  std::vector<troupe::Future<float>> sums;
  for (std::size_t i = 0; i < 3; ++i) sums.push_back(crew.members[i].call<&Member::sum>(1.f, 1));
  ::kill(pid, SIGKILL);
  check(failures_of(sums).size() == 3, "each survivor gets an error");
  crew.members.pop_back();
  crew.reform(2);
  split(3);
}

// What leaves breaks the group for the others.
void group_leave() {
  Crew crew(2, ActorOptions());
  crew.join();
  crew.members[0].call<&Member::leave>().get();
  std::vector<troupe::Future<float>> sums;
  sums.push_back(crew.members[1].call<&Member::sum>(1.f, 10));
  auto errors = failures_of(sums);
  check(errors.size() == 1, "the other one hears of it");
  check(errors[0].describe().find("left the group") != std::string::npos, "and why: " + errors[0].describe());
}

}  // namespace

const std::map<std::string, std::function<void()>>& group_cases() {
  static const std::map<std::string, std::function<void()>> cases = {
      {"group", group},
      {"group_mismatch", group_mismatch},
      {"group_loss", [] { group_loss(0); }},
      {"group_replacement", [] { group_loss(1); }},
      {"group_missing", group_missing},
      {"group_two", group_two},
      {"group_split", group_split},
      {"group_leave", group_leave},
  };
  return cases;
}

}  // namespace probe
