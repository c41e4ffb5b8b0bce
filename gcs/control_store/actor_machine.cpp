#include "gcs/control_store/actor_machine.h"

namespace troupe::gcs {
namespace {

struct Row {
  Phase from;
  Trigger trigger;
  Step step;
};

// ALIVE is not written: the place command is, and a node that comes back reports what runs.
constexpr Row kTable[] = {
    {Phase::pending, Trigger::placed, {Phase::starting, kBegin | kPersist}},
    {Phase::pending, Trigger::doomed, {Phase::dead, kPersist | kAnnounce | kBury}},
    {Phase::starting, Trigger::alive, {Phase::alive, kAnnounce}},
    {Phase::starting, Trigger::failed, {Phase::restarting, kPersist | kAnnounce | kRequeue}},
    {Phase::starting, Trigger::doomed, {Phase::dead, kPersist | kAnnounce | kBury}},
    {Phase::alive, Trigger::failed, {Phase::restarting, kPersist | kAnnounce | kRequeue}},
    {Phase::alive, Trigger::doomed, {Phase::dead, kPersist | kAnnounce | kBury}},
    {Phase::restarting, Trigger::placed, {Phase::starting, kBegin | kPersist}},
    {Phase::restarting, Trigger::doomed, {Phase::dead, kPersist | kAnnounce | kBury}},
};

}  // namespace

std::optional<Step> step(Phase from, Trigger trigger) {
  for (const Row& row : kTable) {
    if (row.from == from && row.trigger == trigger) return row.step;
  }
  return std::nullopt;
}

}  // namespace troupe::gcs
