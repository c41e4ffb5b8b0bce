// The actors of the training: who does what, and where state lives.
//
//   Preprocessor   parses, scales and shards the training rows; stateless, may be made again anywhere
//   Trainer        computes gradients on its shard, which it fetches when it is made: may be made again too
//   Server         holds the parameters; averages the trainers' gradients and steps; the only one with state
//   Evaluator      counts what the parameters get right on the test rows
//
// Replica (replica.h) takes the place of Trainer and Server where the gradients are averaged by a group.
#pragma once

#include <troupe/troupe.h>

#include <string>
#include <vector>

#include "dataset.h"

namespace digits {

inline constexpr std::uint32_t kTrainers = 4;
inline constexpr std::size_t kRowsPerStep = 50;  // of each trainer
inline constexpr float kDecay = 1e-4f;           // L2, per row as in scikit-learn's alpha
inline constexpr int kRetries = 20;              // of calls whose callee died

class Preprocessor {
 public:
  explicit Preprocessor(std::string path) : path_(std::move(path)) {}
  // Every kTrainers-th of the training rows, from `index` on.
  Rows shard(std::uint32_t index) const;

 private:
  std::string path_;
};

class Trainer {
 public:
  Trainer(troupe::Handle<Preprocessor> source, std::uint32_t index);
  // Of kRowsPerStep rows, chosen by the step alone: made again, the trainer computes the same bits.
  Gradient compute(const Parameters& parameters, std::uint32_t step) const;
  int pid() const;
  std::string place() const;  // node and process, for people
  std::uint32_t incarnation() const;

 private:
  Rows rows_;
};

struct Progress {
  std::uint32_t step = 0;
  double loss = 0;  // mean cross-entropy of the last step's rows, nats
};

class Server {
 public:
  Server(std::vector<troupe::Handle<Trainer>> trainers, std::uint64_t seed);
  // Runs `count` synchronous steps: sends the parameters, waits for all gradients, averages them in the
  // trainers' order, steps.
  troupe::Task<Progress> train(std::uint32_t count);
  Parameters parameters() const { return parameters_; }

 private:
  std::vector<troupe::Handle<Trainer>> trainers_;
  Parameters parameters_;
  Adam adam_;
  std::uint32_t step_ = 0;
};

class Evaluator {
 public:
  explicit Evaluator(const std::string& path);
  double accuracy(const Parameters& parameters) const;  // share of the test rows, 0…1

 private:
  Rows rows_;
};

}  // namespace digits

template <>
inline constexpr auto troupe::actor<digits::Preprocessor> =
    troupe::describe<digits::Preprocessor>("Preprocessor")
        .constructor<std::string>()
        .methods<&digits::Preprocessor::shard>();
template <>
inline constexpr auto troupe::actor<digits::Trainer> =
    troupe::describe<digits::Trainer>("Trainer")
        .constructor<troupe::Handle<digits::Preprocessor>, std::uint32_t>()
        .methods<&digits::Trainer::compute, &digits::Trainer::pid, &digits::Trainer::place,
                 &digits::Trainer::incarnation>();
template <>
inline constexpr auto troupe::actor<digits::Server> =
    troupe::describe<digits::Server>("Server")
        .constructor<std::vector<troupe::Handle<digits::Trainer>>, std::uint64_t>()
        .methods<&digits::Server::train, &digits::Server::parameters>();
template <>
inline constexpr auto troupe::actor<digits::Evaluator> = troupe::describe<digits::Evaluator>("Evaluator")
                                                             .constructor<std::string>()
                                                             .methods<&digits::Evaluator::accuracy>();
