// A perceptron 64-64-10: rectified hidden layer, softmax output, cross-entropy loss with L2 on the weights.
// Deterministic: the same parameters and rows give the same bits, on any host that runs the same executable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace digits {

inline constexpr std::size_t kInputs = 64, kHidden = 64, kClasses = 10;
inline constexpr std::size_t kParameters = kInputs * kHidden + kHidden + kHidden * kClasses + kClasses;

// Rows of 64 pixels scaled to 0…1, and their digits.
struct Rows {
  std::vector<float> pixels;  // size() × kInputs
  std::vector<std::uint8_t> labels;
  std::size_t size() const { return labels.size(); }
};

// All weights and biases in one vector: W1 [64×64], b1 [64], W2 [64×10], b2 [10].
using Parameters = std::vector<float>;

// Uniform in ±sqrt(6 / (inputs + outputs)) (Glorot and Bengio 2010), biases too, from a seeded generator.
Parameters initial_parameters(std::uint64_t seed);

struct Gradient {
  std::vector<float> sum;  // kParameters: summed over the rows, without L2
  double loss = 0;         // summed cross-entropy, nats
  std::uint32_t rows = 0;
};

// Of the rows begin, begin+1, … (count of them, wrapping around).
Gradient gradient(const Parameters& parameters, const Rows& rows, std::size_t begin, std::size_t count);

// How many rows are classified right.
std::size_t count_right(const Parameters& parameters, const Rows& rows);

// Adam (Kingma and Ba 2015) with bias correction.
class Adam {
 public:
  explicit Adam(float rate = 1e-3f) : rate_(rate), mean_(kParameters), square_(kParameters) {}
  void step(Parameters& parameters, const std::vector<float>& gradient);

  // What it remembers: running means of the gradients and of their squares, after so many steps.
  const std::vector<float>& mean() const { return mean_; }
  const std::vector<float>& square() const { return square_; }
  void restore(int steps, const float* mean, const float* square);

 private:
  float rate_;
  int steps_ = 0;
  std::vector<float> mean_, square_;
};

}  // namespace digits
