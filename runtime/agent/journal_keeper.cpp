#include "runtime/agent/journal_keeper.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "core/base/log.h"
#include "runtime/durable/journal_file.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
constexpr auto kLook = 1 * kj::SECONDS;
constexpr auto kSettle = 1 * kj::SECONDS;
constexpr auto kKeepUnknown = std::chrono::hours(7 * 24);
constexpr std::size_t kMostAsked = 10'000;

}  // namespace

std::vector<JournalKeeper::Entry> JournalKeeper::idle() const {
  std::vector<Entry> out;
  std::error_code bad;
  for (fs::directory_iterator at(folder_, bad), end; !bad && at != end && out.size() < kMostAsked;
       at.increment(bad)) {
    std::string name = at->path().filename().string();
    std::uint64_t actor = 0;
    auto [rest, wrong] = std::from_chars(name.data(), name.data() + name.size(), actor);
    if (wrong != std::errc{} || rest == name.data() + name.size() || *rest != '-') continue;
    if (!runs_here_(actor)) out.push_back({actor, at->path().string()});
  }
  return out;
}

void JournalKeeper::watch(wire::Membership::Client membership) {
  membership_ = kj::mv(membership);
  // One watch at a time.
  alive_ = std::make_shared<int>();
  loop_.spawn("looking after journals", look());
}

kj::Promise<void> JournalKeeper::look() {
  std::weak_ptr<int> alive = alive_;
  return loop_.timer().afterDelay(kLook).then([this, alive]() -> kj::Promise<void> {
    if (alive.expired()) return kj::READY_NOW;
    return ask().then([this, alive]() -> kj::Promise<void> {
      if (alive.expired()) return kj::READY_NOW;
      return look();
    });
  });
}

kj::Promise<void> JournalKeeper::ask() {
  auto entries = idle();
  if (entries.empty()) return kj::READY_NOW;
  KJ_IF_MAYBE (membership, membership_) {
    auto request = membership->deadActorsRequest();
    auto asked = request.initAsked(static_cast<unsigned>(entries.size()));
    for (unsigned i = 0; i < asked.size(); ++i) asked.set(i, entries[i].actor);
    std::weak_ptr<int> alive = alive_;
    return request.send().then(
        [this, alive](capnp::Response<wire::Membership::DeadActorsResults> answer) {
          if (alive.expired()) return;
          for (auto actor : answer.getDead()) remove(actor);
          for (auto actor : answer.getUnknown()) remove_old(actor);
        },
        [](kj::Exception&&) {});  // asked again
  }
  return kj::READY_NOW;
}

kj::Promise<void> JournalKeeper::settle() {
  return ask().exclusiveJoin(loop_.timer().afterDelay(kSettle)).then([this] { membership_ = nullptr; });
}

void JournalKeeper::remove(std::uint64_t actor) {
  for (const Entry& entry : idle()) {
    if (entry.actor != actor) continue;
    std::error_code ignored;
    if (entry.path.ends_with(kSharedNote)) {
      std::ifstream note(entry.path);
      std::string folder;
      std::getline(note, folder);
      if (!folder.empty()) JournalFile::remove(folder);
    }
    JournalFile::remove(entry.path);
  }
}

void JournalKeeper::remove_old(std::uint64_t actor) {
  for (const Entry& entry : idle()) {
    std::error_code bad;
    auto written = fs::last_write_time(entry.path, bad);
    std::error_code none;
    if (fs::exists(entry.path + "/journal", none)) {
      written = std::max(written, fs::last_write_time(entry.path + "/journal", none));
    }
    if (entry.actor != actor || bad || fs::file_time_type::clock::now() - written < kKeepUnknown) continue;
    log(Level::warning, "removed files of an actor that the head has not known for a week: " + entry.path);
    remove(actor);
    return;
  }
}

}  // namespace troupe
