#include "tests/sim/wishes.h"

namespace troupe::sim {

Wish Wish::draw(Random& random) {
  Wish wish;
  wish.light = random.chance(500);
  wish.crowd = random.chance(250);
  wish.detached = random.chance(80);
  if (random.chance(250)) {
    wish.name = "name-" + std::to_string(random.below(6));
    wish.get_or_create = random.chance(400);
  }
  if (random.chance(60)) wish.node = "n" + std::to_string(1 + random.below(5));
  constexpr int kRestarts[] = {0, 0, 1, 3, -1};
  wish.restarts = kRestarts[random.below(5)];
  if (random.chance(300))
    wish.cpu = static_cast<double>(1 + random.below(3)) / (random.chance(300) ? 2.0 : 1.0);
  if (random.chance(250)) {
    constexpr double kGpus[] = {0.25, 0.5, 0.3, 1, 1, 2};
    wish.gpu = kGpus[random.below(6)];
  }
  if (random.chance(25)) wish.gpu = 64;  // nobody has that many
  return wish;
}

void Wish::write(wire::ActorSpec::Builder to, ActorId actor, ActorId owner) const {
  to.setActor(actor.value);
  to.setClassName(crowd ? "Crowd" : "Counter");
  to.setOwner(owner.value);
  auto options = to.initOptions();
  options.setName(name.c_str());
  options.setNode(node.c_str());
  options.setIsolation(light ? wire::Isolation::LIGHT : wire::Isolation::PROCESS);
  options.setDetached(detached);
  options.setGetOrCreate(get_or_create);
  options.setMaxRestarts(restarts);
  Resources wanted;
  if (cpu > 0) (void)wanted.set("cpu", cpu);
  if (gpu > 0) (void)wanted.set("gpu", gpu);
  const auto& amounts = wanted.all();
  auto list = options.initResources(static_cast<unsigned>(amounts.size()));
  for (unsigned i = 0; i < list.size(); ++i) {
    list[i].setName(amounts[i].first.c_str());
    list[i].setUnits(amounts[i].second);
  }
}

SpawnRequest Wish::request(ActorId owner) const {
  SpawnRequest request;
  request.class_name = crowd ? "Crowd" : "Counter";
  request.owner = owner;
  request.name = name;
  request.node = node;
  request.light = light;
  request.detached = detached;
  request.get_or_create = get_or_create;
  request.max_restarts = restarts;
  if (cpu > 0) (void)request.resources.set("cpu", cpu);
  if (gpu > 0) (void)request.resources.set("gpu", gpu);
  return request;
}

}  // namespace troupe::sim
