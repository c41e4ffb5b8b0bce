// Objects: immutable values in the shared memory of a node, read there without copying, and passed by
// reference.
//
//   troupe::ObjectRef<Tensor> ref = troupe::put(tensor);      // one copy, into shared memory
//   actor.call<&Trainer::step>(ref);                          // passes the reference
//   troupe::Object<Tensor> batch = ref.get();                 // no copy on the object's node
//   batch->view<float, 2>()(0, 0);
//
// An object lives as long as a reference to it does, in any process of the cluster, also inside of arguments
// and results on their way; its memory goes when the last one and the last Object are gone. It does not live
// on its creator: that may end before. When memory is short, objects that nobody reads are written to disk
// and come back when they are read; a put waits until there is room.
//
// What get() gives for the types that lie in memory as they are used: a Tensor, a std::span<const U> for a
// std::vector<U> of numbers or other trivial types, a std::string_view for a std::string. Other types are
// decoded, once for each get().
//
// Any thread. Errors: ObjectLost (no copy is left), ObjectStoreFull (neither memory nor disk has room),
// DeadlineExceeded, Unavailable (no object store on this machine).
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/tensor/tensor.h"
#include "runtime/objects/object_client.h"
#include "troupe/detail/object_origin.h"
#include "troupe/errors.h"
#include "troupe/future.h"
#include "troupe/task.h"

