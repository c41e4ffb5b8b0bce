#include "network.h"

#include <algorithm>
#include <cmath>

namespace digits {
namespace {

constexpr std::size_t kB1 = kInputs * kHidden, kW2 = kB1 + kHidden, kB2 = kW2 + kHidden * kClasses;

// splitmix64 (Steele, Lea, Flood 2014): the same numbers on every platform, unlike
// std::uniform_real_distribution.
std::uint64_t next(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

float uniform(std::uint64_t& state, float limit) {
  return (static_cast<float>(next(state) >> 40) / static_cast<float>(1 << 24) * 2 - 1) * limit;
}

// Activations of one row: hidden layer after rectification, and class scores.
void forward(const float* p, const float* x, float* hidden, float* scores) {
  std::copy_n(p + kB1, kHidden, hidden);
  for (std::size_t i = 0; i < kInputs; ++i) {
    const float* w = p + i * kHidden;
    for (std::size_t h = 0; h < kHidden; ++h) hidden[h] += x[i] * w[h];
  }
  for (std::size_t h = 0; h < kHidden; ++h) hidden[h] = std::max(hidden[h], 0.0f);
  std::copy_n(p + kB2, kClasses, scores);
  for (std::size_t h = 0; h < kHidden; ++h) {
    const float* w = p + kW2 + h * kClasses;
    for (std::size_t c = 0; c < kClasses; ++c) scores[c] += hidden[h] * w[c];
  }
}

}  // namespace

Parameters initial_parameters(std::uint64_t seed) {
  Parameters p(kParameters);
  const float first = std::sqrt(6.0f / (kInputs + kHidden)), second = std::sqrt(6.0f / (kHidden + kClasses));
  for (std::size_t i = 0; i < kParameters; ++i) p[i] = uniform(seed, i < kW2 ? first : second);
  return p;
}

Gradient gradient(const Parameters& parameters, const Rows& rows, std::size_t begin, std::size_t count) {
  Gradient out;
  out.sum.assign(kParameters, 0);
  out.rows = static_cast<std::uint32_t>(count);
  float hidden[kHidden], scores[kClasses], back[kHidden];
  const float* p = parameters.data();
  float* g = out.sum.data();
  for (std::size_t n = 0; n < count; ++n) {
    std::size_t row = (begin + n) % rows.size();
    const float* x = rows.pixels.data() + row * kInputs;
    forward(p, x, hidden, scores);
    // Softmax; the derivative of the loss by the scores is probability minus truth.
    float top = *std::max_element(scores, scores + kClasses), sum = 0;
    for (float& s : scores) sum += s = std::exp(s - top);
    for (float& s : scores) s /= sum;
    out.loss -= std::log(std::max(scores[rows.labels[row]], 1e-12f));
    scores[rows.labels[row]] -= 1;
    for (std::size_t h = 0; h < kHidden; ++h) {
      const float* w = p + kW2 + h * kClasses;
      float* gw = g + kW2 + h * kClasses;
      float d = 0;
      for (std::size_t c = 0; c < kClasses; ++c) {
        d += w[c] * scores[c];
        gw[c] += hidden[h] * scores[c];
      }
      back[h] = hidden[h] > 0 ? d : 0;
    }
    for (std::size_t c = 0; c < kClasses; ++c) g[kB2 + c] += scores[c];
    for (std::size_t i = 0; i < kInputs; ++i) {
      float* gw = g + i * kHidden;
      for (std::size_t h = 0; h < kHidden; ++h) gw[h] += x[i] * back[h];
    }
    for (std::size_t h = 0; h < kHidden; ++h) g[kB1 + h] += back[h];
  }
  return out;
}

std::size_t count_right(const Parameters& parameters, const Rows& rows) {
  float hidden[kHidden], scores[kClasses];
  std::size_t right = 0;
  for (std::size_t n = 0; n < rows.size(); ++n) {
    forward(parameters.data(), rows.pixels.data() + n * kInputs, hidden, scores);
    right += std::max_element(scores, scores + kClasses) - scores == rows.labels[n];
  }
  return right;
}

void Adam::step(Parameters& parameters, const std::vector<float>& gradient) {
  constexpr float kMean = 0.9f, kSquare = 0.999f, kSmall = 1e-8f;
  ++steps_;
  float rate = rate_ * std::sqrt(1 - std::pow(kSquare, static_cast<float>(steps_))) /
               (1 - std::pow(kMean, static_cast<float>(steps_)));
  for (std::size_t i = 0; i < kParameters; ++i) {
    mean_[i] = kMean * mean_[i] + (1 - kMean) * gradient[i];
    square_[i] = kSquare * square_[i] + (1 - kSquare) * gradient[i] * gradient[i];
    parameters[i] -= rate * mean_[i] / (std::sqrt(square_[i]) + kSmall);
  }
}

void Adam::restore(int steps, const float* mean, const float* square) {
  steps_ = steps;
  mean_.assign(mean, mean + kParameters);
  square_.assign(square, square + kParameters);
}

}  // namespace digits
