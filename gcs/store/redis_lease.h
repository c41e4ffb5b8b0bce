// The active head's sign of life in a Redis that several heads share: a key that expires unless it is
// renewed. It only says when a standby should take over; that two heads never both write is seen to by the
// token of RedisStore. A Redis that does not answer says nothing about the head.
//
// Owner: the head command. Thread: that of the io_context. Lifetime: dropping it ends renewing or watching;
// the key then expires within kLife. Connects again for as long as it lives.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "gcs/store/redis_dialer.h"

#include <asio/steady_timer.hpp>

namespace troupe::gcs {

class RedisLease {
 public:
  static constexpr std::chrono::milliseconds kLife{1500}, kRenew{400}, kLook{200};
  static constexpr std::chrono::milliseconds kSilence{3000};  // then the connection is given up
  static constexpr int kLooks = 2;                            // that found no key, in a row: the head is gone
  // After a lost connection: a failover may have lost the key, so the head gets the time to set it again.
  static constexpr int kLooksAfterLoss = static_cast<int>(2 * kLife / kLook);

  RedisLease(asio::io_context& io, RedisAddress address, std::string prefix = "troupe:");
  RedisLease(const RedisLease&) = delete;

  void keep();  // sets and renews it
  void watch(
      std::function<void()> gone);  // once, when nobody kept it: now it is held for this one, for kLife

 private:
  void connect();
  void act();
  void take();
  void lost();
  void again(std::chrono::milliseconds pause);

  RedisDialer dialer_;
  std::string key_;
  std::function<void()> gone_;  // none: this one keeps it
  int needed_ = kLooks;
  int looks_ = 0;
  bool asked_ = false;  // and not answered yet
  std::chrono::steady_clock::time_point asked_at_;
  std::unique_ptr<RedisConnection> connection_;
  asio::steady_timer timer_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // expires with this, for timers
};

}  // namespace troupe::gcs
