// What docs/concepts/devices.md quotes: compiled here, run by the tests of the cluster on devices that are
// none.
#include <troupe/troupe.h>

#include <cstdio>

struct Trainer {
  float loss(troupe::Tensor weights);  // of a GPU, on this actor's
};

template <>
inline constexpr auto troupe::actor<Trainer> = troupe::describe<Trainer>("Trainer").methods<&Trainer::loss>();

float Trainer::loss(troupe::Tensor weights) { return troupe::to_cpu(weights).view<float, 2>()(0, 0); }

int main(int argc, char** argv) {
  troupe::Runtime runtime(argc, argv, troupe::classes<Trainer>);
  if (troupe::device_count() == 0) return 3;
  auto on_cpu = troupe::Tensor::zeros(troupe::DType::f32, {1024, 1024});
  auto trainer = troupe::spawn<Trainer>(troupe::ActorOptions().gpus(0.5));
  auto weights = troupe::to_device(on_cpu, troupe::Device::cuda(0));
  float loss = trainer.call<&Trainer::loss>(weights).get();  // on one node: the memory itself
  troupe::Tensor back = troupe::to_cpu(weights);
  std::printf("%f %s\n", loss, back.describe().c_str());
}
