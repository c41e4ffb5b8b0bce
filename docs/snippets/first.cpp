// The first program of README.md and of the tutorial.
#include <troupe/troupe.h>

#include <cstdio>

struct Counter {
  int add(int n) { return value += n; }
  int value = 0;
};

template <>
inline constexpr auto troupe::actor<Counter> = troupe::describe<Counter>("Counter").methods<&Counter::add>();

int main(int argc, char** argv) {
  troupe::Runtime runtime(argc, argv, troupe::classes<Counter>);
  auto counter = troupe::spawn<Counter>(troupe::ActorOptions());
  counter.call<&Counter::add>(40).get();
  std::printf("%d\n", counter.call<&Counter::add>(2).get());
}
