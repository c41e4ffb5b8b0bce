#include "gcs/store/redis_connection.h"

#include <hiredis/async.h>
#include <hiredis/hiredis.h>

#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>

namespace troupe::gcs {

struct RedisConnection::State : std::enable_shared_from_this<State> {
  State(asio::io_context& io, End end) : io(io), fd(io), on_end(std::move(end)) {}

  asio::io_context& io;
  asio::posix::stream_descriptor fd;
  End on_end;
  redisAsyncContext* context = nullptr;  // none: hiredis has freed it
  bool want_read = false, reading = false;
  bool want_write = false, writing = false;
  bool ended_once = false;
  bool inside = false;   // hiredis' callbacks run; it must not be freed now
  bool dropped = false;  // by the owner: nobody is to be told of anything

  void run(void (*work)(redisAsyncContext*)) {
    inside = true;
    work(context);
    inside = false;
    if (dropped && context != nullptr) redisAsyncFree(context);
  }

  void read() {
    if (reading || !want_read || context == nullptr) return;
    reading = true;
    fd.async_wait(asio::posix::stream_descriptor::wait_read,
                  [self = shared_from_this()](asio::error_code bad) {
                    self->reading = false;
                    if (bad || self->context == nullptr) return;
                    self->run(redisAsyncHandleRead);
                    self->read();
                  });
  }
  void write() {
    if (writing || !want_write || context == nullptr) return;
    writing = true;
    fd.async_wait(asio::posix::stream_descriptor::wait_write,
                  [self = shared_from_this()](asio::error_code bad) {
                    self->writing = false;
                    if (bad || self->context == nullptr) return;
                    self->run(redisAsyncHandleWrite);
                    self->write();
                  });
  }
  void ended(const std::string& why) {
    if (ended_once || dropped) return;
    ended_once = true;
    asio::post(io, [why, self = shared_from_this()] {
      if (!self->dropped) self->on_end(why);
    });
  }
};

namespace {

using StatePtr = void*;

std::string reason(const redisAsyncContext* context) {
  return context->errstr != nullptr && context->errstr[0] != 0 ? context->errstr : "the connection ended";
}

}  // namespace

RedisConnection::RedisConnection(asio::io_context& io, const RedisAddress& address, End on_end)
    : state_(std::make_shared<State>(io, std::move(on_end))) {
  redisAsyncContext* context = address.unix_path.empty()
                                   ? redisAsyncConnect(address.host.c_str(), address.port)
                                   : redisAsyncConnectUnix(address.unix_path.c_str());
  if (context == nullptr) {
    state_->ended("out of memory");
    return;
  }
  if (context->err != 0) {
    std::string why = reason(context);
    redisAsyncFree(context);
    state_->ended(why);
    return;
  }
  State& state = *state_;
  state.context = context;
  state.fd.assign(context->c.fd);
  state.fd.native_non_blocking(true);
  context->data = &state;
  context->ev.data = &state;
  context->ev.addRead = [](StatePtr p) {
    static_cast<State*>(p)->want_read = true;
    static_cast<State*>(p)->read();
  };
  context->ev.delRead = [](StatePtr p) { static_cast<State*>(p)->want_read = false; };
  context->ev.addWrite = [](StatePtr p) {
    static_cast<State*>(p)->want_write = true;
    static_cast<State*>(p)->write();
  };
  context->ev.delWrite = [](StatePtr p) { static_cast<State*>(p)->want_write = false; };
  // hiredis closes the descriptor itself after this.
  context->ev.cleanup = [](StatePtr p) {
    auto* state = static_cast<State*>(p);
    state->context = nullptr;
    if (state->fd.is_open()) state->fd.release();
  };
  redisAsyncSetConnectCallback(context, [](const redisAsyncContext* c, int status) {
    if (status != REDIS_OK) static_cast<State*>(c->data)->ended(reason(c));
  });
  redisAsyncSetDisconnectCallback(
      context, [](const redisAsyncContext* c, int) { static_cast<State*>(c->data)->ended(reason(c)); });
}

RedisConnection::~RedisConnection() {
  state_->dropped = true;
  if (!state_->inside && state_->context != nullptr) redisAsyncFree(state_->context);
}

void RedisConnection::command(const std::vector<std::string>& words, Reply reply) {
  if (state_->context == nullptr) return;
  std::vector<const char*> text;
  std::vector<std::size_t> sizes;
  text.reserve(words.size());
  sizes.reserve(words.size());
  for (const std::string& word : words) {
    text.push_back(word.data());
    sizes.push_back(word.size());
  }
  struct Waiting {
    std::shared_ptr<State> state;
    Reply reply;
  };
  auto* waiting = new Waiting{state_, std::move(reply)};
  auto arrived = [](redisAsyncContext*, void* answer, void* data) {
    std::unique_ptr<Waiting> waiting(static_cast<Waiting*>(data));
    if (answer != nullptr && !waiting->state->dropped) waiting->reply(*static_cast<redisReply*>(answer));
  };
  int status = redisAsyncCommandArgv(state_->context, arrived, waiting, static_cast<int>(words.size()),
                                     text.data(), sizes.data());
  if (status != REDIS_OK) delete waiting;
}

}  // namespace troupe::gcs
