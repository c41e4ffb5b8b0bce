#include "replica.h"

#include <unistd.h>

#include <algorithm>
#include <stdexcept>

namespace digits {

using troupe::DType;
using troupe::Tensor;

Replica::Replica(troupe::Handle<Preprocessor> source, std::uint32_t index, std::uint64_t seed)
    : rows_(source.with(troupe::CallOptions().retries(kRetries)).call<&Preprocessor::shard>(index).get()),
      parameters_(initial_parameters(seed)),
      sums_(Tensor::zeros(DType::f32, {static_cast<std::int64_t>(kParameters) + 1})) {}

std::uint32_t Replica::form(troupe::Group group) {
  if (joined_) {
    group_.reform().get();
  } else {
    group_ = std::move(group);
    group_.join().get();
    joined_ = true;
  }
  agree();
  return step_;
}

// The ranks tell each other how far they are; the first of those that are furthest gives its state to all.
void Replica::agree() {
  auto mine = Tensor::from(std::vector<std::int64_t>{step_});
  auto all = Tensor::zeros(DType::i64, {group_.size()});
  group_.all_gather(mine, all).get();
  auto steps = all.span<std::int64_t>();
  auto furthest = std::max_element(steps.begin(), steps.end());
  auto state = Tensor::zeros(DType::f32, {3, static_cast<std::int64_t>(kParameters)});
  float* to = state.span<float>().data();
  std::copy_n(parameters_.data(), kParameters, to);
  std::copy_n(adam_.mean().data(), kParameters, to + kParameters);
  std::copy_n(adam_.square().data(), kParameters, to + 2 * kParameters);
  group_.broadcast(state, static_cast<int>(furthest - steps.begin())).get();
  std::copy_n(to, kParameters, parameters_.data());
  step_ = static_cast<std::uint32_t>(*furthest);
  adam_.restore(static_cast<int>(step_), to + kParameters, to + 2 * kParameters);
}

Snapshot Replica::train(std::uint32_t until) {
  if (!joined_) throw std::runtime_error("the replica has not joined its group");
  while (step_ < until) step();
  return {step_, loss_, parameters_};
}

void Replica::step() {
  Gradient own = gradient(parameters_, rows_, step_ * kRowsPerStep % rows_.size(), kRowsPerStep);
  auto sums = sums_.span<float>();
  std::copy(own.sum.begin(), own.sum.end(), sums.begin());
  sums[kParameters] = static_cast<float>(own.loss);
  group_.all_reduce(sums_, troupe::ReduceOp::average).get();
  for (std::size_t k = 0; k < kParameters; ++k)
    own.sum[k] = (sums[k] + kDecay / kTrainers * parameters_[k]) / static_cast<float>(kRowsPerStep);
  loss_ = sums[kParameters] / static_cast<double>(kRowsPerStep);
  adam_.step(parameters_, own.sum);
  ++step_;
}

int Replica::pid() const { return ::getpid(); }

std::string Replica::place() const {
  return troupe::context().node_name() + ", process " + std::to_string(::getpid());
}

std::uint32_t Replica::incarnation() const { return troupe::context().incarnation(); }

}  // namespace digits
