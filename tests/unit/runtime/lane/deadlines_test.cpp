// The heap of deadlines against a simple model.
#include "runtime/lane/deadlines.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "runtime/call/actor_cell.h"
#include "runtime/call/call_state.h"
#include "runtime/call/directory.h"
#include "runtime/call/peer.h"
#include "runtime/call/route.h"
#include "runtime/lane/lane.h"

namespace troupe {
namespace {

class NoDirectory final : public Directory {
 public:
  void resolve(ActorId, std::uint32_t, Lane&) override {}
  void connect(std::shared_ptr<const Place>, Lane&) override {}
  ProcessId self() const override { return {1}; }
  Lane* lane_at(std::uint16_t) override { return nullptr; }
};

class State final : public CallState {
 public:
  using CallState::CallState;

 protected:
  void decode_value(Reader&) override {}
};

TEST(Deadlines, BehaveLikeASortedSet) {
  NoDirectory directory;
  Lane lane({}, directory);
  std::vector<Ref<State>> states;
  for (int i = 0; i < 300; ++i) states.push_back(Ref<State>::adopt(new State(lane)));
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    Deadlines heap;
    std::map<CallState*, std::int64_t> model;
    for (int step = 0; step < 5000; ++step) {
      State& state = *states[random() % states.size()];
      switch (random() % 4) {
        case 0:
        case 1:
          if (model.count(&state)) break;
          model[&state] = static_cast<std::int64_t>(1 + random() % 100);
          heap.add(state, model[&state]);
          break;
        case 2:
          heap.remove(state);  // also when it is not in
          model.erase(&state);
          break;
        case 3: {
          std::int64_t now = static_cast<std::int64_t>(random() % 100);
          while (CallState* expired = heap.pop_expired(now)) {
            ASSERT_TRUE(model.count(expired));
            ASSERT_LE(model[expired], now);
            for (const auto& [other, at] : model) ASSERT_GE(at, model[expired]);
            model.erase(expired);
            ASSERT_EQ(expired->in_flight.timer, 0u);
          }
          for (const auto& [other, at] : model) ASSERT_GT(at, now);
          break;
        }
      }
      ASSERT_EQ(heap.empty(), model.empty());
      if (model.empty()) continue;
      std::int64_t least = model.begin()->second;
      for (const auto& [other, at] : model) least = std::min(least, at);
      ASSERT_EQ(heap.next(), least);
    }
    for (auto& [state, at] : model) heap.remove(*state);
    ASSERT_TRUE(heap.empty());
  }
}

}  // namespace
}  // namespace troupe
