// Trainer: one of the ranks that train one network together. Each holds the network, computes gradients on
// its share of the rows, and lets the group average them in libtorch's own memory.
#pragma once

#include <troupe/troupe.h>

#include <memory>
#include <string>
#include <vector>

namespace conv {

class Trainer {
 public:
  Trainer(const std::string& path, int index, int count);
  ~Trainer();
  Trainer(Trainer&&) noexcept;

  void join(troupe::Group group);
  double train(int epochs);  // the mean loss of its rows in the last one
  double accuracy() const;   // share of the test rows, 0…1
  std::vector<float> parameters() const;

 private:
  struct Network;  // keeps libtorch out of whoever includes this
  std::unique_ptr<Network> network_;
  troupe::Group group_;
};

}  // namespace conv

template <>
inline constexpr auto troupe::actor<conv::Trainer> =
    troupe::describe<conv::Trainer>("conv.Trainer")
        .constructor<std::string, int, int>()
        .methods<&conv::Trainer::join, &conv::Trainer::train, &conv::Trainer::accuracy,
                 &conv::Trainer::parameters>();