namespace troupe {

// How long a put waits for room, and a get for the object, unless told otherwise.
inline constexpr std::chrono::milliseconds kObjectPatience{60'000};

template <class T>
class Object;
template <class T>
class ObjectRef;

namespace detail {

template <class U>
inline constexpr bool lies_flat =
    std::is_trivially_copyable_v<U> && !std::is_same_v<U, bool> && !std::is_pointer_v<U>;

ObjectClient::Space object_space(std::uint64_t size, std::chrono::milliseconds patience);
void check_storable(const Writer& encoded);  // throws InvalidArgument
Error not_decodable(const std::exception& why);

// How a value lies in an object, and what a reader gets. The general case: encoded.
template <class T>
struct ObjectFormat {
  using View = T;
  static ObjectClient::Space write(const T& value, std::uint64_t& size, std::chrono::milliseconds patience) {
    Writer encoded;
    encode(encoded, value);
    check_storable(encoded);
    size = encoded.size();
    auto space = object_space(size, patience);
    space.write(0, encoded.bytes());
    return space;
  }
  static std::shared_ptr<const View> open(const ObjectBytes& from) {
    auto value = std::make_shared<T>();
    Reader reader(from.bytes);
    decode(reader, *value);
    return value;
  }
};

template <class U>
requires lies_flat<U>
struct ObjectFormat<std::vector<U>> {
  using View = std::span<const U>;
  static ObjectClient::Space write(std::span<const U> value, std::uint64_t& size,
                                   std::chrono::milliseconds patience) {
    size = value.size_bytes();
    auto space = object_space(size, patience);
    space.write(0, std::as_bytes(value));
    return space;
  }
  static std::shared_ptr<const View> open(const ObjectBytes& from) {
    return std::make_shared<const View>(reinterpret_cast<const U*>(from.bytes.data()),
                                        from.bytes.size() / sizeof(U));
  }
};

template <>
struct ObjectFormat<std::string> {
  using View = std::string_view;
  static ObjectClient::Space write(std::string_view value, std::uint64_t& size,
                                   std::chrono::milliseconds patience);
  static std::shared_ptr<const View> open(const ObjectBytes& from);
};

// The elements, packed, then their description.
template <>
struct ObjectFormat<Tensor> {
  using View = Tensor;
  static ObjectClient::Space write(const Tensor& value, std::uint64_t& size,
                                   std::chrono::milliseconds patience);
  static std::shared_ptr<const View> open(const ObjectBytes& from);
};

Future<ObjectBytes> open_object(const Ref<ObjectHandle>& object, std::chrono::milliseconds patience);
ObjectBytes open_object_now(const Ref<ObjectHandle>& object, std::chrono::milliseconds patience);
[[noreturn]] void no_object();

}  // namespace detail

// What was read: a view into shared memory, which stays as long as a copy of this does.
template <class T>
class Object {
 public:
  using View = typename detail::ObjectFormat<T>::View;

  Object() = default;
  explicit Object(ObjectBytes bytes) try : owner_(bytes.owner), view_(detail::ObjectFormat<T>::open(bytes)) {
  } catch (const DecodeError& e) {
    throw_failure(detail::not_decodable(e));
  }

  const View& operator*() const { return *view_; }
  const View* operator->() const { return view_.get(); }
  explicit operator bool() const { return view_ != nullptr; }
  // Keeps the memory readable.
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  std::shared_ptr<const void> owner_;
  std::shared_ptr<const View> view_;
};

// A reference to an object. Copyable, an argument and a result of calls, alone or inside of other types; not
// of constructors, and not of durable actors.
template <class T>
class ObjectRef {
 public:
  ObjectRef() = default;  // of nothing
  explicit ObjectRef(Ref<ObjectHandle> object) : object_(std::move(object)) {}

  explicit operator bool() const { return static_cast<bool>(object_); }
  // Of what it refers to now: an object that was lost and made again (CallOptions::recompute) is another one.
  ObjectId id() const { return object_ ? handle()->id() : ObjectId{}; }
  std::uint64_t size() const { return object_ ? handle()->size() : 0; }  // bytes
  bool operator==(const ObjectRef& other) const { return id() == other.id(); }

  // Waits until the object can be read.
  Object<T> get(std::chrono::milliseconds patience = kObjectPatience) const {
    return Object<T>(open_now(patience));
  }
  Future<Object<T>> future(std::chrono::milliseconds patience = kObjectPatience) const {
    auto opened = origin_ ? origin_->open(patience) : detail::open_object(checked(), patience);
    return std::move(opened).then([](ObjectBytes bytes) { return Object<T>(std::move(bytes)); });
  }
  // True when it could be read at once now, or within that time.
  bool wait_for(std::chrono::milliseconds limit) const {
    try {
      open_now(limit);
      return true;
    } catch (const DeadlineExceeded&) {
      return false;
    }
  }
  // Inside Task, Generator: suspends the coroutine, not the thread.
  auto operator co_await() const { return detail::FutureAwaiter<Object<T>>(future().release()); }

  template <class Archive>
  void save(Archive& archive) const {
    std::uint32_t place = 0;  // among the message's attachments, from 1; 0: none
    if (object_) place = static_cast<std::uint32_t>(archive.writer().attach(attachment()) + 1);
    archive(place);
  }
  template <class Archive>
  void load(Archive& archive) {
    std::uint32_t place = 0;
    archive(place);
    object_ = nullptr;
    origin_ = nullptr;
    if (place != 0)
      object_ = Ref<ObjectHandle>::share(static_cast<ObjectHandle*>(&archive.reader().attachment(place - 1)));
  }

 private:
  friend struct detail::Recomputable<ObjectRef>;
  Ref<ObjectHandle> handle() const { return origin_ ? origin_->current() : object_; }
  Ref<Attachment> attachment() const { return Ref<Attachment>::share(handle().get()); }
  ObjectBytes open_now(std::chrono::milliseconds patience) const {
    if (!origin_) return detail::open_object_now(checked(), patience);
    if (auto bytes = ObjectClient::get().try_open(*origin_->current())) return *bytes;
    return origin_->open(patience).get();
  }
  const Ref<ObjectHandle>& checked() const {
    if (!object_) detail::no_object();
    return object_;
  }

  Ref<ObjectHandle> object_;
  std::shared_ptr<detail::ObjectOrigin> origin_;  // it can be made again
};

namespace detail {

// The result of a call that may be made again.
template <class T>
struct Recomputable<ObjectRef<T>> {
  static constexpr bool possible = true;

  template <class Call, class Arguments>
  static ObjectRef<T> mark(ObjectRef<T> made, int times, const Arguments& arguments, Call call) {
    Ref<ObjectHandle> object = made.handle();
    if (!object) return made;
    ObjectOrigin::Sources sources;
    std::apply([&](const auto&... argument) { (add_source(sources, argument), ...); }, arguments);
    if (ObjectOrigin::depth_over(sources) > ObjectOrigin::kMostDepth) return ObjectRef<T>(std::move(object));
    auto again = [call = std::move(call)](std::chrono::milliseconds limit) {
      return call(limit).then([](ObjectRef<T> made) { return made.handle(); });
    };
    made.origin_ =
        std::make_shared<ObjectOrigin>(std::move(object), times, std::move(sources), std::move(again));
    return made;
  }
  template <class A>
  static void add_source(ObjectOrigin::Sources& sources, const A& argument) {
    if constexpr (Recomputable<A>::possible) Recomputable<A>::source_of(sources, argument);
  }
  static void source_of(ObjectOrigin::Sources& sources, const ObjectRef<T>& of) {
    if (of.origin_) sources.push_back(of.origin_);
  }
};

}  // namespace detail

// Puts a copy of the value into shared memory. Waits for room, for `patience` at most.
template <class T>
ObjectRef<T> put(const T& value, std::chrono::milliseconds patience = kObjectPatience) {
  std::uint64_t size = 0;
  auto space = detail::ObjectFormat<T>::write(value, size, patience);
  return ObjectRef<T>(space.seal(size));
}
template <class U>
ObjectRef<std::vector<std::remove_const_t<U>>> put(std::span<U> values,
                                                   std::chrono::milliseconds patience = kObjectPatience) {
  std::uint64_t size = 0;
  auto space = detail::ObjectFormat<std::vector<std::remove_const_t<U>>>::write(values, size, patience);
  return ObjectRef<std::vector<std::remove_const_t<U>>>(space.seal(size));
}

}  // namespace troupe
