// How long a node may be silent before it is taken for dead. One that is short of processor time sends its
// heartbeats late, the more so the longer it lasts: it is given three times the longest pause that it has
// lately shown.
//
// A pure value: it is told the time. Owner: NodePeer.
#pragma once

#include <kj/time.h>

#include <algorithm>

namespace troupe::gcs {

class Silence {
 public:
  // `least`: the patience with a node that is on time, > 0.
  Silence(kj::TimePoint now, kj::Duration least) : heard_(now), least_(least) {}

  // A sign of life. A long pause counts for less and less, by a tenth of the time that passes.
  void heard(kj::TimePoint now) {
    kj::Duration pause = now - heard_;
    longest_ = std::max(pause, longest_ - pause / 10);
    heard_ = now;
  }
  // Time in which the listener did not run is not the node's silence.
  void forgive(kj::Duration time) { heard_ = heard_ + time; }

  // Between `least` and three times that: those who wait for the verdict have limits too
  // (ControlPlane::kVerdictMs).
  kj::Duration patience() const { return std::clamp(longest_ * 3, least_, least_ * 3); }
  bool too_long(kj::TimePoint now) const { return now - heard_ > patience(); }

 private:
  kj::TimePoint heard_;
  kj::Duration least_;
  kj::Duration longest_ = 0 * kj::SECONDS;
};

}  // namespace troupe::gcs
