// Replica: a trainer that holds the parameters itself. The replicas form a group; each computes gradients on
// its shard, the group averages them, and each takes the same step with the result: all hold the same bits.
//
// When one of them dies its replacement knows nothing. form() makes the group anew, and all of them go on
// from the last step that any replica has finished. A step that some had finished and others not is the same
// step when it is repeated, so training ends as if nothing had happened.
#pragma once

#include <troupe/troupe.h>

#include <string>

#include "actors.h"

namespace digits {

struct Snapshot {
  std::uint32_t step = 0;
  double loss = 0;  // mean cross-entropy of the last step's rows, nats
  Parameters parameters;
};

class Replica {
 public:
  Replica(troupe::Handle<Preprocessor> source, std::uint32_t index, std::uint64_t seed);

  // Joins the group, or forms it anew, and takes over the state of the rank that is furthest. All replicas.
  std::uint32_t form(troupe::Group group);
  // Runs up to that step. Fails when another replica is lost, or this one has not formed: form() mends it.
  Snapshot train(std::uint32_t until);

  int pid() const;
  std::string place() const;  // node and process, for people
  std::uint32_t incarnation() const;

 private:
  void step();
  void agree();

  Rows rows_;
  Parameters parameters_;
  Adam adam_;
  std::uint32_t step_ = 0;
  double loss_ = 0;
  bool joined_ = false;
  troupe::Group group_;
  troupe::Tensor sums_;  // kParameters of the gradient, then the loss
};

}  // namespace digits

template <>
inline constexpr auto troupe::actor<digits::Replica> =
    troupe::describe<digits::Replica>("Replica")
        .constructor<troupe::Handle<digits::Preprocessor>, std::uint32_t, std::uint64_t>()
        .methods<&digits::Replica::form, &digits::Replica::train, &digits::Replica::pid,
                 &digits::Replica::place, &digits::Replica::incarnation>();
