// The two ways to train, as the driver sees them: a parameter server (ps.cpp), or replicas that average their
// gradients in a group (allreduce.cpp). Both train the same network on the same rows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors.h"
#include "replica.h"

namespace digits {

class Training {
 public:
  virtual ~Training() = default;
  // Asks for the steps up to that one and returns at once; finish() waits for them, and mends what died.
  virtual void begin(std::uint32_t until) = 0;
  virtual Snapshot finish() = 0;
  // Of the trainers. place() and restarts() wait for one that is being made again.
  virtual int pid(std::size_t trainer) = 0;
  virtual std::string place(std::size_t trainer) = 0;
  virtual std::uint32_t restarts() = 0;
  virtual void end() = 0;  // ends all actors
};

std::unique_ptr<Training> train_with_server(const std::string& data, std::uint64_t seed);
std::unique_ptr<Training> train_with_group(const std::string& data, std::uint64_t seed);

// What survives a node's death by being made again elsewhere.
inline troupe::ActorOptions restartable() { return troupe::ActorOptions().cpus(0.25).max_restarts(-1); }
// On the first node; the last one is the one that may be killed.
inline troupe::ActorOptions safe() {
  return troupe::ActorOptions().cpus(0.25).node(troupe::nodes().front().name);
}

// What both have in common: the preprocessors, and trainers of one class.
template <class T>
class Crew : public Training {
 public:
  explicit Crew(const std::string& data) {
    for (int i = 0; i < 2; ++i) sources_.push_back(troupe::spawn<Preprocessor>(restartable(), data));
  }
  int pid(std::size_t trainer) override { return retried(trainer).template call<&T::pid>().get(); }
  std::string place(std::size_t trainer) override {
    return retried(trainer).template call<&T::place>().get();
  }
  std::uint32_t restarts() override {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < trainers_.size(); ++i)
      sum += retried(i).template call<&T::incarnation>().get() - 1;
    return sum;
  }
  void end() override {
    for (auto& trainer : trainers_) trainer.kill().get();
    for (auto& source : sources_) source.kill().get();
  }

 protected:
  auto retried(std::size_t trainer) {
    return trainers_[trainer].with(troupe::CallOptions().retries(kRetries));
  }
  const troupe::Handle<Preprocessor>& source(std::uint32_t i) const { return sources_[i % sources_.size()]; }

  std::vector<troupe::Handle<Preprocessor>> sources_;
  std::vector<troupe::Handle<T>> trainers_;
};

}  // namespace digits
