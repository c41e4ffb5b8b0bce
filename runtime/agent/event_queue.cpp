#include "runtime/agent/event_queue.h"

#include <algorithm>

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
  ++connection_;
  on_their_way_ = 0;
  for (Report& report : reports_) report.sent = false;
  membership_ = kj::mv(membership);
  flush_later();
}

void EventQueue::disconnect() { membership_ = nullptr; }

void EventQueue::forget() {
  reports_.clear();
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

void EventQueue::actor_alive(std::uint64_t actor, std::uint32_t incarnation, wire::Endpoint::Reader where,
                             std::uint16_t lane) {
  auto alive = add().initActorAlive();
  auto of = alive.initOf();
  of.setActor(actor);
  of.setIncarnation(incarnation);
  alive.setEndpoint(where);
  alive.getEndpoint().setLane(lane);
}

void EventQueue::actor_failed(std::uint64_t actor, std::uint32_t incarnation, const Error& why) {
  auto failed = add().initActorFailed();
  auto of = failed.initOf();
  of.setActor(actor);
  of.setIncarnation(incarnation);
  write_failure(failed.initFailure(), why);
}

void EventQueue::process_ended(std::uint64_t process, const Error& how) {
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

void EventQueue::close_report() {
  if (events_.empty()) return;
  reports_.push_back({next_report_++, std::move(arena_), std::move(events_), false});
  events_.clear();
}

void EventQueue::flush() {
  if (membership_ == nullptr) return;
  if (!events_.empty()) crash_before_report.crash(&loop_);
  if (!events_.empty() && report_late.fires()) {
    loop_.spawn("a late report",
                loop_.timer().afterDelay(kLate).then([this, alive = std::weak_ptr<int>(alive_)] {
                  if (!alive.expired()) flush();
                }));
    return;
  }
  while (on_their_way_ < kMostOnTheirWay) {
    // Output first: the driver reads a worker's last words before it hears of its end.
    std::size_t outputs = 0, lines = 0;
    while (outputs < output_.size() && lines < kMostLinesAMessage) lines += output_[outputs++].lines.size();
    Report* report = nullptr;
    if (outputs == output_.size()) {
      auto next = std::find_if(reports_.begin(), reports_.end(), [](const Report& one) { return !one.sent; });
      if (next == reports_.end()) {
        close_report();
        if (!reports_.empty() && !reports_.back().sent) report = &reports_.back();
      } else {
        report = &*next;
      }
    }
    if (outputs == 0 && report == nullptr) return;
    lines_ -= lines;
    send(outputs, report);
  }
}

void EventQueue::send(std::size_t outputs, Report* report) {
  auto request = KJ_ASSERT_NONNULL(membership_).reportRequest();
  auto list =
      request.initEvents(static_cast<unsigned>(outputs + (report != nullptr ? report->events.size() : 0)));
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
  std::uint64_t number = 0;
  if (report != nullptr) {
    for (auto& event : report->events) list.setWithCaveats(at++, event.getReader());
    report->sent = true;
    number = report->number;
  }
  if (report_twice.fires()) {
    auto again = KJ_ASSERT_NONNULL(membership_).reportRequest();
    again.setEvents(request.getEvents().asReader());
    loop_.spawn("report to the head", again.send().ignoreResult());
  }
  ++on_their_way_;
  std::weak_ptr<int> alive = alive_;
  std::uint64_t connection = connection_;
  loop_.spawn("report to the head", request.send().ignoreResult().then(
                                        [this, alive, connection, number] {
                                          if (!alive.expired()) answered(connection, number, true);
                                        },
                                        [this, alive, connection, number](kj::Exception&& failure) {
                                          if (alive.expired()) return;
                                          answered(connection, number, false);
                                          // With the connection gone, the agent sees to it.
                                          if (!connection_lost(failure))
                                            kj::throwFatalException(kj::mv(failure));
                                        }));
}

void EventQueue::answered(std::uint64_t connection, std::uint64_t number, bool recorded) {
  if (recorded && number != 0) {
    while (!reports_.empty() && reports_.front().number <= number) reports_.pop_front();
    recorded_(number);
  }
  if (connection != connection_) return;
  --on_their_way_;
  if (!recorded && number != 0) {
    // The store was away for longer than the head waits.
    for (Report& report : reports_) {
      if (report.number == number) report.sent = false;
    }
    auto alive = std::weak_ptr<int>(alive_);
    loop_.spawn("repeating a report", loop_.timer().afterDelay(kRepeat).then([this, alive] {
      if (!alive.expired()) flush_later();
    }));
    return;
  }
  if (!events_.empty() || !output_.empty() || !reports_.empty()) flush_later();
}

}  // namespace troupe
