// Trains a small convolutional network on the handwritten digits, data-parallel. See README.md.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "trainer.h"

namespace {

constexpr double kGood = 0.97;

int run(int count, int epochs) {
  using namespace conv;
  std::vector<troupe::Handle<Trainer>> trainers;
  auto options = troupe::ActorOptions().cpus(0.5);
  for (int i = 0; i < count; ++i)
    trainers.push_back(troupe::spawn<Trainer>(options, std::string(DIGITS_DATA), i, count));
  auto group = troupe::make_group(trainers, troupe::GroupOptions().keep_order());
  std::vector<troupe::Future<void>> joined;
  for (auto& one : trainers) joined.push_back(one.call<&Trainer::join>(group));
  for (auto& one : joined) one.get();
  for (int epoch = 0; epoch < epochs;) {
    int step = std::min(10, epochs - epoch);
    std::vector<troupe::Future<double>> losses;
    for (auto& one : trainers) losses.push_back(one.call<&Trainer::train>(step));
    double loss = 0;
    for (auto& one : losses) loss += one.get() / count;
    epoch += step;
    std::printf("conv: epoch %d/%d  loss %.4f  accuracy %.4f\n", epoch, epochs, loss,
                trainers[0].call<&Trainer::accuracy>().get());
    std::fflush(stdout);
  }
  double accuracy = trainers[0].call<&Trainer::accuracy>().get();
  auto first = trainers[0].call<&Trainer::parameters>().get();
  bool identical = true;
  for (auto& one : trainers) identical &= one.call<&Trainer::parameters>().get() == first;
  bool ok = identical && accuracy >= kGood;
  std::printf("conv: %s accuracy=%.4f identical=%s\n", ok ? "ok" : "failed", accuracy,
              identical ? "yes" : "no");
  return ok ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  troupe::Runtime runtime(argc, argv, troupe::classes<conv::Trainer>);
  int count = argc > 1 ? std::atoi(argv[1]) : 2, epochs = argc > 2 ? std::atoi(argv[2]) : 40;
  if (count < 1 || count > 16 || epochs < 1) {
    std::fprintf(stderr, "usage: conv [TRAINERS [EPOCHS]]\n");
    return 2;
  }
  try {
    return run(count, epochs);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "conv: %s\n", e.what());
    return 1;
  }
}
