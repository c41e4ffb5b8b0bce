#include "trainer.h"

#include <torch/torch.h>
#include <troupe/torch.h>

#include "../digits/dataset.h"

namespace conv {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

constexpr std::int64_t kBatch = 16, kSide = 8;
constexpr std::uint64_t kSeed = 1;

struct Data {
  torch::Tensor images, labels;
};

Data load(const std::string& path, std::size_t begin, std::size_t end, int index, int count) {
  digits::Rows rows = digits::load_rows(path, begin, end);
  auto n = static_cast<std::int64_t>(rows.size());
  std::vector<std::int64_t> labels(rows.labels.begin(), rows.labels.end());
  Data all{torch::from_blob(rows.pixels.data(), {n, 1, kSide, kSide}).clone(), torch::tensor(labels)};
  auto mine = torch::arange(index, n, count);
  return {all.images.index_select(0, mine), all.labels.index_select(0, mine)};
}

// Moved by up to one pixel each way: digits are not always in the middle.
torch::Tensor moved(const torch::Tensor& images) {
  auto wide = torch::constant_pad_nd(images, {1, 1, 1, 1});
  auto out = torch::empty_like(images);
  auto by = torch::randint(0, 3, {images.size(0), 2});
  for (std::int64_t i = 0; i < images.size(0); ++i)
    out[i] = wide[i]
                 .narrow(1, by[i][0].item<std::int64_t>(), kSide)
                 .narrow(2, by[i][1].item<std::int64_t>(), kSide);
  return out;
}

}  // namespace

struct Trainer::Network {
  nn::Sequential layers{nn::Conv2d(nn::Conv2dOptions(1, 16, 3).padding(1)),
                        nn::ReLU(),
                        nn::Conv2d(nn::Conv2dOptions(16, 32, 3).padding(1)),
                        nn::ReLU(),
                        nn::MaxPool2d(2),
                        nn::Conv2d(nn::Conv2dOptions(32, 64, 3).padding(1)),
                        nn::ReLU(),
                        nn::MaxPool2d(2),
                        nn::Flatten(),
                        nn::Dropout(0.25),
                        nn::Linear(64 * 2 * 2, 10)};
  std::unique_ptr<torch::optim::Adam> adam;
  Data rows, test;
  std::int64_t batches = 0;  // of each rank in an epoch: the same for all
  torch::Tensor gradients;   // of all parameters, one after the other
  troupe::Tensor shared;     // the same memory
};

Trainer::Trainer(const std::string& path, int index, int count) {
  torch::set_num_threads(1);
  torch::manual_seed(kSeed);  // all begin with the same parameters
  network_ = std::make_unique<Network>();
  Network& n = *network_;
  n.adam = std::make_unique<torch::optim::Adam>(n.layers->parameters(), torch::optim::AdamOptions(2e-3));
  n.rows = load(path, 0, digits::kTrainingRows, index, count);
  n.test = load(path, digits::kTrainingRows, digits::row_count(path), 0, 1);
  n.batches = static_cast<std::int64_t>(digits::kTrainingRows) / count / kBatch;
  std::int64_t size = 0;
  for (const auto& one : n.layers->parameters()) size += one.numel();
  n.gradients = torch::zeros({size});
  n.shared = troupe::from_torch(n.gradients);
  torch::manual_seed(kSeed + 1000 + static_cast<std::uint64_t>(index));  // of shuffles, shifts and dropout
}

Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;

void Trainer::join(troupe::Group group) {
  group_ = std::move(group);
  group_.join().get();
}

double Trainer::train(int epochs) {
  Network& n = *network_;
  auto parameters = n.layers->parameters();
  n.layers->train();
  double sum = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    auto order = torch::randperm(n.rows.labels.size(0));
    sum = 0;
    for (std::int64_t b = 0; b < n.batches; ++b) {
      auto rows = order.narrow(0, b * kBatch, kBatch);
      n.layers->zero_grad();
      auto scores = n.layers->forward(moved(n.rows.images.index_select(0, rows)));
      auto loss = F::cross_entropy(scores, n.rows.labels.index_select(0, rows));
      loss.backward();
      std::int64_t at = 0;
      for (auto& one : parameters)
        n.gradients.narrow(0, std::exchange(at, at + one.numel()), one.numel()).copy_(one.grad().flatten());
      group_.all_reduce(n.shared, troupe::ReduceOp::average).get();
      at = 0;
      for (auto& one : parameters)
        one.mutable_grad().copy_(
            n.gradients.narrow(0, std::exchange(at, at + one.numel()), one.numel()).view_as(one));
      n.adam->step();
      sum += loss.item<double>();
    }
  }
  return sum / static_cast<double>(n.batches);
}

double Trainer::accuracy() const {
  torch::NoGradGuard no_gradients;
  Network& n = *network_;
  n.layers->eval();
  auto right = n.layers->forward(n.test.images).argmax(1).eq(n.test.labels).sum();
  return right.item<double>() / static_cast<double>(n.test.labels.size(0));
}

std::vector<float> Trainer::parameters() const {
  std::vector<float> all;
  for (const auto& one : network_->layers->parameters()) {
    auto flat = one.detach().flatten();
    all.insert(all.end(), flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
  }
  return all;
}

}  // namespace conv
