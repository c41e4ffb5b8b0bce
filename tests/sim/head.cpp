#include "tests/sim/head.h"

namespace troupe::sim {

Head::Head(World& world, std::string host)
    : world_(world),
      number_(++world.heads_started),
      host_(std::move(host)),
      process_(world.time, [&world](const std::string& text) { world.note("head: " + text); }),
      store_(world.time, world.random, world.disk, world.chances.store) {
  gcs::HeadServer::Options options;
  options.core.grace = 6'000;
  options.core.most_back_off = 2'000;
  options.core.steady = 5'000;
  options.core.id_block = 20;
  options.now = [&time = world.time] { return 1'700'000'000'000 + time.now() / kMilli; };
  options.version = "simulated";
  options.ownership_check = 1 * kj::SECONDS;
  server_ = kj::heap<gcs::HeadServer>(process_.timer(), store_, kj::mv(options));
  process_.spawn("starting the head", server_->start().then(
                                          [this] {
                                            world_.note(host_ + " serves");
                                            listener_ = kj::heap<capnp::TwoPartyServer>(server_->bootstrap());
                                            state_ = State::serving;
                                          },
                                          [this](kj::Exception&&) { state_ = State::over; }));
  process_.spawn("serving", server_->shutdown_requested().then([this] { state_ = State::over; },
                                                               [this](kj::Exception&&) {
                                                                 world_.reach("head fenced");
                                                                 world_.note(host_ + " is fenced");
                                                                 state_ = State::over;
                                                               }));
}

void Head::crash() {
  world_.network.dies(&process_, silent_);
  store_.mute();
  state_ = State::over;
}

Head::~Head() noexcept(false) {
  world_.network.dies(&process_, silent_);
  server_ = nullptr;
  listener_ = nullptr;
}

}  // namespace troupe::sim
