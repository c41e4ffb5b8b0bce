#include "training.h"

namespace digits {
namespace {

class WithServer final : public Crew<Trainer> {
 public:
  WithServer(const std::string& data, std::uint64_t seed) : Crew(data) {
    for (std::uint32_t i = 0; i < kTrainers; ++i)
      trainers_.push_back(troupe::spawn<Trainer>(restartable(), source(i), i));
    server_ = troupe::spawn<Server>(safe(), trainers_, seed);
  }
  void begin(std::uint32_t until) override {
    training_ = server_.call<&Server::train>(until - done_);
    done_ = until;
  }
  // The server asks again for gradients whose trainer died.
  Snapshot finish() override {
    Progress progress = training_.get();
    return {progress.step, progress.loss, server_.call<&Server::parameters>().get()};
  }
  void end() override {
    Crew::end();
    server_.kill().get();
  }

 private:
  troupe::Handle<Server> server_;
  troupe::Future<Progress> training_;
  std::uint32_t done_ = 0;
};

}  // namespace

std::unique_ptr<Training> train_with_server(const std::string& data, std::uint64_t seed) {
  return std::make_unique<WithServer>(data, seed);
}

}  // namespace digits
