#include "runtime/agent/event_queue.h"

#include <utility>

#include "core/base/fault_point.h"
#include "core/base/log.h"
#include "core/control/kj_error.h"

namespace troupe {
namespace {

FaultPoint report_twice("agent.report.twice"), report_late("agent.report.delay");
FaultPoint crash_before_report("agent.crash.before_report");
constexpr auto kLate = 50 * kj::MILLISECONDS;

}  // namespace

void EventQueue::connect(wire::Membership::Client membership) {
  membership_ = kj::mv(membership);
  flush_later();
}

void EventQueue::disconnect() {
  membership_ = nullptr;
  events_.clear();
  arena_.reset();
  output_.clear();
  lines_ = 0;
}

wire::NodeEvent::Builder EventQueue::add() {
  if (!arena_) arena_ = std::make_unique<capnp::MallocMessageBuilder>();
  events_.push_back(arena_->getOrphanage().newOrphan<wire::NodeEvent>());
  flush_later();
  return events_.back().get();
}

void EventQueue::forward(capnp::List<wire::NodeEvent>::Reader events) {
  if (!arena_) arena_ = std::make_unique<capnp::MallocMessageBuilder>();
  for (auto event : events) events_.push_back(arena_->getOrphanage().newOrphanCopy(event));
  flush_later();
}

void EventQueue::actor_failed(std::uint64_t actor, std::uint32_t incarnation, const Error& why) {
  auto failed = add().initActorFailed();
  auto of = failed.initOf();
  of.setActor(actor);
  of.setIncarnation(incarnation);
  write_failure(failed.initFailure(), why);
}

void EventQueue::process_ended(std::uint64_t process, const Error& how) {
  unheard_.insert(process);
  ended_.push_back(process);
  auto ended = add().initProcessEnded();
  ended.setProcess(process);
  write_failure(ended.initFailure(), how);
}

EventQueue::Output& EventQueue::output_of(std::uint64_t job, std::uint64_t process) {
  flush_later();
  for (auto& one : output_) {
    if (one.process == process && one.job == job) return one;
  }
  output_.push_back({job, process, {}, 0});
  return output_.back();
}

void EventQueue::output(std::uint64_t job, std::uint64_t process, std::string_view line) {
  auto& to = output_of(job, process);
  if (lines_ >= kMostLines) {
    ++to.dropped;
    return;
  }
  ++lines_;
  to.lines.emplace_back(line);
}

void EventQueue::dropped(std::uint64_t job, std::uint64_t process, std::uint64_t lines) {
  if (lines > 0) output_of(job, process).dropped += lines;
}

void EventQueue::flush_later() {
  if (flush_posted_) return;
  flush_posted_ = true;
  loop_.post([this, alive = std::weak_ptr<int>(alive_)] {
    if (alive.expired()) return;
    flush_posted_ = false;
    flush();
  });
}

void EventQueue::flush() {
  KJ_IF_MAYBE (membership, membership_) {
    if (on_their_way_ >= kMostOnTheirWay || (events_.empty() && output_.empty())) return;
    crash_before_report.crash(&loop_);
    if (report_late.fires()) {
      loop_.spawn("a late report",
                  loop_.timer().afterDelay(kLate).then([this, alive = std::weak_ptr<int>(alive_)] {
                    if (!alive.expired()) flush();
                  }));
      return;
    }
    // Output first: the driver reads a worker's last words before it hears of its end.
    std::size_t outputs = 0, lines = 0;
    while (outputs < output_.size() && lines < kMostLinesAMessage) lines += output_[outputs++].lines.size();
    bool all = outputs == output_.size();
    std::vector<std::uint64_t> told;
    auto request = membership->reportRequest();
    auto list = request.initEvents(static_cast<unsigned>(outputs + (all ? events_.size() : 0)));
    unsigned at = 0;
    for (; at < outputs; ++at) {
      auto to = list[at].initOutput();
      to.setJob(output_[at].job);
      to.setProcess(output_[at].process);
      to.setDropped(output_[at].dropped);
      auto texts = to.initLines(static_cast<unsigned>(output_[at].lines.size()));
      for (unsigned i = 0; i < texts.size(); ++i) texts.set(i, output_[at].lines[i].c_str());
    }
    output_.erase(output_.begin(), output_.begin() + static_cast<std::ptrdiff_t>(outputs));
    lines_ -= lines;
    if (all) {
      for (auto& event : events_) list.setWithCaveats(at++, event.getReader());
      events_.clear();
      arena_.reset();
      told = std::exchange(ended_, {});
    }
    if (report_twice.fires()) {
      auto again = membership->reportRequest();
      again.setEvents(request.getEvents().asReader());
      loop_.spawn("report to the head", again.send().ignoreResult());
    }
    ++on_their_way_;
    auto after = [this, alive = std::weak_ptr<int>(alive_)] {
      if (alive.expired()) return;
      --on_their_way_;
      if (!events_.empty() || !output_.empty()) flush_later();
    };
    loop_.spawn("report to the head",
                request.send().ignoreResult().then(
                    [this, after, told = std::move(told), alive = std::weak_ptr<int>(alive_)] {
                      after();
                      if (alive.expired()) return;
                      for (auto process : told) unheard_.erase(process);
                    },
                    [after](kj::Exception&& e) {
                      after();
                      kj::throwFatalException(kj::mv(e));
                    }));
    if (!all) flush_later();
  }
}

}  // namespace troupe
