// The cases of tools/bench/versus_ray in Ray's C++ API; prints one JSON object a case. Built by that script, both as
// a program and as the library that Ray's workers load. Two callers with an actor each are left out: an actor that
// creates another one did not return with Ray 2.60.
#include <ray/api.h>

#include <chrono>
#include <cstdio>
#include <vector>

constexpr int kOutstanding = 1000;

class Echo {
 public:
  static Echo* Create() { return new Echo; }
  int Add(int x) { return x + 1; }
};
RAY_REMOTE(Echo::Create, &Echo::Add);

void Outstanding(ray::ActorHandle<Echo>& echo, int batches) {
  for (int batch = 0; batch < batches; ++batch) {
    std::vector<ray::ObjectRef<int>> answers;
    answers.reserve(kOutstanding);
    for (int i = 0; i < kOutstanding; ++i) answers.push_back(echo.Task(&Echo::Add).Remote(i));
    for (auto& answer : answers) answer.Get();
  }
}

template <class Work>
void Report(const char* name, int calls, Work work) {
  auto begin = std::chrono::steady_clock::now();
  work();
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("{\"case\": \"%s\", \"value\": %f}\n", name, calls / seconds.count());
  std::fflush(stdout);
}

#ifndef AS_LIBRARY
int main(int argc, char** argv) {
  ray::RayConfig config;
  config.head_args = {"--num-cpus=2", "--include-dashboard=false"};
  ray::Init(config, argc, argv);
  try {
    auto echo = ray::Actor(Echo::Create).Remote();
    Outstanding(echo, 1);
    Report("sync", 3000, [&] {
      for (int i = 0; i < 3000; ++i) echo.Task(&Echo::Add).Remote(i).Get();
    });
    Report("async", 20 * kOutstanding, [&] { Outstanding(echo, 20); });

    Report("spawn", 100, [&] {
      std::vector<ray::ActorHandle<Echo>> actors;
      std::vector<ray::ObjectRef<int>> answers;
      for (int i = 0; i < 100; ++i) {
        actors.push_back(ray::Actor(Echo::Create).Remote());
        answers.push_back(actors.back().Task(&Echo::Add).Remote(1));
      }
      for (auto& answer : answers) answer.Get();
    });
  } catch (const std::exception& e) {
    std::fprintf(stderr, "cases: %s\n", e.what());
    return 1;
  }
  ray::Shutdown();
}
#endif
