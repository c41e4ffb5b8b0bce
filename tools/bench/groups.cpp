// Collectives between processes of this machine, against a program that uses Gloo alone: the same
// connections, the same sizes, Gloo's own all-reduce.
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/base/clock.h"
#include "runtime/group/communicator.h"
#include "tools/bench/harness.h"

namespace troupe::bench {
namespace {

// The ranks meet in a folder: a file each.
class FolderExchange final : public Exchange {
 public:
  FolderExchange(std::filesystem::path folder, int rank, int size)
      : folder_(std::move(folder)), rank_(rank), size_(size) {}

  Result<std::vector<std::string>> all_gather(const std::string& mine, std::int64_t deadline_ns) override {
    auto draft = folder_ / ("draft" + std::to_string(rank_));
    std::ofstream(draft, std::ios::binary) << mine;
    std::filesystem::rename(draft, folder_ / std::to_string(rank_));
    std::vector<std::string> all;
    while (all.size() < static_cast<std::size_t>(size_)) {
      if (steady_ns() > deadline_ns) return Error(ErrorKind::deadline_exceeded, "not all ranks came");
      std::ifstream file(folder_ / std::to_string(all.size()), std::ios::binary);
      if (file)
        all.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
      else
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return all;
  }
  void cancel(const Error&) override {}

 private:
  const std::filesystem::path folder_;
  const int rank_, size_;
};

// Of the ranks, which are forked from this process.
const Token kToken = *Token::random();

// Operations a second, of rank 0, after some that do not count.
double rate(int rounds, const std::function<void()>& round) {
  for (int i = 0; i < std::max(rounds / 10, 1); ++i) round();
  double begin = seconds_now();
  for (int i = 0; i < rounds; ++i) round();
  return rounds / (seconds_now() - begin);
}

double with_troupe(const std::filesystem::path& folder, int rank, int size, std::int64_t count, int rounds) {
  CommunicatorOptions options;
  options.token = kToken;
  options.rank = rank;
  options.size = size;
  Communicator group(options, std::make_shared<FolderExchange>(folder, rank, size));
  Tensor tensor = Tensor::zeros(DType::f32, {count});
  auto good = [](Result<void> result) {
    if (result) return;
    std::fprintf(stderr, "bench: %s\n", result.error().describe().c_str());
    std::_Exit(1);
  };
  good(group.connect().wait());
  double value = rate(rounds, [&] {
    Operation operation;
    operation.kind = OpKind::all_reduce;
    operation.in = operation.out = tensor;
    good(group.run(std::move(operation)));
  });
  good(group.barrier().wait());
  return value;
}

double with_gloo(const std::filesystem::path& folder, int rank, int size, std::int64_t count, int rounds) {
  std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice("127.0.0.1");
  gloo::rendezvous::FileStore store(folder.string());
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  context->connectFullMesh(store, device);
  std::vector<float> values(static_cast<std::size_t>(count));
  std::uint32_t tag = 0;
  double value = rate(rounds, [&] {
    gloo::AllreduceOptions options(context);
    options.setOutput(values.data(), values.size());
    options.setReduceFunction(
        [](void* c, const void* a, const void* b, std::size_t n) { gloo::sum<float>(c, a, b, n); });
    options.setTag(tag++);
    gloo::allreduce(options);
  });
  // Nobody leaves before all have ended.
  ::usleep(50'000);
  return value;
}

using Program = double (*)(const std::filesystem::path&, int, int, std::int64_t, int);

double measure(Program program, int size, std::int64_t count, int rounds) {
  std::string folder = (std::filesystem::temp_directory_path() / "troupe_bench_XXXXXX").string();
  int answer[2];
  if (::mkdtemp(folder.data()) == nullptr || ::pipe(answer) != 0) {
    std::perror("bench: ranks");
    std::exit(1);
  }
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < size; ++rank) {
    pid_t pid = ::fork();
    if (pid == 0) {
      double value = program(folder, rank, size, count, rounds);
      bool told = rank != 0 || ::write(answer[1], &value, sizeof value) == sizeof value;
      ::_exit(told ? 0 : 1);
    }
    ranks.push_back(pid);
  }
  ::close(answer[1]);
  double value = 0;
  bool good = ::read(answer[0], &value, sizeof value) == sizeof value;
  ::close(answer[0]);
  for (pid_t pid : ranks) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    good = good && status == 0;
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (!good) {
    std::fprintf(stderr, "bench: a rank failed\n");
    std::exit(1);
  }
  return value;
}

Case all_reduce(const char* name, const char* what, int size, std::int64_t bytes, int rounds) {
  Case one{name, "1/s", what, [=] { return measure(with_troupe, size, bytes / 4, rounds); },
           [=] { return measure(with_gloo, size, bytes / 4, rounds); }};
  one.cluster = false;
  return one;
}

}  // namespace

std::vector<Case> group_cases() {
  return {
      all_reduce("allreduce_4k", "sum of 4 KiB of f32, 2 ranks; floor: Gloo alone", 2, 4 << 10, 1000),
      all_reduce("allreduce_4k_x4", "the same with 4 ranks", 4, 4 << 10, 600),
      all_reduce("allreduce_64m", "sum of 64 MiB of f32, 2 ranks; floor: Gloo alone", 2, 64 << 20, 8),
      all_reduce("allreduce_64m_x4", "the same with 4 ranks", 4, 64 << 20, 5),
  };
}

}  // namespace troupe::bench
