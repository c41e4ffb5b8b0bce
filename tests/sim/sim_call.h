// Calls between simulated processes: what callers make and actors run, over the product's lanes, routes and
// peers. Stands where the typed layer stands (actors/troupe).
//
// Owner: SimCall by counted references, as any state of a call. Thread: the simulation's.
#pragma once

#include <memory>

#include "runtime/call/class_table.h"
#include "runtime/call/route.h"
#include "tests/sim/program.h"

namespace troupe::sim {

// What a method does.
enum class Deed : std::uint8_t {
  answers,
  throws,
  takes_time,       // suspends itself
  asks,             // calls another actor, and answers when that has ended
  asks_and_blocks,  // the same, and waits as get() does: a call that comes back is a cycle
  crashes,          // its process
};

struct CallPlan {
  ActorId target;
  Deed deed = Deed::answers;
  ActorId other;    // whom it asks
  Micros time = 0;  // that it takes
  bool one_way = false, sure = false;
  int retries = 0;
  Micros deadline = 0;  // from now, 0: none
};

// The result of a call. Tells the judge how it ended; then runs `then`, if there is one.
class SimCall final : public CallState {
 public:
  SimCall(Lane& lane, Program& program, std::uint64_t number);
  std::uint64_t number() const { return number_; }
  void then(std::function<void()> what) { then_ = std::move(what); }
  void set_value(std::uint64_t call, std::uint64_t run);

 protected:
  void decode_value(Reader& reply) override;

 private:
  struct Ended;
  Program& program_;
  std::uint64_t number_;
  std::uint64_t named_ = 0, run_ = 0;
  std::function<void()> then_;
};

// On the lane, as an actor's code or a program's. Null: one way.
Ref<SimCall> make_call(Program& program, Lane& lane, const CallPlan& plan);
// As a thread that does not get the baton does: encoded, by way of the lane's tasks.
Ref<SimCall> post_call(Program& program, Lane& lane, const CallPlan& plan);
void cancel_call(SimCall& call);

// Makes the classes "Counter" (one call at a time) and "Crowd" known to the product.
void register_sim_classes();

}  // namespace troupe::sim
