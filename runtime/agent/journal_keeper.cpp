#include "runtime/agent/journal_keeper.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>

#include "core/base/log.h"
#include "runtime/durable/journal_file.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
constexpr auto kLook = 1 * kj::SECONDS;
constexpr auto kSettle = 1 * kj::SECONDS;
constexpr auto kKeepUnknown = std::chrono::hours(7 * 24);
constexpr std::size_t kMostAsked = 10'000, kMostRemoved = 2000;

bool remove(const std::string& path) {
  if (path.ends_with(kSharedNote)) {
    std::ifstream note(path);
    std::string folder;
    std::getline(note, folder);
    if (!folder.empty()) JournalFile::remove(folder);
  }
  JournalFile::remove(path);
  return true;
}

bool is_old(const std::string& path) {
  std::error_code bad, none;
  auto written = fs::last_write_time(path, bad);
  if (fs::exists(path + "/journal", none))
    written = std::max(written, fs::last_write_time(path + "/journal", none));
  if (bad || fs::file_time_type::clock::now() - written < kKeepUnknown) return false;
  log(Level::warning, "removing files of an actor that the head has not known for a week: " + path);
  return true;
}

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
          // One look at the folder for all of them: there may be thousands.
          std::multimap<std::uint64_t, std::string> here;
          for (Entry& entry : idle()) here.emplace(entry.actor, std::move(entry.path));
          auto of = [&](std::uint64_t actor) {
            auto [begin, end] = here.equal_range(actor);
            std::vector<std::string> paths;
            for (auto at = begin; at != end; ++at) paths.push_back(at->second);
            return paths;
          };
          std::size_t removed = 0;  // the rest in the next look
          for (auto actor : answer.getDead()) {
            for (const auto& path : of(actor)) removed += remove(path);
            if (removed >= kMostRemoved) return;
          }
          for (auto actor : answer.getUnknown()) {
            auto paths = of(actor);
            if (!std::any_of(paths.begin(), paths.end(), is_old)) continue;
            for (const auto& path : paths) removed += remove(path);
            if (removed >= kMostRemoved) return;
          }
        },
        [](kj::Exception&&) {});  // asked again
  }
  return kj::READY_NOW;
}

kj::Promise<void> JournalKeeper::settle() {
  return ask().exclusiveJoin(loop_.timer().afterDelay(kSettle)).then([this] { membership_ = nullptr; });
}

}  // namespace troupe
