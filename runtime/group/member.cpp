#include "runtime/group/member.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include "core/config/host_id.h"
#include "runtime/group/head_exchange.h"
#include "runtime/process/process.h"

namespace troupe {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::pair<std::uint64_t, ActorId>, std::weak_ptr<GroupMember>> members;
};

// Communicators end by waiting for their thread, so they are ended by a thread that nobody waits for.
class Reaper {
 public:
  static void end(std::shared_ptr<Communicator> communicator) {
    if (!communicator) return;
    static auto* one = new Reaper;  // outlives every thread
    std::lock_guard lock(one->mutex_);
    one->dead_.push_back(std::move(communicator));
    one->more_.notify_one();
  }

 private:
  Reaper() {
    std::thread([this] {
      for (;;) {
        std::unique_lock lock(mutex_);
        more_.wait(lock, [this] { return !dead_.empty(); });
        auto dead = std::exchange(dead_, {});
        lock.unlock();
        dead.clear();
      }
    }).detach();
  }
  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<std::shared_ptr<Communicator>> dead_;
};

// For comparison, where nobody else reaches the machine.
Transport transport() {
  const char* name = std::getenv("TROUPE_GROUP_TRANSPORT");
  return name != nullptr && std::strcmp(name, "gloo") == 0 ? Transport::gloo : Transport::sockets;
}

// The first that CUDA sees here, as all processes of the machine call it.
std::string gpu_of_this_process() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::string first = visible != nullptr ? visible : "0";
  return "GPU " + first.substr(0, first.find(',')) + " of host " + host_id();
}

Registry& registry() {
  static auto* one = new Registry;  // outlives every thread
  return *one;
}

}  // namespace

SubGroupMember::~SubGroupMember() { Reaper::end(std::move(communicator)); }

std::shared_ptr<GroupMember> GroupMember::of(const GroupDescription& description, ActorId actor,
                                             std::uint32_t incarnation) {
  Registry& all = registry();
  std::shared_ptr<GroupMember> before;  // of an earlier incarnation: its end takes the lock as well
  std::lock_guard lock(all.mutex);
  auto& slot = all.members[{description.id, actor}];
  auto member = slot.lock();
  if (!member || member->incarnation_ != incarnation) {
    before = std::move(member);
    member = std::make_shared<GroupMember>(description, actor, incarnation);
    slot = member;
  }
  return member;
}

GroupMember::GroupMember(GroupDescription description, ActorId actor, std::uint32_t incarnation)
    : description_(std::move(description)), actor_(actor), incarnation_(incarnation) {}

GroupMember::~GroupMember() {
  Registry& all = registry();
  {
    std::lock_guard lock(all.mutex);
    auto at = all.members.find({description_.id, actor_});
    if (at != all.members.end() && at->second.expired()) all.members.erase(at);
  }
  if (communicator_) communicator_->abort(Error(ErrorKind::cancelled, "the actor has left the group"));
  Reaper::end(std::move(communicator_));
  if (Process::running()) Process::get().leave_group(description_.id, actor_, incarnation_);
}

void GroupMember::join(bool reform, Done done) {
  std::shared_ptr<Communicator> before;
  GroupJoinRequest request;
  {
    std::unique_lock lock(mutex_);
    if (joining_) {
      lock.unlock();
      return done(
          Error(ErrorKind::invalid_argument, "the actor joins this group already: wait for that to end"));
    }
    joining_ = true;
    before = std::exchange(communicator_, nullptr);
    request.after = formed_.generation;
  }
  if (before) before->abort(Error(ErrorKind::cancelled, "the group forms anew"));
  Reaper::end(std::move(before));
  request.group = description_.id;
  for (auto member : description_.members) request.members.push_back({member});
  request.actor = actor_;
  request.incarnation = incarnation_;
  request.reform = reform;
  request.keep_order = description_.keep_order;
  request.patience_ms = description_.patience_ms;
  auto weak = weak_from_this();
  Process::get().join_group(
      std::move(request),
      // The group may be left while it forms: nobody waits for the answer then.
      [weak, done](Result<GroupFormed> answer) {
        auto self = weak.lock();
        if (!self) return done(Error(ErrorKind::cancelled, "the actor has left the group"));
        if (answer) return self->formed(std::move(*answer), done);
        self->finish_join();
        done(answer.error());
      },
      [weak](std::uint64_t generation, std::uint32_t, const Error& why) {
        if (auto self = weak.lock()) self->broken(generation, why);
      });
}

void GroupMember::finish_join() {
  std::lock_guard lock(mutex_);
  joining_ = false;
}

void GroupMember::formed(GroupFormed formed, const Done& done) {
  auto at = std::find_if(formed.ranks.begin(), formed.ranks.end(),
                         [this](const GroupRank& rank) { return rank.actor == actor_; });
  if (at == formed.ranks.end()) {
    finish_join();
    return done(Error(ErrorKind::internal, "the head formed the group without this rank"));
  }
  CommunicatorOptions options;
  options.rank = static_cast<int>(at - formed.ranks.begin());
  options.size = static_cast<int>(formed.ranks.size());
  options.generation = formed.generation;
  options.host = Process::get().tcp_host();
  options.token = Process::get().token();
  options.transport = transport();
  if (description_.gpu) {
    options.device = Device::cuda(0);
    options.place = gpu_of_this_process();
  }
  options.limit = std::chrono::milliseconds(description_.limit_ms);
  auto exchange =
      std::make_shared<HeadExchange>(description_.id, formed.generation, options.rank, options.size);
  auto communicator = std::make_shared<Communicator>(options, exchange);
  std::uint64_t generation = formed.generation;
  std::optional<Error> lost;
  {
    std::lock_guard lock(mutex_);
    formed_ = std::move(formed);
    communicator_ = communicator;
    if (lost_generation_ == generation) lost = why_lost_;
  }
  if (lost) communicator->abort(*lost);
  communicator->connect(std::chrono::milliseconds(description_.patience_ms))
      .then([weak = weak_from_this(), generation, done](const Result<void>& result) {
        if (auto self = weak.lock()) return self->connected(generation, result, done);
        done(Error(ErrorKind::cancelled, "the actor has left the group"));
      });
}

void GroupMember::connected(std::uint64_t generation, const Result<void>& result, const Done& done) {
  std::optional<Error> why;
  {
    std::lock_guard lock(mutex_);
    joining_ = false;
    if (!result) why = result.error();
    // The head's reason is better than that of a connection.
    if (!result && lost_generation_ == generation && why_lost_) why = why_lost_;
  }
  if (why)
    done(std::move(*why));
  else
    done({});
}

void GroupMember::broken(std::uint64_t generation, const Error& why) {
  std::shared_ptr<Communicator> communicator;
  {
    std::lock_guard lock(mutex_);
    lost_generation_ = generation;
    why_lost_ = why;
    if (formed_.generation == generation) communicator = communicator_;
  }
  if (communicator) communicator->abort(why);
}

std::shared_ptr<Communicator> GroupMember::communicator() const {
  std::lock_guard lock(mutex_);
  return communicator_;
}

std::uint64_t GroupMember::generation() const {
  std::lock_guard lock(mutex_);
  return formed_.generation;
}

std::vector<ActorId> GroupMember::ranks() const {
  std::lock_guard lock(mutex_);
  std::vector<ActorId> out;
  for (const GroupRank& rank : formed_.ranks) out.push_back(rank.actor);
  return out;
}

}  // namespace troupe
