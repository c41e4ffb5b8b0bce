#include "durable.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "check.h"

namespace probe {

DurableSize durable_size;

int Ledger::append(int n) {
  entries_.push_back(n);
  return static_cast<int>(entries_.size());
}

void Ledger::refuse(const std::string& why) {
  entries_.push_back(-1);
  throw std::invalid_argument(why);
}

int Ledger::pid() const { return ::getpid(); }
std::uint32_t Ledger::incarnation() const { return troupe::context().incarnation(); }
std::string Ledger::where() const { return troupe::context().node_name(); }

namespace {

namespace fs = std::filesystem;
using troupe::ActorOptions;
using troupe::Durable;
using troupe::JournalPlace;

std::string scratch() {
  const char* folder = std::getenv("TMPDIR");
  return folder != nullptr ? folder : "/tmp";
}

JournalPlace shared() {
  std::string folder = scratch() + "/shared";
  ::mkdir(folder.c_str(), 0700);
  return JournalPlace::shared(folder);
}

// The files of an actor's journal, wherever below the scratch folder, and notes of them.
std::vector<std::string> files_of(troupe::ActorId id) {
  std::vector<std::string> out;
  std::error_code bad;
  std::string start = std::to_string(id.value) + "-";
  for (fs::recursive_directory_iterator at(scratch(), fs::directory_options::skip_permission_denied, bad),
       end;
       !bad && at != end; at.increment(bad)) {
    if (at->path().filename().string().rfind(start, 0) == 0) out.push_back(at->path().string());
  }
  return out;
}

// Their processes are killed while they are called: what was answered has been applied once and in order.
void killed(troupe::DurableActorOptions options, bool one_process) {
  constexpr std::size_t kWindow = 100;
  auto begin = std::chrono::steady_clock::now();
  const auto [actors, calls, kills] = durable_size;
  struct Book {
    troupe::Handle<Ledger> ledger;
    std::deque<troupe::Future<int>> waiting;
    int answered = 0, killed = 0;
  };
  std::vector<Book> books(static_cast<std::size_t>(actors));
  for (auto& book : books) book.ledger = troupe::spawn<Ledger>(options);
  auto take = [](Book& book) {
    int got = book.waiting.front().get();
    book.waiting.pop_front();
    ++book.answered;
    check(got == book.answered,
          "call " + std::to_string(book.answered) + " was answered " + std::to_string(got));
  };
  for (int i = 0; i < calls; ++i) {
    for (auto& book : books) {
      bool due = i >= (book.killed + 1) * calls / (kills + 1);
      if (due && book.killed < kills && (!one_process || &book == &books.front())) {
        int pid = book.ledger.call<&Ledger::pid>().get();
        // Some calls are under way when it dies.
        ::kill(pid, SIGKILL);
        ++book.killed;
      }
      if (book.waiting.size() == kWindow) take(book);
      book.waiting.push_back(book.ledger.call<&Ledger::append>(i));
    }
  }
  std::vector<int> expected;
  for (int i = 0; i < calls; ++i) expected.push_back(i);
  for (auto& book : books) {
    while (!book.waiting.empty()) take(book);
    check(book.ledger.call<&Ledger::all>().get() == expected, "a call was lost, repeated or out of order");
    if (!one_process) {
      check(book.ledger.call<&Ledger::incarnation>().get() == static_cast<std::uint32_t>(kills) + 1,
            "it was made again " + std::to_string(book.ledger.call<&Ledger::incarnation>().get()));
    }
    book.ledger.kill().get();
  }
  int killed = 0;
  for (auto& book : books) killed += book.killed;
  std::printf("probe: %d calls to %d actors, %d kills, %.1f s: each call was applied once and in order\n",
              actors * calls, actors, killed,
              std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  // Nothing of them is left.
  for (auto& book : books) {
    eventually([&] { return files_of(book.ledger.id()).empty(); }, "files of a dead actor are left");
  }
}

void state(JournalPlace place, bool node_only) {
  auto ledger = troupe::spawn<Ledger>(
      ActorOptions().durable(Durable().journal(std::move(place)).snapshot_every(7)).cpus(0.5));
  std::string home = ledger.call<&Ledger::where>().get();
  std::vector<int> expected;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 10; ++i) {
      ledger.call<&Ledger::append>(i).get();
      expected.push_back(i);
    }
    try {
      ledger.call<&Ledger::refuse>("no").get();
      check(false, "an exception was expected");
    } catch (const troupe::ActorError& e) {
      check(e.error().message == "no", e.what());
    }
    expected.push_back(-1);
    auto before = ledger.call<&Ledger::incarnation>().get();
    ledger.restart().get();
    // The old one may answer until its process has ended.
    eventually([&] { return ledger.call<&Ledger::incarnation>().get() > before; }, "it is made again");
    check(ledger.call<&Ledger::all>().get() == expected, "the state came back");
    if (node_only) {
      check(ledger.call<&Ledger::where>().get() == home, "on the same node");
      check(!files_of(ledger.id()).empty(), "its files are there");
    }
  }
  ledger.kill().get();
  eventually([&] { return files_of(ledger.id()).empty(); }, "its files are gone");
}

// The machine of the actor dies: it goes on on the other one.
void node_lost(JournalPlace place) {
  constexpr int kCalls = 500;
  auto ledger =
      troupe::spawn<Ledger>(ActorOptions().durable(Durable().journal(std::move(place)).snapshot_every(100)));
  std::string home = ledger.call<&Ledger::where>().get();
  std::vector<troupe::Future<int>> answers;
  std::vector<int> expected;
  for (int i = 0; i < kCalls; ++i) {
    answers.push_back(ledger.call<&Ledger::append>(i));
    expected.push_back(i);
    if (i != kCalls / 2) continue;
    answers.back().wait_for(std::chrono::seconds(60));
    for (auto& node : troupe::nodes()) {
      if (node.name == home) ::kill(node.pid, SIGKILL);
    }
  }
  for (int i = 0; i < kCalls; ++i) check(answers[static_cast<std::size_t>(i)].get() == i + 1, "an answer");
  check(ledger.call<&Ledger::all>().get() == expected, "each call once and in order");
  // Its old process may have answered all of them in the moment between its agent's end and its own.
  eventually([&] { return ledger.call<&Ledger::where>().get() != home; }, "on the other node");
  check(ledger.call<&Ledger::all>().get() == expected, "each call once and in order, over there too");
}

ActorOptions light() { return ActorOptions().light(); }

}  // namespace

const std::map<std::string, std::function<void()>>& durable_cases() {
  static const std::map<std::string, std::function<void()>> cases = {
      {"durable_node", [] { killed(ActorOptions().durable(Durable().snapshot_every(300)), false); }},
      {"durable_light", [] { killed(light().durable(Durable()), true); }},
      {"durable_shared", [] { killed(ActorOptions().durable(Durable().journal(shared())), false); }},
      {"durable_store",
       [] {
         killed(ActorOptions().durable(Durable().journal(JournalPlace::store()).snapshot_every(300)), false);
       }},
      {"durable_shared_node_lost", [] { node_lost(shared()); }},
      {"durable_store_node_lost", [] { node_lost(JournalPlace::store()); }},
      {"durable_state_node", [] { state(JournalPlace::node(), true); }},
      {"durable_state_shared", [] { state(shared(), false); }},
      {"durable_state_store", [] { state(JournalPlace::store(), false); }},
  };
  return cases;
}

}  // namespace probe
