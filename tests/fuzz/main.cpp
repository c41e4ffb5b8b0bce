// Runs a fuzz target on mutated inputs: `fuzz_NAME --runs N --seed S`, or on the files it is given. A run
// that fails leaves its input in the file fuzz-NAME-SEED-RUN, or where --keep says, to be replayed.
//
// With clang's libFuzzer (-DTROUPE_LIBFUZZER=ON) the target is built without this file, and LLVM drives it.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "tests/fuzz/target.h"

namespace troupe::fuzz {
namespace {

constexpr std::size_t kLongest = 4096;

Input current;
std::string keep;

// Whatever ends the process, its input is on disk.
void save_input(int signal) {
  int fd = ::open(keep.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  bool saved = fd >= 0 && ::write(fd, current.data(), current.size()) >= 0;
  std::fprintf(stderr, "fuzz: failed; input %s%s\n", saved ? "kept in " : "lost, no file ", keep.c_str());
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void mutate(Input& input, std::mt19937_64& random) {
  static const std::uint8_t telling[] = {0, 1, 7, 8, 15, 16, 0x7f, 0x80, 0xf8, 0xff};
  for (std::uint64_t i = 1 + random() % 8; i > 0; --i) {
    std::size_t at = input.empty() ? 0 : random() % input.size();
    auto place = input.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random() % 6) {
      case 0:
        if (!input.empty()) *place ^= static_cast<std::uint8_t>(1u << random() % 8);
        break;
      case 1:
        if (!input.empty()) *place = telling[random() % std::size(telling)];
        break;
      case 2:
        if (!input.empty()) *place = static_cast<std::uint8_t>(random());
        break;
      case 3:
        input.insert(place, static_cast<std::uint8_t>(random()));
        break;
      case 4:
        if (!input.empty())
          input.erase(place, place + static_cast<std::ptrdiff_t>(
                                         1 + random() % std::min<std::size_t>(16, input.size() - at)));
        break;
      default: {  // a part of it once more
        Input part(place,
                   input.begin() + static_cast<std::ptrdiff_t>(std::min(input.size(), at + random() % 32)));
        input.insert(input.begin() + static_cast<std::ptrdiff_t>(input.empty() ? 0 : random() % input.size()),
                     part.begin(), part.end());
      }
    }
  }
  if (input.size() > kLongest) input.resize(kLongest);
}

int run_all(std::uint64_t runs, std::uint64_t seed) {
  auto pool = seeds();
  std::mt19937_64 random(seed);
  for (std::uint64_t i = 0; i < runs; ++i) {
    current = pool[random() % pool.size()];
    // The seeds themselves first; then mutations, also of mutations.
    if (i < pool.size())
      current = pool[i];
    else
      mutate(current, random);
    run(current);
    if (random() % 64 == 0) pool[random() % pool.size()] = current;
  }
  std::printf("fuzz: %llu runs, seed %llu: ok\n", static_cast<unsigned long long>(runs),
              static_cast<unsigned long long>(seed));
  return 0;
}

int main(int argc, char** argv) {
  std::uint64_t runs = 10'000, seed = 1;
  std::vector<std::string> files;
  std::string name = argv[0];
  name = name.substr(name.rfind('/') + 1);
  for (int i = 1; i < argc; ++i) {
    std::string option = argv[i];
    bool more = i + 1 < argc;
    if (option == "--runs" && more)
      runs = std::strtoull(argv[++i], nullptr, 10);
    else if (option == "--seed" && more)
      seed = std::strtoull(argv[++i], nullptr, 10);
    else if (option == "--keep" && more)
      keep = argv[++i];
    else if (option.rfind("--", 0) == 0) {
      std::fprintf(stderr, "usage: %s [--runs N] [--seed S] [--keep FILE] [FILE...]\n", name.c_str());
      return 2;
    } else
      files.push_back(option);
  }
  if (keep.empty()) keep = name + "-" + std::to_string(seed) + ".input";
  for (int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::signal(signal, save_input);
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    current.assign(std::istreambuf_iterator<char>(in), {});
    run(current);
  }
  return files.empty() ? run_all(runs, seed) : 0;
}

}  // namespace
}  // namespace troupe::fuzz

int main(int argc, char** argv) { return troupe::fuzz::main(argc, argv); }
