#include "actors.h"

#include <unistd.h>

namespace digits {

Rows Preprocessor::shard(std::uint32_t index) const {
  Rows all = load_rows(path_, 0, kTrainingRows);
  Rows out;
  for (std::size_t row = index; row < all.size(); row += kTrainers) {
    auto pixels = all.pixels.begin() + static_cast<std::ptrdiff_t>(row * kInputs);
    out.pixels.insert(out.pixels.end(), pixels, pixels + kInputs);
    out.labels.push_back(all.labels[row]);
  }
  return out;
}

Trainer::Trainer(troupe::Handle<Preprocessor> source, std::uint32_t index)
    : rows_(source.with(troupe::CallOptions().retries(kRetries)).call<&Preprocessor::shard>(index).get()) {}

Gradient Trainer::compute(const Parameters& parameters, std::uint32_t step) const {
  return gradient(parameters, rows_, step * kRowsPerStep % rows_.size(), kRowsPerStep);
}

int Trainer::pid() const { return ::getpid(); }

std::string Trainer::place() const {
  return troupe::context().node_name() + ", process " + std::to_string(::getpid());
}

std::uint32_t Trainer::incarnation() const { return troupe::context().incarnation(); }

Server::Server(std::vector<troupe::Handle<Trainer>> trainers, std::uint64_t seed)
    : trainers_(std::move(trainers)), parameters_(initial_parameters(seed)) {}

troupe::Task<Progress> Server::train(std::uint32_t count) {
  Progress progress;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::vector<troupe::Future<Gradient>> pending;
    for (auto& trainer : trainers_) {
      auto options = troupe::CallOptions().retries(kRetries);
      pending.push_back(trainer.with(options).call<&Trainer::compute>(parameters_, step_));
    }
    std::vector<float> mean(kParameters, 0);
    double loss = 0;
    std::uint32_t rows = 0;
    for (auto& future : pending) {
      Gradient part = co_await future;
      for (std::size_t k = 0; k < kParameters; ++k) mean[k] += part.sum[k];
      loss += part.loss;
      rows += part.rows;
    }
    for (std::size_t k = 0; k < kParameters; ++k)
      mean[k] = (mean[k] + kDecay * parameters_[k]) / static_cast<float>(rows);
    adam_.step(parameters_, mean);
    ++step_;
    progress = {step_, loss / rows};
  }
  co_return progress;
}

Evaluator::Evaluator(const std::string& path) : rows_(load_rows(path, kTrainingRows, row_count(path))) {}

double Evaluator::accuracy(const Parameters& parameters) const {
  return static_cast<double>(count_right(parameters, rows_)) / static_cast<double>(rows_.size());
}

}  // namespace digits
